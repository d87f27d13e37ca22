"""The DuckDB type that carries each ClickHouse type inside a query (the *engine* type).

It differs from the storage type of ``parts.types`` where DuckDB has fewer types. DateTime, and DateTime64 up to 6
digits, are TIMESTAMP (microseconds); UUID, IPv6 and FixedString are BLOB; an Enum is its number; LowCardinality(T) is
T. A Map is a list of structs of key and value, because DuckDB searches a MAP for equal keys whenever one is built. The
names of ClickHouse's types never reach DuckDB.
"""

from __future__ import annotations

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, ScalarType, TupleType

_DECIMAL = pa.decimal128(1).id
_TIMESTAMP = pa.timestamp("s").id
_OF_STORAGE: dict[int, str] = {
    arrow.id: name
    for arrow, name in (
        (pa.int8(), "TINYINT"), (pa.int16(), "SMALLINT"), (pa.int32(), "INTEGER"), (pa.int64(), "BIGINT"),
        (pa.uint8(), "UTINYINT"), (pa.uint16(), "USMALLINT"), (pa.uint32(), "UINTEGER"), (pa.uint64(), "UBIGINT"),
        (pa.float32(), "FLOAT"), (pa.float64(), "DOUBLE"), (pa.bool_(), "BOOLEAN"), (pa.string(), "VARCHAR"),
        (pa.binary(1), "BLOB"), (pa.date32(), "DATE"), (pa.null(), "INTEGER"),
    )
}  # fmt: skip
"""The DuckDB types of scalar types, by the ids of the Arrow types that store them."""
INCOMING_TIMES = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
"""The DuckDB types of stored times, by their unit."""


def duckdb_type(type_: DataType) -> str:
    """Returns the name of the DuckDB type that carries values of ``type_``. Raises ``UserError`` 48."""
    if isinstance(type_, ScalarType):
        return _scalar_engine_type(type_.arrow)
    if isinstance(type_, (NullableType, LowCardinalityType)):
        return duckdb_type(type_.inner)
    return _composite_engine_type(type_)


def _scalar_engine_type(arrow: pa.DataType) -> str:
    if arrow.id == _DECIMAL:
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if arrow.id == _TIMESTAMP:
        return "TIMESTAMP_NS" if arrow.unit == "ns" else "TIMESTAMP"
    return _OF_STORAGE[arrow.id]


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
        case ArrayType(inner):
            cast = duckdb_output_type(inner)
            return f"{cast}[]" if cast else None
        case ScalarType(arrow=arrow) if pa.types.is_timestamp(arrow):
            return INCOMING_TIMES[arrow.unit] if arrow.unit in ("s", "ms") else None
    return None
