"""Reads ``FORMAT Native`` (see :mod:`native_writer`), without block info, column by column.

A column that has another type in the data than in the table is cast. Lengths and offsets are checked before they are
used; memory grows only with what has arrived.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    parse_type,
    strip_nullable,
)
from sql.formats.binary.native_writer import (
    HAS_KEYS,
    LOW_CARDINALITY_VERSION,
    UPDATES_DICTIONARY,
    count_low_cardinality,
)
from sql.formats.converters.array_casts import cast_array
from sql.formats.converters.fixed_width_values import from_bytes
from sql.formats.converters.value_checks import decode_utf8
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.streams.byte_source import MAX_COLUMNS, ByteSource
from sql.formats.streams.length_prefixed_strings import read_strings

MAX_BLOCK_ROWS = 1 << 31
_GLOBAL_DICTIONARY = 1 << 8


def read_native(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the blocks of Native data."""
    source = ByteSource(stream, "Native", options.status)
    known = {column.name: column for column in columns}
    first_row = 1
    names: list[str] = []
    try:
        while not source.is_at_end():
            count, rows = source.number(), source.number()
            if count > MAX_COLUMNS or rows > MAX_BLOCK_ROWS:
                raise source.make_malformed_error(f"a block of {count} columns and {rows} rows")
            arrays = _read_block(source, count, rows, known, options, first_row)
            if rows and count:
                names = names or list(arrays)
                if list(arrays) != names:
                    raise source.make_malformed_error(f"a block of columns {list(arrays)} behind one of {names}")
                yield pa.table(arrays)
            source.release()
            first_row += rows
    finally:
        source.release()


def _read_block(
    source: ByteSource, count: int, rows: int, known: dict[str, Column], options: FormatOptions, first_row: int
) -> dict[str, pa.Array]:
    arrays: dict[str, pa.Array] = {}
    for _ in range(count):
        name, type_ = source.text(), _read_type(source)
        if name in arrays:
            raise source.make_malformed_error(f"column {name!r} is twice in a block")
        array = _read_column(source, type_, rows, name, first_row)
        if name in known:
            arrays[name] = convert_column(array, type_, known[name], options, first_row)
        elif not options.skip_unknown_fields:
            raise UserError("INCORRECT_DATA", f"Unknown column found in Native data: {name!r}")
    if rows and count and not arrays:
        asked = ", ".join(sorted(known))
        raise UserError("THERE_IS_NO_COLUMN", f"None of the Native data's columns is asked for ({asked})")
    return arrays


def _read_type(source: ByteSource) -> DataType:
    return parse_type(source.text())


def convert_column(
    array: pa.Array, type_: DataType, column: Column, options: FormatOptions, first_row: int
) -> pa.Array:
    """Casts the values to the column's type, naming row and column in errors."""
    try:
        return cast_array(array, type_, column.type, options)
    except BadValueError as error:
        raise error.to_user_error(first_row, column.name, column.type) from None
    except pa.ArrowException as error:
        raise UserError("CANNOT_CONVERT_TYPE", f"Cannot convert {type_} to {column.type}: {error}") from None


def _read_column(source: ByteSource, type_: DataType, rows: int, name: str, first_row: int) -> pa.Array:
    if not rows:
        return pa.nulls(0, type_.arrow)
    for _ in range(count_low_cardinality(type_)):
        version = struct.unpack("<Q", source.take(8))[0]
        if version != LOW_CARDINALITY_VERSION:
            raise source.make_malformed_error(f"version {version} of LowCardinality in column {name!r}")
    try:
        return _read_values(source, type_, rows)
    except BadValueError as error:
        raise error.to_user_error(first_row, name, type_) from None


