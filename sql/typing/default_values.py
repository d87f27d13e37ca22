"""Default values of types, as DuckDB expressions."""

from __future__ import annotations

import pyarrow as pa

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, TupleType
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import string_literal, tuple_sql


def default_value(type_: DataType) -> Fragment:
    """Returns the default value of a type; NULL if it is Nullable."""
    if type_.is_nullable:
        return fragment("CAST(NULL AS {})", duckdb_type(type_))
    match type_:
        case LowCardinalityType(inner):
            return default_value(inner)
        case ArrayType() | MapType():
            return fragment("CAST([] AS {})", duckdb_type(type_))
        case TupleType(elements):
            return tuple_sql(type_, (default_value(inner) for _, inner in elements))
    return _scalar_default(type_)


def _scalar_default(type_: DataType) -> Fragment:
    engine, arrow = duckdb_type(type_), type_.arrow
    match type_.default:
        case bool(value):
            return fragment(str(value).lower())
        case str(value):
            return string_literal(value)
        case bytes(value):
            return fragment("encode(repeat(chr(0), {}))", len(value))
        case int(value) if not pa.types.is_temporal(arrow):
            return fragment("CAST({} AS {})", str(value), engine)
    return fragment("CAST('1970-01-01' AS {})" if pa.types.is_temporal(arrow) else "CAST(0 AS {})", engine)
