"""A file of small named arrays: partition values, min/max, the primary index.

Integers are little-endian.

``u32`` length of a JSON header ``[[name, type text], …]``, the header, zeros up to a multiple of 8, then one frame
(``parts.format.frames``) per entry. All frames are encoded as ``CODEC(LZ4)`` and without dictionaries.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from typing import overload

import pyarrow as pa

from parts.common.errors import CorruptionError, PandoError
from parts.format.codecs import Codec
from parts.format.frames import decode_frame, encode_frame, read_frame_size
from parts.types import DataType, parse_type, strip_low_cardinality

_CODEC = Codec("LZ4")


def to_plain_array(array: pa.Array | pa.ChunkedArray, type_: DataType) -> pa.Array:
    """Returns one array of the plain type, from any chunks, slices and dictionaries."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no chunks, or too much text for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    target = strip_low_cardinality(type_).arrow
    return array if array.type == target else array.cast(target)


def encode_named_arrays(entries: Sequence[tuple[str, DataType, pa.Array]]) -> bytes:
    """Returns the file's bytes. The arrays must be plain."""
    pieces: list[bytes | memoryview] = [_head(tuple((name, type_) for name, type_, _ in entries))]
    for _, _, array in entries:
        pieces.extend(encode_frame(array, _CODEC).pieces)
    return b"".join(pieces)


@functools.lru_cache(maxsize=1024)
def _head(entries: tuple[tuple[str, DataType], ...]) -> bytes:
    header = json.dumps(
        [[name, strip_low_cardinality(type_).name] for name, type_ in entries], ensure_ascii=False
    ).encode()
    head = struct.pack("<I", len(header)) + header
    return head + bytes(-len(head) % 8)


@functools.lru_cache(maxsize=1024)
def _types(header: bytes) -> tuple[tuple[str, DataType], ...]:
    return tuple((str(name), parse_type(text)) for name, text in json.loads(header))


class LazyNamedArrays(Sequence[tuple[str, DataType, pa.Array]]):
    """The entries of a file, each decoded on access. Reading raises ``CorruptionError``."""

    def __init__(self, data: bytes | pa.Buffer, part: str, file: str) -> None:
        self._data, self._part, self._file = pa.py_buffer(data), part, file
        try:
            (size,) = struct.unpack_from("<I", data)
            self._types = _types(bytes(data[4 : 4 + size]))
        except (struct.error, ValueError, TypeError, PandoError) as error:
            message = f"Bad header ({error})"
            raise CorruptionError(message, part=part, file=file, offset=0, name="CORRUPTED_DATA") from error
        offset = (4 + size + 7) // 8 * 8
        self._offsets = []
        for _ in self._types:
            self._offsets.append(offset)
            offset += read_frame_size(self._data, offset, part, file)

    def __len__(self) -> int:
        return len(self._types)

    @overload
    def __getitem__(self, place: int) -> tuple[str, DataType, pa.Array]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[str, DataType, pa.Array]]: ...

    def __getitem__(self, place: int | slice) -> object:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        name, type_ = self._types[place]
        return (
            name,
            type_,
            decode_frame(self._data, self._offsets[place], type_.arrow, self._part, self._file, is_kept=True),
        )


def decode_named_arrays(data: bytes | pa.Buffer, part: str, file: str) -> list[tuple[str, DataType, pa.Array]]:
    """Returns the entries of a file. Raises ``CorruptionError``."""
    return list(LazyNamedArrays(data, part, file))
