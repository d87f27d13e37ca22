"""Writes ``FORMAT Native``: ClickHouse's own columns, block by block.

A block has these pieces:

- with ``client_protocol_version`` above 0, the block's info: 1, is_overflows (0), 2, bucket (-1 as int32), 0;
- the number of columns and of rows, as varints (:mod:`varints`);
- for each column its name and type (a length and its bytes);
- behind the type, from protocol 54454 on, a byte 0 (no special serialization);
- when there are rows, each column's prefix and values follow its type.

======================  ==========================================================================================
one width               the values (:mod:`fixed_width_values`)
String                  length and bytes of each
Nullable(T)             a byte per row (1: null), then the values of T
Array(T), Map(K, V)     where each row ends, uint64; then the elements; then, for a map, the values
Tuple(…)                the columns of its elements
LowCardinality(T)       prefix: 1 (uint64). Then flags and width of the indices (uint64), number of keys (uint64), keys,
                        number of rows (uint64), indices. The first key is T's default; before it, null
======================  ==========================================================================================

An answer without rows is one block without rows, so that its columns are known. Source: ClickHouse documentation,
"Native format"; compared with ClickHouse's bytes in the tests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from parts.format.flat_arrays import make_canonical_dictionary
from parts.types import (
    ArrayType,
    DataType,
    DateTimeType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    strip_nullable,
)
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.fixed_width_values import to_bytes
from sql.formats.format_options import FormatOptions
from sql.formats.streams.length_prefixed_strings import encode_strings
from sql.formats.streams.varints import encode
from sql.formats.text.text_writers import RunStatistics

Columns = Sequence[tuple[str, DataType]]
Pieces = Iterator[bytes | np.ndarray | pa.Buffer]
FROM_TIMEZONES = 54337
FROM_CUSTOM_SERIALIZATION = 54454
_BLOCK_INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"
LOW_CARDINALITY_VERSION = 1
HAS_KEYS, UPDATES_DICTIONARY = 1 << 9, 1 << 10


def write_native(
    columns: Columns, batches: Iterator[pa.RecordBatch], options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Yields the batches as Native blocks."""
    revision = options.client_protocol_version
    is_first = True
    for batch in batches:
        options.status.check()
        if batch.num_rows:
            yield encode_block(columns, batch, revision)
            is_first = False
    if is_first:
        yield encode_block(columns, None, revision)


def encode_block(columns: Columns, batch: pa.RecordBatch | None, revision: int = 0) -> bytes:
    """Encodes one block; ``None`` is a block without rows."""
    rows = batch.num_rows if batch is not None else 0
    pieces: list[bytes | np.ndarray | pa.Buffer] = [
        _BLOCK_INFO if revision > 0 else b"",
        encode(len(columns)),
        encode(rows),
    ]
    for index, (name, type_) in enumerate(columns):
        for text in (name, _type_name(type_, revision)):
            pieces += [encode(len(text.encode())), text.encode()]
        if revision >= FROM_CUSTOM_SERIALIZATION:
            pieces.append(b"\0")
        if batch is not None and rows:
            pieces += [*_prefix(type_), *_values(combine_chunks(batch.column(index)), type_)]
    return b"".join(_bytes(piece) for piece in pieces)


def _bytes(piece: bytes | np.ndarray | pa.Buffer) -> bytes:
    return piece if isinstance(piece, bytes) else piece.tobytes() if isinstance(piece, np.ndarray) else bytes(piece)


def _type_name(type_: DataType, revision: int) -> str:
    """Returns the type's name as the client expects it.

    Clients below 54337, and those that give no version, get no time zone with a plain DateTime.
    """
    return "DateTime" if isinstance(type_, DateTimeType) and revision < FROM_TIMEZONES else str(type_)


def combine_chunks(array: pa.Array) -> pa.Array:
    """Returns the column as one array."""
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _prefix(type_: DataType) -> Iterator[bytes]:
    for _ in range(count_low_cardinality(type_)):
        yield struct.pack("<Q", LOW_CARDINALITY_VERSION)


def count_low_cardinality(type_: DataType) -> int:
    """Counts the LowCardinality columns in the type: each has a prefix."""
    match type_:
        case LowCardinalityType():
            return 1
        case ArrayType(inner):
            return count_low_cardinality(inner)
        case MapType(key, value):
            return count_low_cardinality(key) + count_low_cardinality(value)
        case TupleType(elements):
            return sum(count_low_cardinality(inner) for _, inner in elements)
    return 0


def _values(array: pa.Array, type_: DataType) -> Pieces:
    match type_:
        case NullableType(inner):
            yield np.asarray(array.is_null().cast(pa.uint8()))
            yield from _values(array, inner)
        case LowCardinalityType():
            yield from _low_cardinality(array, type_)
        case StringType():
            yield from encode_strings(array)
        case ArrayType(inner):
            offsets, _, flat = list_parts(array)
            yield np.asarray(offsets)[1:].astype("<u8")
            yield from _values(flat, inner)
        case MapType(key, value):
            offsets, _, flat = list_parts(array)
            yield np.asarray(offsets)[1:].astype("<u8")
            yield from _values(flat.field(0), key)
            yield from _values(flat.field(1), value)
        case TupleType(()):
            yield np.full(len(array), ord("0"), np.uint8)
        case TupleType(elements):
            for child, (_, inner) in zip(array.flatten(), elements, strict=True):
                yield from _values(child, inner)
        case _:
            yield np.ascontiguousarray(to_bytes(array, type_))


def _low_cardinality(array: pa.Array, type_: LowCardinalityType) -> Pieces:
    if not len(array):
        return
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, keys = make_canonical_dictionary(array)
    inner = strip_nullable(type_)
    default = keys.index(pa.scalar(inner.default, keys.type)).as_py() if len(keys) else -1
    fixed = 2 if type_.is_nullable else 1
    # The other keys follow the fixed ones in order of first use; the default is among the fixed.
    new = np.arange(fixed, fixed + len(keys), dtype=np.int64)
    if default >= 0:
        new[default], new[default + 1 :] = fixed - 1, new[default + 1 :] - 1
        keys = pa.concat_arrays([keys.slice(0, default), keys.slice(default + 1)])
    places = new[indices] if len(new) else np.zeros(len(indices), np.int64)
    if type_.is_nullable and array.null_count:
        places[np.asarray(array.is_null())] = 0
    defaults = pa.array([inner.default] * fixed, keys.type)
    width = next(code for code in range(4) if len(keys) + fixed <= 1 << (8 << code))
    yield struct.pack("<QQ", HAS_KEYS | UPDATES_DICTIONARY | width, len(keys) + fixed)
    yield from _values(pa.concat_arrays([defaults, keys]), inner)
    yield struct.pack("<Q", len(places))
    yield places.astype(f"<u{1 << width}")
