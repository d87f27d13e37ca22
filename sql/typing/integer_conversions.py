"""Conversions to integers, as DuckDB expressions; numbers that do not fit wrap around."""

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
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.typed_expressions import UINT32, UINT64, Typed, cast


def wrap_integer(sql: Fragment, source: IntegerType, goal: IntegerType) -> Fragment:
    """Returns the low bits of an integer, in two's complement."""
    if source.minimum >= goal.minimum and source.maximum <= goal.maximum:
        return sql if source == goal else cast(sql, goal)
    if goal.bits == 64:
        return wrap_to_64_bits(sql, goal)
    mask = (1 << goal.bits) - 1
    low = (
        fragment("({} & {})", sql, mask)
        if source.bits > goal.bits
        else fragment("(CAST({} AS BIGINT) & {})", sql, mask)
    )
    if source.bits == 64 and not source.signed:
        low = fragment("CAST({} AS BIGINT)", low)
    if goal.signed:
        half = 1 << (goal.bits - 1)
        low = fragment("(xor(CAST({} AS BIGINT), {half}) - {half})", low, half=half)
    return cast(low, goal)


def wrap_to_64_bits(sql: Fragment, goal: IntegerType) -> Fragment:
    """Returns the low 64 bits of a HUGEINT (or narrower) value as BIGINT or UBIGINT."""
    return function_call(
        "pando_low_signed" if goal.signed else "pando_low_unsigned", fragment("CAST({} AS HUGEINT)", sql)
    )


def to_integer(value: Typed, source: DataType, goal: IntegerType) -> Fragment | None:
    """Compiles CAST to an integer type for all types but strings; ``None`` if ClickHouse has none."""
    wide = IntegerType(64, True)
    match source:
        case IntegerType():
            if value.is_literal and isinstance(value.value, int) and goal.minimum <= value.value <= goal.maximum:
                return cast(str(value.value), goal)
            return wrap_integer(value.sql, source, goal)
        case BoolType():
            return cast(value.sql, goal)
        case FloatType():
            return _float_to_integer(value.sql, goal)
        case DecimalType(_, scale):
            return cast(fragment("trunc({})", value.sql) if scale else value.sql, goal)
        case DateType() | Date32Type():
            return wrap_integer(fragment("({} - DATE '1970-01-01')", value.sql), wide, goal)
        case DateTimeType():
            return wrap_integer(fragment("(epoch_us({}) // 1000000)", value.sql), wide, goal)
        case DateTime64Type():
            seconds = fragment("epoch_us(CAST({} AS TIMESTAMP)) // 1000000", value.sql)
            return cast(fragment("pando_checked({}, {}, {})", seconds, goal.minimum, goal.maximum), goal)
        case EnumType(bits):
            return wrap_integer(value.sql, IntegerType(bits, True), goal)
        case IPv4Type():
            return cast(value.sql, goal) if goal in (UINT32, UINT64) else None
    return None


def _float_to_integer(sql: Fragment, goal: IntegerType) -> Fragment:
    if goal.bits == 64:
        return fragment("pando_float_64({})", sql) if goal.signed else fragment("pando_float_unsigned_64({})", sql)
    if goal.bits == 32 and not goal.signed:
        return wrap_integer(fragment("pando_float_64({})", sql), IntegerType(64, True), goal)
    return wrap_integer(fragment("pando_float_32({})", sql), IntegerType(32, True), goal)
