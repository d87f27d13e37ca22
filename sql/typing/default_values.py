"""Default values of types, as DuckDB expressions."""

from __future__ import annotations

from parts.types import (
    ArrayType,
    DataType,
    DateType,
    EnumType,
    FixedStringType,
    IPv6Type,
    LowCardinalityType,
    MapType,
    StringType,
    TupleType,
    UUIDType,
)
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import tuple_sql


def default_value(type_: DataType) -> Fragment:
    """Returns the default value of a type; NULL if it is Nullable."""
    if type_.is_nullable:
        return fragment("CAST(NULL AS {})", duckdb_type(type_))
    if isinstance(type_, LowCardinalityType):
        return default_value(type_.inner)
    if isinstance(type_, StringType):
        return fragment("''")
    if isinstance(type_, (ArrayType, MapType)):
        return fragment("CAST([] AS {})", duckdb_type(type_))
    if isinstance(type_, (UUIDType, IPv6Type, FixedStringType)):
        length = type_.length if isinstance(type_, FixedStringType) else 16
        return fragment("encode(repeat(chr(0), {}))", length)
    if isinstance(type_, TupleType):
        return tuple_sql(type_, (default_value(inner) for _, inner in type_.elements))
    engine = duckdb_type(type_)
    if isinstance(type_, DateType) or engine in ("DATE", "TIMESTAMP", "TIMESTAMP_NS"):
        return fragment("CAST('1970-01-01' AS {})", engine)
    if isinstance(type_, EnumType):
        return fragment("CAST({} AS {})", str(type_.default), engine)
    return fragment("CAST(0 AS {})", engine) if engine != "BOOLEAN" else fragment("false")
