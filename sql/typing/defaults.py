"""The default value of each type, as a DuckDB expression."""

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
from sql.typing.mapping import engine_type
from sql.typing.typed import quoted


def default_sql(type_: DataType) -> str:
    """The default value of a type as an engine value."""
    if type_.is_nullable:
        return f"CAST(NULL AS {engine_type(type_)})"
    if isinstance(type_, LowCardinalityType):
        return default_sql(type_.inner)
    if isinstance(type_, StringType):
        return "''"
    if isinstance(type_, ArrayType):
        return f"CAST([] AS {engine_type(type_)})"
    if isinstance(type_, MapType):
        return f"CAST(MAP {{}} AS {engine_type(type_)})"
    if isinstance(type_, (UUIDType, IPv6Type, FixedStringType)):
        length = type_.length if isinstance(type_, FixedStringType) else 16
        return f"encode(repeat(chr(0), {length}))"
    if isinstance(type_, TupleType):
        parts = (
            f"{quoted(name or str(position))} := {default_sql(inner)}"
            for position, (name, inner) in enumerate(type_.elements, 1)
        )
        return f"struct_pack({', '.join(parts)})"
    engine = engine_type(type_)
    if isinstance(type_, DateType) or engine in ("DATE", "TIMESTAMP", "TIMESTAMP_NS"):
        return f"CAST('1970-01-01' AS {engine})"
    if isinstance(type_, EnumType):
        return f"CAST({type_.default} AS {engine})"
    return f"CAST(0 AS {engine})" if engine != "BOOLEAN" else "false"
