"""The DuckDB type that carries each ClickHouse type inside a query (the *engine* type).

It differs from the storage type of ``parts.types`` where DuckDB has fewer types. DateTime, and DateTime64 up to 6
digits, are TIMESTAMP (microseconds); UUID, IPv6 and FixedString are BLOB; an Enum is its number; LowCardinality(T) is
T. A Map is a list of structs of key and value, because DuckDB searches a MAP for equal keys whenever one is built. The
names of ClickHouse's types never reach DuckDB.
"""

from __future__ import annotations

from parts.common.errors import UserError
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


def duckdb_type(type_: DataType) -> str:
    """Returns the name of the DuckDB type that carries values of ``type_``. Raises ``UserError`` 48."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return duckdb_type(inner)
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
            return f"{duckdb_type(inner)}[]"
        case MapType(key, value):
            return f'STRUCT("key" {duckdb_type(key)}, "value" {duckdb_type(value)})[]'
        case TupleType(elements):
            fields = (
                f'"{_escape_quotes(name)}" {duckdb_type(inner)}'
                for name, (_, inner) in zip(duckdb_field_names(type_), elements, strict=True)
            )
            return f"STRUCT({', '.join(fields)})"
    raise UserError("NOT_IMPLEMENTED", f"Type {type_} is not supported in queries")


def duckdb_field_names(type_: TupleType) -> list[str]:
    """Returns DuckDB's names of a tuple's elements."""
    return make_names_distinct([name or str(position) for position, (name, _) in enumerate(type_.elements, 1)])


def make_names_distinct(names: list[str]) -> list[str]:
    """Numbers the names of a struct's fields if DuckDB could not tell them apart.

    DuckDB takes upper and lower case ASCII letters for the same.
    """
    if len({name.encode().lower() for name in names}) == len(names):
        return names
    return [f"{position}^{name}" for position, name in enumerate(names, 1)]


def _escape_quotes(name: str) -> str:
    return name.replace('"', '""')


def duckdb_output_type(type_: DataType) -> str | None:
    """Returns the DuckDB type to which a result column is cast, or ``None``.

    With it the column's Arrow form is the storage type.
    """
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return duckdb_output_type(inner)
        case DateTimeType():
            return "TIMESTAMP_S"
        case DateTime64Type():
            return {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS"}.get(type_.unit)
        case ArrayType(inner):
            cast = duckdb_output_type(inner)
            return f"{cast}[]" if cast else None
    return None
