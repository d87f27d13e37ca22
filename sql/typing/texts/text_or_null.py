"""Parsers of numbers and instants that give NULL for an invalid text."""

from __future__ import annotations

from parts.types import (
    DateTime64Type,
    DateTimeType,
    DecimalType,
    FloatType,
)
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.texts.instant_texts import basic_instant_or_null, instant_or_null, timestamp_ns_of_text
from sql.typing.texts.number_columns import decimal_pattern
from sql.typing.texts.value_texts import decimal_of_text, truncate_second_digits


def float_or_null(sql: Fragment, target: FloatType) -> Fragment:
    """Parses a float."""
    spelled = bind_value(sql, "spelled", lambda v: fragment("pando_float_spelling({})", v))
    return fragment("TRY_CAST({} AS {})", spelled, duckdb_type(target))


def decimal_or_null(sql: Fragment, target: DecimalType) -> Fragment:
    """Parses a Decimal."""
    return bind_value(sql, "given", lambda given: _parse_bound_decimal(given, target))


def _parse_bound_decimal(sql: Fragment, target: DecimalType) -> Fragment:
    """Parses a Decimal; digits beyond its scale are cut off, not rounded."""
    spelled = function_call("pando_decimal_spelling", sql)
    plain = decimal_of_text(spelled, target, "TRY_CAST")
    goal = duckdb_type(target)
    fine = fragment("TRY_CAST(trunc(TRY_CAST({} AS DECIMAL(38, 20)), {}) AS {})", spelled, target.scale, goal)
    rounded = fragment("TRY_CAST({} AS {})", spelled, goal)
    with_exponent = fragment("coalesce({}, {})", fine, rounded) if target.scale <= 18 else rounded
    return fragment(
        "(CASE WHEN {sql} = '' OR NOT regexp_full_match({sql}, '{}') THEN NULL "
        "WHEN regexp_matches({sql}, '[eE]') THEN {} ELSE {} END)",
        decimal_pattern(target), with_exponent, plain, sql=sql,
    )  # fmt: skip


def time_or_null(sql: Fragment, target: DateTimeType | DateTime64Type, zone: str, *, basic: bool) -> Fragment:
    """Parses an instant; with ``basic`` only in the basic spelling."""
    read = basic_instant_or_null if basic else instant_or_null
    fine = isinstance(target, DateTime64Type)
    instant = read(sql, target.timezone or zone, fine=fine)
    if isinstance(target, DateTimeType):
        return instant
    return (
        timestamp_ns_of_text(sql, instant)
        if target.precision > 6
        else truncate_second_digits(instant, target.precision)
    )
