"""Write one column: encode windows of rows as frames, and collect its content hash and marks.

A *window* is a run of whole granules, the same for all columns (see ``parts.write.part_writer``). Inside it the column
is cut into frames of a power of two granules. A frame has at most 1 MiB of values where granules allow, or 8 MiB of
repetitive strings.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRINGS_VERSION, decode_dictionary, encode_if_repetitive
from parts.format.codecs import DEFAULT_CODEC, Codec, DenseEncoder, Encoder, parse_codec
from parts.format.content_hash import ColumnHasher
from parts.format.file_names import FIRST_VERSION
from parts.format.frames import EncodedFrame, encode_frame
from parts.format.hashed_file import HashedFile, InMemoryFile
from parts.format.marks import ColumnMarks
from parts.table.table_description import TableSchema

MAX_FRAME_BYTES = 1024 * 1024
_REPEATED_TEXTS = 8
"""Frames of repetitive strings may have this many times more text."""


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The facts of a written column. ``digest`` is that of ``parts.format.content_hash``."""

    field: pa.Field
    stored_bytes: int
    uncompressed_bytes: int
    digest: bytes
    version: tuple[int, int] = FIRST_VERSION
    """The first format version of parts that may have it (``parts.format.part_files``)."""


class ColumnWriter:
    """Encodes and places the frames of one column. Used by one thread at a time."""

    def __init__(self, field: pa.Field, encoder: Encoder, granularity: int, *, with_dictionaries: bool = False) -> None:
        self.field = field
        self.hasher = ColumnHasher(field)
        self.stored_bytes = 0
        self.uncompressed_bytes = 0
        self._encoder = encoder
        self._granularity = granularity
        self._seeks_repeated = with_dictionaries and pa.types.is_string(field.type)
        self._version = FIRST_VERSION
        self._offsets: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []

    def encode(self, window: pa.Array, window_bytes: int) -> list[EncodedFrame]:
        """Returns the frames of the next window. ``window_bytes`` is its size without dictionaries.

        Strings may come with a dictionary (``parts.blocks.dictionary_strings``).
        """
        self.hasher.update(window)
        self.uncompressed_bytes += window_bytes
        dictionary = encode_if_repetitive(window) if self._seeks_repeated else None
        if dictionary is not None:
            window = dictionary
            window_bytes //= _REPEATED_TEXTS
            self._version = DICTIONARY_STRINGS_VERSION
        elif pa.types.is_string(self.field.type):
            window = decode_dictionary(window)
        granules = -(-len(window) // self._granularity)
        per_frame = _granules_per_frame(granules, window_bytes)
        step = per_frame * self._granularity
        return [encode_frame(window.slice(start, step), self._encoder) for start in range(0, len(window), step)]

    def write_frames(self, frames: list[EncodedFrame], file: HashedFile | InMemoryFile) -> None:
        """Appends the frames to ``file`` and remembers their places."""
        for frame in frames:
            granules = -(-frame.rows // self._granularity)
            self._offsets.append(np.full(granules, file.size, np.uint64))
            self._rows.append(np.arange(granules, dtype=np.uint32) * np.uint32(self._granularity))
            file.write(frame.pieces)
            self.stored_bytes += frame.size

    def summarize(self) -> ColumnSummary:
        """Returns the summary of everything written."""
        version = max(self._version, self._encoder.version)
        return ColumnSummary(self.field, self.stored_bytes, self.uncompressed_bytes, self.hasher.digest(), version)

    def build_marks(self) -> ColumnMarks:
        """Returns the marks of everything written."""
        if not self._offsets:
            return ColumnMarks(np.empty(0, np.uint64), np.empty(0, np.uint32))
        return ColumnMarks(np.concatenate(self._offsets), np.concatenate(self._rows))


def _granules_per_frame(granules: int, window_bytes: int) -> int:
    per_frame = 1 << max(0, (granules - 1).bit_length())
    while per_frame > 1 and window_bytes * per_frame > MAX_FRAME_BYTES * granules:
        per_frame //= 2
    return per_frame


def make_encoders(schema: TableSchema, default: str, is_dense: bool) -> Sequence[Encoder]:
    """Returns the encoders of the columns. Dense ones replace the default codec if ``is_dense``."""
    codecs = parse_codecs(schema, default)
    if not is_dense or default != DEFAULT_CODEC:
        return codecs
    is_default = [column.codec.upper() in ("", "DEFAULT") for column in schema.columns]
    return [DenseEncoder(codec) if chosen else codec for codec, chosen in zip(codecs, is_default, strict=True)]


@functools.lru_cache(maxsize=1024)
def parse_codecs(schema: TableSchema, default: str) -> tuple[Codec, ...]:
    """Returns the parsed codecs of the columns."""
    return tuple(parse_codec(column.codec, column.type, default) for column in schema.columns)
