"""The Arrow types in which scans send columns.

Types that a client without ``parts.types`` could not read are sent as text: Enum, UUID, IPv4, IPv6. LowCardinality
stays a dictionary. Everything else is the storage value (DateTime: UTC instants without a zone). A client of Spark may
ask for compact columns: decimals of at most 18 digits as their unscaled 64-bit integers, UInt64 (a decimal of 20 digits
for Spark) as it is, and repeated strings as dictionaries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRING, decode_dictionary
from parts.blocks.spark_batches import convert_columns, to_spark_array
from parts.format.decimal64 import to_decimal64, to_decimal64_type
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
)
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_rendering import render_plain
from sql.formats.format_options import FormatOptions

_OPTIONS = FormatOptions()


def get_arrow_type(type_: DataType) -> pa.DataType:
    """Returns the Arrow type in which a column is sent."""
    match type_:
        case NullableType(inner):
            return get_arrow_type(inner)
        case LowCardinalityType(inner):
            return pa.dictionary(pa.int32(), get_arrow_type(inner))
        case ArrayType(inner):
            return pa.list_(pa.field("item", get_arrow_type(inner), inner.is_nullable))
        case MapType(key, value):
            return pa.map_(get_arrow_type(key), pa.field("value", get_arrow_type(value), value.is_nullable))
        case TupleType(elements):
            fields = zip(type_.arrow, elements, strict=True)
            return pa.struct(
                [pa.field(field.name, get_arrow_type(inner), field.nullable) for field, (_, inner) in fields]
            )
    format_ = scalar_format(type_)
    return pa.string() if format_ is not None and format_.is_sent_as_text else type_.arrow


def convert_array(array: pa.Array, type_: DataType) -> pa.Array:
    """Converts a column to the type of :func:`get_arrow_type`."""
    if array.type == get_arrow_type(type_):
        return array
    match type_:
        case NullableType(inner):
            return convert_array(array, inner)
        case LowCardinalityType(inner):
            return pa.DictionaryArray.from_arrays(array.indices, convert_array(array.dictionary, inner))
        case ArrayType(inner):
            offsets, mask, flat = list_parts(array)
            return pa.ListArray.from_arrays(offsets, convert_array(flat, inner), type=get_arrow_type(type_), mask=mask)
        case MapType(key, value):
            offsets, _, flat = list_parts(array)
            keys, values = convert_array(flat.field(0), key), convert_array(flat.field(1), value)
            return pa.MapArray.from_arrays(offsets, keys, values, type=get_arrow_type(type_))
        case TupleType(elements):
            children = [
                convert_array(child, inner) for child, (_, inner) in zip(array.flatten(), elements, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=list(get_arrow_type(type_)))
    return render_plain(array, type_, _OPTIONS)


class PlainForm:
    """Every column in the type of :func:`get_arrow_type`."""

    def get_type(self, column: Column) -> pa.DataType:
        """Returns the type of a column."""
        return get_arrow_type(column.type)

    def convert(self, array: pa.Array, column: Column) -> pa.Array:
        """Converts values of a column, as a part gives them."""
        return convert_array(array, column.type)


class CompactForm:
    """Decimals that fit have 8 bytes; the named String columns are dictionaries."""

    def __init__(self, dictionaries: Collection[str]) -> None:
        self._dictionaries = dictionaries

    def get_type(self, column: Column) -> pa.DataType:
        """Returns the type of a column."""
        if column.name in self._dictionaries:
            return DICTIONARY_STRING
        return to_decimal64_type(get_arrow_type(column.type))

    def convert(self, array: pa.Array, column: Column) -> pa.Array:
        """Converts values of a column, as a part gives them."""
        wanted = self.get_type(column)
        if array.type == wanted:
            is_sparse = wanted == DICTIONARY_STRING and len(array.dictionary) > len(array)
            return decode_dictionary(array).dictionary_encode() if is_sparse else array
        if wanted == DICTIONARY_STRING:  # of a part that lacks another column, whose columns are read plain
            return array.dictionary_encode()
        if pa.types.is_decimal128(array.type):
            return to_decimal64(array)
        return convert_array(decode_dictionary(array), column.type)


def find_dictionaries(pieces: Sequence[tuple[Part, Sequence[MarkRange]]], columns: Sequence[Column]) -> frozenset[str]:
    """Returns the String columns of which all frames have dictionaries."""
    return frozenset(
        column.name
        for column in columns
        if pa.types.is_string(column.type.arrow)
        and all(part.has_only_dictionaries(column.name, ranges) for part, ranges in pieces)
    )


def to_compact_batch(batch: pa.RecordBatch, schema: pa.Schema, *, truncates: bool) -> pa.RecordBatch:
    """Returns the batch's columns, compact, for ``schema`` (Spark's Arrow schema).

    Raises as ``to_spark_batch``.
    """
    arrays = convert_columns(batch, schema, _to_compact_array, truncates)
    fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _to_compact_array(array: pa.Array, target: pa.DataType, truncates: bool) -> pa.Array:
    short = to_decimal64_type(target)
    if short != target:
        found = array if array.type == short else to_decimal64(to_spark_array(array, target, truncates))
        return found.view(pa.int64())
    if pa.types.is_uint64(array.type) and pa.types.is_decimal(target):
        return array
    if array.type == DICTIONARY_STRING and pa.types.is_string(target):
        return array
    return to_spark_array(array, target, truncates)
