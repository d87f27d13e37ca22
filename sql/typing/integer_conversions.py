"""Conversions to integers, as DuckDB expressions; numbers that do not fit wrap around."""

from __future__ import annotations

from parts.types import (
    IntegerType,
)
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.typed_expressions import cast


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


def float_to_integer(sql: Fragment, goal: IntegerType) -> Fragment:
    """Cuts a float to an integer."""
    if goal.bits == 64:
        return fragment("pando_float_64({})", sql) if goal.signed else fragment("pando_float_unsigned_64({})", sql)
    if goal.bits == 32 and not goal.signed:
        return wrap_integer(fragment("pando_float_64({})", sql), IntegerType(64, True), goal)
    return wrap_integer(fragment("pando_float_32({})", sql), IntegerType(32, True), goal)
