"""Conversions to dates and times, as DuckDB expressions; instants go through their type's zone."""

from __future__ import annotations

from dataclasses import replace

from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
)
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.times.date_ranges import clamp_date, clamp_seconds, wrap_day, wrap_instant
from sql.typing.times.time_zones import day_from_zone, utc_to_zone, wall_clock, zone_epoch_offset
from sql.typing.typed_expressions import Typed


def number_to_day(number: Fragment, goal: DataType, zone: str, *, bits: int, is_float: bool) -> Fragment:
    """Converts a number to Date or Date32: small ones are days, others seconds since the epoch."""
    if isinstance(goal, DateType):
        number = fragment("pando_known({})", number) if is_float else number
        seconds = utc_to_zone(fragment("make_timestamp({} * 1000000)", clamp_seconds(number)), zone)
        day = fragment("DATE '1970-01-01' + CAST({} AS INTEGER)", clamp_seconds(number))
        return fragment("(CASE WHEN {} <= 65535 THEN {} ELSE CAST({} AS DATE) END)", number, day, seconds)
    if not is_float and bits <= 16:
        return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", number)
    seconds = utc_to_zone(fragment("make_timestamp(pando_clamped_moment({}) * 1000000)", number), zone)
    day = fragment("DATE '1970-01-01' + CAST(pando_clamped_moment({}) AS INTEGER)", number)
    is_early = "{number} < -719528 OR isnan({number})" if is_float else "{number} < -719528"
    return fragment(
        "(CASE WHEN {} THEN DATE '0000-01-01' WHEN {} < 2932897 THEN {} ELSE CAST({} AS DATE) END)",
        fragment(is_early, number=number), number, day, seconds,
    )  # fmt: skip


def instant_to_day(value: Typed, source: DateTimeType | DateTime64Type, goal: DataType, zone: str) -> Fragment:
    """Converts an instant to Date or Date32, in the zone of its type."""
    is_fine = isinstance(source, DateTime64Type)
    if isinstance(source, DateTime64Type) and isinstance(goal, DateType):
        value = replace(value, sql=second_towards_epoch(value.sql, source))
    day = fragment("CAST({} AS DATE)", wall_clock(value, zone))
    if isinstance(goal, Date32Type):
        return day
    if is_fine:
        return wrap_day(fragment("{} - DATE '1970-01-01'", day))
    return day if day == fragment("CAST({} AS DATE)", value.sql) else clamp_date(day)


def integer_to_instant(sql: Fragment, bits: int, goal: DateTimeType | DateTime64Type) -> Fragment:
    """Converts seconds since the epoch to a DateTime or DateTime64."""
    if isinstance(goal, DateTimeType):
        return seconds_to_instant(sql)
    fraction = 1000000 - 10 ** max(0, 6 - goal.precision)
    micros = (
        fragment("pando_moment({}, {})", sql, fraction) if bits == 64 else fragment("CAST({} AS BIGINT) * 1000000", sql)
    )
    return fragment("CAST(make_timestamp({}) AS {})", micros, duckdb_type(goal))


def seconds_to_instant(number: Fragment) -> Fragment:
    """Converts seconds since the epoch to a DateTime; those out of range become the nearest."""
    return fragment("make_timestamp({} * 1000000)", clamp_seconds(number))


def day_to_instant(value: Typed, source: DataType, goal: DateTimeType | DateTime64Type, zone: str) -> Fragment:
    """Returns the beginning of a day in the zone of ``goal``.

    In zones east of UTC 1970-01-01 begins before the epoch: ClickHouse takes the next day.
    """
    zone, day = goal.timezone or zone, value.sql
    if isinstance(source, DateType) and zone_epoch_offset(zone) > 0:
        day = fragment("({day} + CAST({day} = DATE '1970-01-01' AS INTEGER))", day=day)
    midnight = day_from_zone(fragment("CAST({} AS TIMESTAMP)", day), zone)
    if isinstance(goal, DateTimeType):
        return wrap_instant(midnight)
    return fragment("CAST({} AS {})", midnight, duckdb_type(goal))


def second_towards_epoch(sql: Fragment, source: DateTime64Type) -> Fragment:
    """Cuts a DateTime64 to seconds, towards the epoch.

    ClickHouse does so before it takes the date, and before it truncates to minutes and longer units.
    """
    return truncate_instant(sql, source, 0, duckdb_type(source))


def floor_to_second(sql: Fragment, source: DateTime64Type) -> Fragment:
    """Cuts a DateTime64 to seconds, downwards."""
    return fragment("date_trunc('second', {})", sql) if source.precision else sql


def float_to_instant(sql: Fragment, source: FloatType, goal: DateTime64Type) -> Fragment:
    """Converts seconds since the epoch to a DateTime64."""
    precision = goal.precision
    if precision > 6:
        per_second = fragment("CAST({} AS {})", 10**precision, duckdb_type(source))
        return fragment("pando_float_nanoseconds({}, {}, {})", sql, per_second, 10 ** (9 - precision))
    unit = 10 ** (6 - precision)
    micros = fragment("pando_clamped_units({}, {}, {})", sql, 1000000 // unit, unit)
    return fragment("CAST(make_timestamp({}) AS {})", micros, duckdb_type(goal))


def decimal_to_instant(sql: Fragment, source: DecimalType, goal: DateTime64Type) -> Fragment:
    """Converts seconds since the epoch to a DateTime64."""
    unit = 10 ** max(0, 6 - goal.precision)
    whole = fragment("CAST({} AS DECIMAL(38, {})) * {}", sql, min(source.scale, 6), 1000000 // unit)
    micros = fragment("CAST(trunc({}) AS BIGINT) * {}", whole, unit)
    return fragment("CAST(make_timestamp({}) AS {})", micros, duckdb_type(goal))


def truncate_instant(sql: Fragment, source: DataType, precision: int, engine: str) -> Fragment:
    """Cuts an instant to ``precision`` decimal digits of a second."""
    have = source.precision if isinstance(source, DateTime64Type) else 0
    if have <= precision:
        return sql if engine == duckdb_type(source) else fragment("CAST({} AS {})", sql, engine)
    if precision > 6:
        step = 10 ** (9 - precision)
        return fragment("make_timestamp_ns(epoch_ns({}) // {step} * {step})", sql, step=step)
    micros = fragment("epoch_ns({}) // 1000", sql) if have > 6 else fragment("epoch_us({})", sql)
    step = 10 ** (6 - precision)
    return fragment("CAST(make_timestamp({} // {step} * {step}) AS {})", micros, engine, step=step)