def _read_values(source: ByteSource, type_: DataType, rows: int, is_null: np.ndarray | None = None) -> pa.Array:
    match type_:
        case NullableType(inner):
            is_null = np.frombuffer(source.take(rows), np.uint8) != 0
            return apply_nulls(_read_values(source, inner, rows, is_null), is_null)
        case LowCardinalityType():
            return _read_low_cardinality(source, type_, rows)
        case StringType():
            return decode_utf8(read_strings(source, rows))
        case ArrayType(inner):
            offsets = _read_offsets(source, rows)
            return build_lists(type_, offsets, _read_values(source, inner, int(offsets[-1])))
        case MapType(key, value):
            offsets = _read_offsets(source, rows)
            keys = _read_values(source, key, int(offsets[-1]))
            return build_maps(type_, offsets, keys, _read_values(source, value, int(offsets[-1])))
        case TupleType(elements):
            children = [_read_values(source, inner, rows) for _, inner in elements]
            return pa.StructArray.from_arrays(children, fields=list(type_.arrow))
    width = type_.memory_width_bytes
    if width is None:
        raise UserError("NOT_IMPLEMENTED", f"Type {type_} cannot be read from {source.format_name} data")
    raw = source.matrix(rows, width)
    source.hold(raw.size)
    return from_bytes(raw, type_, is_null)


def apply_nulls(values: pa.Array, is_null: np.ndarray) -> pa.Array:
    """Makes the values null where ``is_null`` is set."""
    return pc.if_else(pa.array(~is_null), values, pa.scalar(None, values.type)) if is_null.any() else values


def build_lists(type_: ArrayType, offsets: np.ndarray, values: pa.Array) -> pa.Array:
    """Builds an Array column of offsets and elements."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=type_.arrow)


def build_maps(type_: MapType, offsets: np.ndarray, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Builds a Map column of offsets, keys and values."""
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values, type=type_.arrow)


def _read_offsets(source: ByteSource, rows: int) -> np.ndarray:
    """Reads offsets of an Array or Map, and puts the 0 before them that Arrow needs.

    An element takes at least a byte, so the data bound how many elements there can be.
    """
    ends = np.frombuffer(source.take(8 * rows), "<i8")  # read before memory is reserved for the announced rows
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    if offsets[-1] >= 1 << 31 or (offsets[1:] < offsets[:-1]).any():
        raise source.make_malformed_error("the offsets of an Array or Map do not grow, or are 2**31 or more")
    return offsets.astype(np.int32)


def _read_low_cardinality(source: ByteSource, type_: LowCardinalityType, rows: int) -> pa.Array:
    if not rows:
        return pa.nulls(0, type_.arrow)
    flags, count = struct.unpack("<QQ", source.take(16))
    code = flags & 0xFF
    if code > 3 or flags & _GLOBAL_DICTIONARY or flags & ~(0xFF | HAS_KEYS | UPDATES_DICTIONARY) or count >= 1 << 31:
        raise source.make_malformed_error(f"flags {flags:#x} of LowCardinality with {count} keys")
    keys = _read_values(source, strip_nullable(type_), count)
    if struct.unpack("<Q", source.take(8))[0] != rows:
        raise source.make_malformed_error(f"a LowCardinality column has not the {rows} rows of its block")
    places = np.frombuffer(source.take(rows << code), f"<u{1 << code}")
    if not count or int(places.max()) >= count:
        raise source.make_malformed_error(f"a LowCardinality column refers to key {places.max()} of {count}")
    values, places = distinct_keys(keys, places.astype(np.int64), type_.is_nullable)
    return pa.DictionaryArray.from_arrays(places, values)


def distinct_keys(keys: pa.Array, places: np.ndarray, is_nullable: bool) -> tuple[pa.Array, pa.Array]:
    """Returns the distinct keys and indices into them; in a nullable column key 0 is null."""
    encoded = pc.dictionary_encode(keys)
    indices = np.asarray(encoded.indices)[places].astype(np.int32)
    return encoded.dictionary, pa.array(indices, mask=places == 0 if is_nullable else None)
