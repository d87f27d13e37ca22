"""Converts Arrow arrays in storage types to the form that DuckDB reads.

Maps become lists of structs of key and value. Dictionaries inside lists, maps and structs become plain values. Short
decimals become decimals of 64 bits.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRING, encode_dictionary
from parts.format.decimal64 import to_decimal64, to_decimal64_type
from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, ScalarType, TupleType
from sql.typing.duckdb.engine_types import INCOMING_TIMES, duckdb_type, make_names_distinct


def find_incoming_type(type_: DataType) -> str:
    """Returns DuckDB's type of a column in the storage type."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return find_incoming_type(inner)
        case ScalarType(arrow=arrow) if pa.types.is_timestamp(arrow):
            return INCOMING_TIMES[arrow.unit]
        case ArrayType(inner):
            return f"{find_incoming_type(inner)}[]"
        case MapType(key, value):
            return f'STRUCT("key" {find_incoming_type(key)}, "value" {find_incoming_type(value)})[]'
        case TupleType(elements):
            return ", ".join(find_incoming_type(inner) for _, inner in elements)
    return duckdb_type(type_)


def needs_cast(type_: DataType) -> bool:
    """Returns whether DuckDB sees another type than the engine's and must cast."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return needs_cast(inner)
        case MapType(key, value):
            return needs_cast(key) or needs_cast(value)
        case TupleType(elements):
            return any(needs_cast(inner) for _, inner in elements)
    return find_incoming_type(type_) != duckdb_type(type_)


def find_readable_type(type_: pa.DataType, *, is_inner: bool = False) -> pa.DataType:
    """Returns the Arrow type in which DuckDB gets values of a storage type.

    Inside lists, maps and structs dictionaries become plain values: a batch whose lists of dictionary values are all
    empty ends DuckDB's query, or crashes its whole database.
    """
    if pa.types.is_dictionary(type_):
        return type_.value_type if is_inner else type_
    if not is_inner:
        type_ = to_decimal64_type(type_)
    inner = partial(find_readable_type, is_inner=True)
    if pa.types.is_map(type_):
        return _list_of(inner(type_.key_type), inner(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(inner(type_.value_type)))
    if pa.types.is_struct(type_):
        names = make_names_distinct([field.name for field in type_])
        return pa.struct([pa.field(name, inner(field.type)) for name, field in zip(names, type_, strict=True)])
    return type_


def cast_to_readable(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Converts an array to a type of :func:`find_readable_type`."""
    if has_other_form(array.type):
        array = to_engine_form(array)
    if array.type == type_:
        return array
    if type_ == DICTIONARY_STRING and pa.types.is_string(array.type):
        return encode_dictionary(array)
    return to_decimal64(array) if pa.types.is_decimal64(type_) else array.cast(type_)


def _list_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([("key", key), ("value", value)]))


def has_other_form(type_: pa.DataType) -> bool:
    """Returns whether DuckDB reads values of the type in another form than storage has."""
    if pa.types.is_map(type_) or (pa.types.is_struct(type_) and make_names_distinct(names := type_.names) is not names):
        return True
    return any(has_other_form(type_.field(n).type) for n in range(type_.num_fields))


def to_engine_form(array: pa.Array) -> pa.Array:
    """Converts maps to lists of structs, and gives struct fields distinct names.

    A single map keeps its buffers.
    """
    type_ = array.type
    if not has_other_form(type_):
        return array
    if pa.types.is_struct(type_):
        parts = [to_engine_form(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, make_names_distinct(type_.names), mask=array.is_null())
    if pa.types.is_map(type_):
        values = pa.StructArray.from_arrays([to_engine_form(array.keys), to_engine_form(array.items)], ["key", "value"])
    else:
        values = to_engine_form(array.values)
    return pa.Array.from_buffers(
        pa.list_(values.type), len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )


def convert_table(block: pa.Table) -> pa.Table:
    """Returns the block in the form that DuckDB reads."""
    if not any(has_other_form(type_) for type_ in block.schema.types):
        return block
    columns = [pa.chunked_array([to_engine_form(chunk) for chunk in column.chunks]) for column in block.columns]
    return pa.Table.from_arrays(columns, block.column_names)
