"""Content hash of rows: XXH3-128 over column names, types and values in row order.

Two blocks have the same hash exactly if they hold the same rows in the same order, however they are divided into
chunks, dictionaries or files. A part's content hash is the hash of all its rows, so replicas compare parts without
comparing bytes on disk. The deduplication id of an inserted block is the hash of the block.

For every column the values feed separate streams (XXH3-128 each), so that a chunk can be added at a time:

- row numbers of nulls (uint64);
- values (fixed width, zero where null; bools as bytes);
- text lengths (uint32), and text bytes;
- list lengths (uint32), then the streams of the children.

Dictionaries count as their values. A column's digest is the hash of its stream digests; the total is the hash of
length-prefixed names and Arrow types with those digests.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import xxhash

from parts.common.thread_pool import map_parallel
from parts.format.flat_arrays import FlatArray, get_fixed_width_buffer

_NOTHING = xxhash.xxh3_128_digest(b"")
_SMALL_ROWS = 10_000
_PLAIN_TEXT_BYTES = 256 * 1024 * 1024


class ColumnHasher:
    """The hash of one column, fed in row order. Not thread-safe."""

    def __init__(self, field: pa.Field) -> None:
        self._field = field
        self._streams: list[xxhash.xxh3_128] = []
        self._rows: list[int] = []
        self._next = 0

    def update(self, array: pa.Array) -> None:
        """Adds the next rows."""
        rows = _rows_at_once(array)
        for start in range(0, max(len(array), 1), rows):
            self._next = 0
            self._add(array if rows >= len(array) else array.slice(start, rows))

    def digest(self) -> bytes:
        """Returns the digest of all rows so far."""
        if not self._streams:
            self.update(pa.nulls(0, self._field.type))
        return xxhash.xxh3_128_digest(b"".join(stream.digest() for stream in self._streams))

    def _feed(self, data: Any) -> None:
        if self._next == len(self._streams):
            self._streams.append(xxhash.xxh3_128())
            self._rows.append(0)
        self._streams[self._next].update(data)
        self._next += 1

    def _add(self, array: pa.Array) -> None:
        type_ = array.type
        if pt.is_dictionary(type_):
            array = array.cast(type_.value_type)
            type_ = array.type
        self._feed_nulls(array)
        if pt.is_struct(type_):
            for position in range(type_.num_fields):
                self._add(array.field(position))
        elif pt.is_string(type_) or pt.is_binary(type_):
            array = array.fill_null("" if pt.is_string(type_) else b"") if array.null_count else array
            first, last = self._lengths(array)
            data = array.buffers()[2] if len(array) else None
            self._feed(data.slice(first, last - first) if data is not None else b"")
        elif pt.is_list(type_) or pt.is_map(type_):
            first, last = self._lengths(array)
            if pt.is_map(type_):
                self._add(array.keys.slice(first, last - first))
                self._add(array.items.slice(first, last - first))
            else:
                self._add(array.values.slice(first, last - first))
        elif pt.is_boolean(type_):
            array = array.fill_null(False) if array.null_count else array
            self._feed(array.cast(pa.uint8()).to_numpy())
        else:
            self._feed(get_fixed_width_buffer(array) if len(array) else b"")

    def _feed_nulls(self, array: pa.Array) -> None:
        stream = self._next
        if array.null_count:
            base = self._rows[stream] if stream < len(self._rows) else 0
            nulls = array.is_null().cast(pa.uint8()).to_numpy()
            self._feed(np.flatnonzero(nulls).astype("<u8") + np.uint64(base))
        else:
            self._feed(b"")
        self._rows[stream] += len(array)

    def _lengths(self, array: pa.Array) -> tuple[int, int]:
        if not len(array):
            self._feed(b"")
            return 0, 0
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
        self._feed(offsets[1:] - offsets[:-1])
        return int(offsets[0]), int(offsets[-1])


def has_plain_buffers(type_: pa.DataType, flat: FlatArray) -> bool:
    """Tells whether the array's canonical buffers are its hash streams.

    They are if there are no nulls and nothing is packed or encoded.
    """
    return _is_plain(type_) and not any(nulls for _, nulls in flat.nodes)


@functools.lru_cache(maxsize=4096)
def _is_plain(type_: pa.DataType) -> bool:
    if pt.is_nested(type_) and not pt.is_dictionary(type_):
        return all(_is_plain(type_.field(position).type) for position in range(type_.num_fields))
    return not (pt.is_dictionary(type_) or pt.is_boolean(type_) or pt.is_decimal(type_))


def hash_plain_buffers(flat: FlatArray) -> bytes:
    """Returns the digest of a column that consists of these buffers; see :func:`has_plain_buffers`."""
    streams = [_NOTHING if buffer is None else xxhash.xxh3_128_digest(buffer) for buffer, _ in flat.buffers]
    return xxhash.xxh3_128_digest(b"".join(streams))


def _rows_at_once(array: pa.Array) -> int:
    """Returns how many rows to hash at once: strings of a dictionary become an array below 2 GiB."""
    if not pt.is_dictionary(array.type) or not len(array.dictionary) or not _is_text(array.type.value_type):
        return max(len(array), 1)
    longest = pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    return max(1, _PLAIN_TEXT_BYTES // max(longest, 1))


def _is_text(type_: pa.DataType) -> bool:
    return pt.is_string(type_) or pt.is_binary(type_)


def combine_column_digests(fields: Sequence[pa.Field], digests: Sequence[bytes], rows: int) -> str:
    """Returns the total hash of columns with known digests, as 32 hexadecimal digits."""
    total = xxhash.xxh3_128(struct.pack("<QQ", len(fields), rows))
    for field, digest in zip(fields, digests, strict=True):
        for text in (field.name, str(field.type)):
            encoded = text.encode()
            total.update(struct.pack("<Q", len(encoded)) + encoded)
        total.update(digest)
    return total.hexdigest()


def hash_block(block: pa.Table) -> str:
    """Returns the XXH3-128 of the block's names, types and values, as 32 hexadecimal digits."""

    def column_digest(position: int) -> bytes:
        hasher = ColumnHasher(block.schema.field(position))
        for chunk in block.column(position).chunks:
            hasher.update(chunk)
        return hasher.digest()

    positions = range(block.num_columns)
    small = block.num_rows <= _SMALL_ROWS
    digests = [column_digest(i) for i in positions] if small else map_parallel(column_digest, positions)
    return combine_column_digests(list(block.schema), digests, block.num_rows)
