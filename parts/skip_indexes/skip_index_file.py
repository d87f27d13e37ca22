"""``skip.idx``: the skip indexes of a part, one after the other.

Integers are little-endian.

``u32`` length of a JSON header, the header, zeros up to a multiple of 8, then for every index its values
(``parts.format.array_file``), padded likewise. The header is a list with one entry for each index. The entry begins
with name, kind, expressions, types, arguments and granularity, by which a reader recognises the table's current index.
The offset after the header, the size, and the size before compression follow.

An index summarises the part's columns as they were written. It is used only if the table's columns are the same
(:meth:`parts.read.opened_part.OpenedPart.read_skip_index`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parts.common.errors import CorruptionError
from parts.format.array_file import LazyNamedArrays, encode_named_arrays
from parts.format.file_names import SKIP_INDEXES
from parts.skip_indexes.minmax_index import NamedArrays
from parts.table.table_description import SkipIndex


@dataclass(frozen=True, slots=True)
class EncodedSkipIndex:
    """One index in a file: its description, its bytes, and their size before compression."""

    description: Sequence[object]
    data: bytes | pa.Buffer
    uncompressed_bytes: int

    @property
    def name(self) -> str:
        """The name of the index."""
        return str(self.description[0])

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)


class SkipIndexFile:
    """The indexes of a part. ``data`` is the file, mapped or read."""

    def __init__(self, data: pa.Buffer, part: str) -> None:
        self._data = data
        self._part = part
        try:
            (length,) = struct.unpack_from("<I", data)
            header = json.loads(bytes(data.slice(4, length)))
            begin = 4 + length + -(4 + length) % 8
            self._stored = {}
            end = 0
            for *description, offset, size, uncompressed in header:
                if offset != end:
                    raise ValueError(f"an index begins at {offset}, the last one ended at {end}")
                end += size + -size % 8
                found = EncodedSkipIndex(description, data.slice(begin + offset, size), uncompressed)
                self._stored[json.dumps(description)] = found
            if begin + end != data.size:
                raise ValueError(f"{begin + end} bytes are told of, {data.size} are there")
        except (struct.error, ValueError, TypeError, IndexError, pa.ArrowException) as error:
            raise CorruptionError(
                f"Bad header ({error})", part=part, file=SKIP_INDEXES, offset=0, name="CORRUPTED_DATA"
            ) from error

    def __iter__(self) -> Iterator[EncodedSkipIndex]:
        return iter(self._stored.values())

    def find_index(self, index: SkipIndex) -> EncodedSkipIndex | None:
        """Returns the part's index of exactly this definition; ``None`` if there is none."""
        return self._stored.get(json.dumps(_described(index)))

    def read_index(self, index: SkipIndex) -> NamedArrays | None:
        """Returns the arrays of an index. Raises ``CorruptionError``.

        Those of a text index are decoded on access.
        """
        found = self.find_index(index)
        if found is None:
            return None
        stored = LazyNamedArrays(found.data, self._part, SKIP_INDEXES)
        return stored if index.kind == "text" else list(stored)


def encode_index(index: SkipIndex, values: NamedArrays) -> EncodedSkipIndex:
    """Encodes an index's arrays."""
    raw = sum(array.nbytes for _, _, array in values)
    return EncodedSkipIndex(_described(index), encode_named_arrays(values), raw)


def encode_index_file(indexes: Sequence[EncodedSkipIndex]) -> bytes:
    """Returns the file's bytes."""
    header: list[list[object]] = []
    pieces: list[bytes] = []
    offset = 0
    for index in indexes:
        header.append([*index.description, offset, index.size, index.uncompressed_bytes])
        pieces += [bytes(index.data), bytes(-index.size % 8)]
        offset += index.size + -index.size % 8
    text = json.dumps(header, ensure_ascii=False).encode()
    head = struct.pack("<I", len(text)) + text
    return b"".join([head, bytes(-len(head) % 8), *pieces])


def _described(index: SkipIndex) -> list[object]:
    types = [type_.name for type_ in index.key.types]
    return [index.name, index.kind, list(index.key.expressions), types, list(index.arguments), index.granularity]
