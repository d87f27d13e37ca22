"""Infers columns from self-describing data: Parquet, Arrow and ArrowStream.

It follows ClickHouse 26: what may be NULL is Nullable, except for arrays, maps and tuples.
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DecimalType,
    FixedStringType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
)
from sql.formats.columnar.arrow_and_parquet import read_schema
from sql.formats.format_options import FormatOptions

SELF_DESCRIBING = ("Parquet", "Arrow", "ArrowStream")
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MOST_DIGITS = 38


def infer_columns(format: str, stream: BinaryIO, options: FormatOptions) -> list[Column]:
    """Returns the columns of the data.

    Raises 636 for a format that does not describe itself, 50 for a type without counterpart, 117 for broken data.
    """
    if format not in SELF_DESCRIBING:
        raise UserError(
            "CANNOT_EXTRACT_TABLE_STRUCTURE",
            f"The table structure cannot be extracted from a {format} format file: give it as the third argument, as "
            "in file('f', 'CSV', 'id UInt64, name String')",
        )
    schema = read_schema(format, stream, options)
    return [Column(field.name, _nullable(field)) for field in schema]


def _nullable(field: pa.Field) -> DataType:
    type_ = _type_of(field.type, field.name)
    if not field.nullable or type_.is_composite:
        return type_
    if isinstance(type_, LowCardinalityType):
        return LowCardinalityType(NullableType(type_.inner))
    return NullableType(type_)


def _type_of(arrow: pa.DataType, name: str) -> DataType:
    types = pa.types
    if types.is_boolean(arrow):
        return BoolType()
    if types.is_integer(arrow):
        return IntegerType(arrow.bit_width, signed=types.is_signed_integer(arrow))
    if types.is_floating(arrow):
        return FloatType(max(arrow.bit_width, 32))
    if types.is_fixed_size_binary(arrow):
        return FixedStringType(arrow.byte_width)
    if getattr(arrow, "extension_name", "") == "arrow.uuid":
        return UUIDType()
    if any(is_text(arrow) for is_text in _TEXTS):
        return StringType()
    if types.is_date(arrow):
        return Date32Type()
    if types.is_timestamp(arrow):
        return DateTime64Type(_DIGITS[arrow.unit], arrow.tz)
    if types.is_decimal(arrow) and 0 < arrow.precision <= _MOST_DIGITS and 0 <= arrow.scale <= arrow.precision:
        return DecimalType(arrow.precision, arrow.scale)
    if types.is_dictionary(arrow):
        return LowCardinalityType(_type_of(arrow.value_type, name))
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return ArrayType(_nullable(arrow.value_field))
    if types.is_map(arrow):
        return MapType(_type_of(arrow.key_type, name), _nullable(arrow.item_field))
    if types.is_struct(arrow):
        return TupleType(tuple((child.name, _nullable(child)) for child in arrow))
    raise UserError("UNKNOWN_TYPE", f"Column {name!r} has the type {arrow} without counterpart: give the structure")


_TEXTS = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
)  # fmt: skip
