"""ClickHouse's types beside those of DuckDB, of the wire formats (Arrow, Parquet) and of Spark.

Inside DuckDB a value has the *engine* type. It differs from the storage type of ``parts.types`` where DuckDB knows
fewer types: DateTime and DateTime64 up to 6 digits are TIMESTAMP (microseconds), UUID, IPv6 and FixedString are BLOB,
Enum its number, LowCardinality(T) is T. The names of ClickHouse's types never reach DuckDB."""

from __future__ import annotations

import pyarrow as pa

from parts.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
)

_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_SPARK_INTEGERS = {
    (8, True): "byte", (16, True): "short", (32, True): "int", (64, True): "long",
    (8, False): "short", (16, False): "int", (32, False): "long", (64, False): "decimal(20,0)",
}  # fmt: skip


def engine_type(type_: DataType) -> str:
    """DuckDB's name of the type that carries values of ``type_`` inside a query."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return engine_type(inner)
        case IntegerType(bits, signed):
            return _INTEGERS[bits] if signed else "U" + _INTEGERS[bits]
        case FloatType(bits):
            return "FLOAT" if bits == 32 else "DOUBLE"
        case BoolType():
            return "BOOLEAN"
        case DecimalType(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case StringType():
            return "VARCHAR"
        case FixedStringType() | UUIDType() | IPv6Type():
            return "BLOB"
        case DateType() | Date32Type():
            return "DATE"
        case DateTimeType():
            return "TIMESTAMP"
        case DateTime64Type(precision):
            return "TIMESTAMP" if precision <= 6 else "TIMESTAMP_NS"
        case IPv4Type():
            return "UINTEGER"
        case EnumType(bits):
            return "TINYINT" if bits == 8 else "SMALLINT"
        case NothingType():
            return "INTEGER"
        case _:
            return _composite_engine_type(type_)


def _composite_engine_type(type_: DataType) -> str:
    match type_:
        case ArrayType(inner):
            return f"{engine_type(inner)}[]"
        case MapType(key, value):
            return f"MAP({engine_type(key)}, {engine_type(value)})"
        case TupleType(elements):
            fields = (
                f'"{_doubled(name or str(position))}" {engine_type(inner)}'
                for position, (name, inner) in enumerate(elements, 1)
            )
            return f"STRUCT({', '.join(fields)})"
    raise UserError("NOT_IMPLEMENTED", f"Type {type_} is not supported in queries")


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def output_cast(type_: DataType) -> str | None:
    """The DuckDB type a result column is cast to so that its Arrow form is the storage type, if it is not already."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return output_cast(inner)
        case DateTimeType():
            return "TIMESTAMP_S"
        case DateTime64Type():
            return {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS"}.get(type_.unit)
        case ArrayType(inner):
            cast = output_cast(inner)
            return f"{cast}[]" if cast else None
    return None


def from_arrow_type(arrow: pa.DataType) -> DataType:
    """The ClickHouse type of a column of an Arrow table that carries no ClickHouse types."""
    if pa.types.is_dictionary(arrow):
        return LowCardinalityType(from_arrow_type(arrow.value_type))
    for type_ in _PLAIN:
        if type_.arrow == arrow:
            return type_
    if pa.types.is_decimal128(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return DateTime64Type({"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit], arrow.tz)
    if pa.types.is_fixed_size_binary(arrow):
        return FixedStringType(arrow.byte_width)
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow) or pa.types.is_binary(arrow):
        return StringType()
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return ArrayType(from_arrow_type(arrow.value_type))
    raise UserError("UNKNOWN_TYPE", f"No ClickHouse type is known for the Arrow type {arrow}")


_PLAIN: tuple[DataType, ...] = (
    *(IntegerType(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    FloatType(32), FloatType(64), BoolType(), StringType(), Date32Type(),
)  # fmt: skip


def spark_type(type_: DataType) -> str:
    """Spark's DDL name of the type a column is read as; unsigned integers are widened (Spark has none)."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return spark_type(inner)
        case IntegerType(bits, signed):
            return _SPARK_INTEGERS[bits, signed]
        case FloatType(bits):
            return "float" if bits == 32 else "double"
        case BoolType():
            return "boolean"
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case StringType() | EnumType() | UUIDType() | IPv4Type() | IPv6Type():
            return "string"
        case FixedStringType():
            return "binary"
        case DateType() | Date32Type():
            return "date"
        case DateTimeType() | DateTime64Type():
            return "timestamp"
        case ArrayType(inner):
            return f"array<{spark_type(inner)}>"
        case MapType(key, value):
            return f"map<{spark_type(key)},{spark_type(value)}>"
        case TupleType(elements):
            fields = (f"`{name or position}`:{spark_type(inner)}" for position, (name, inner) in enumerate(elements, 1))
            return f"struct<{','.join(fields)}>"
    raise UserError("NOT_IMPLEMENTED", f"Type {type_} has no Spark counterpart")


def wire_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column in Arrow, ArrowStream and Parquet: instants carry a zone, labels are text."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return wire_type(inner)
        case DateTimeType(zone):
            return pa.timestamp("s", tz=zone or "UTC")
        case DateTime64Type(_, zone):
            return pa.timestamp(type_.unit, tz=zone or "UTC")
        case EnumType() | UUIDType() | IPv6Type():
            return pa.string()
        case ArrayType(inner):
            return pa.list_(pa.field("item", wire_type(inner), nullable=inner.is_nullable))
    return type_.arrow
