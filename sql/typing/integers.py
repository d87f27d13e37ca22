"""Conversions to integers, as DuckDB expressions: what does not fit wraps around, as in ClickHouse."""

from __future__ import annotations

from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    IPv4Type,
)
from sql.typing.typed import UINT32, UINT64, Typed, cast


def wrap_integer(sql: str, source: IntegerType, goal: IntegerType) -> str:
    """Two's complement: the low bits of the value."""
    if source.minimum >= goal.minimum and source.maximum <= goal.maximum:
        return sql if source == goal else cast(sql, goal)
    if goal.bits == 64:
        return wrap_64(sql, goal)
    mask = (1 << goal.bits) - 1
    low = f"({sql} & {mask})" if source.bits > goal.bits else f"(CAST({sql} AS BIGINT) & {mask})"
    if source.bits == 64 and not source.signed:
        low = f"CAST({low} AS BIGINT)"
    if goal.signed:
        half = 1 << (goal.bits - 1)
        low = f"(xor(CAST({low} AS BIGINT), {half}) - {half})"
    return cast(low, goal)


def wrap_64(sql: str, goal: IntegerType) -> str:
    """The low 64 bits of a HUGEINT (or narrower) value as BIGINT or UBIGINT."""
    return f"pando_low_{'signed' if goal.signed else 'unsigned'}(CAST({sql} AS HUGEINT))"


def to_integer(value: Typed, source: DataType, goal: IntegerType) -> str | None:
    """CAST to an integer type of what is no text; ``None`` where ClickHouse has no such conversion."""
    wide = IntegerType(64, True)
    match source:
        case IntegerType():
            if value.is_literal and isinstance(value.value, int) and goal.minimum <= value.value <= goal.maximum:
                return cast(str(value.value), goal)
            return wrap_integer(value.sql, source, goal)
        case BoolType():
            return cast(value.sql, goal)
        case FloatType():
            return _integer_of_float(value.sql, goal)
        case DecimalType(_, scale):
            return cast(f"trunc({value.sql})" if scale else value.sql, goal)
        case DateType() | Date32Type():
            return wrap_integer(f"({value.sql} - DATE '1970-01-01')", wide, goal)
        case DateTimeType():
            return wrap_integer(f"(epoch_us({value.sql}) // 1000000)", wide, goal)
        case DateTime64Type():
            seconds = f"epoch_us(CAST({value.sql} AS TIMESTAMP)) // 1000000"
            return cast(f"pando_checked({seconds}, {goal.minimum}, {goal.maximum})", goal)
        case EnumType(bits):
            return wrap_integer(value.sql, IntegerType(bits, True), goal)
        case IPv4Type():
            return cast(value.sql, goal) if goal in (UINT32, UINT64) else None
    return None


def _integer_of_float(sql: str, goal: IntegerType) -> str:
    if goal.bits == 64:
        return f"pando_float_64({sql})" if goal.signed else f"pando_float_unsigned_64({sql})"
    if goal.bits == 32 and not goal.signed:
        return wrap_integer(f"pando_float_64({sql})", IntegerType(64, True), goal)
    return wrap_integer(f"pando_float_32({sql})", IntegerType(32, True), goal)
