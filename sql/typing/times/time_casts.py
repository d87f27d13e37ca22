"""Conversions to dates and times, as DuckDB expressions; instants go through their type's zone."""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
)
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_date_or_time
from sql.typing.times.date_ranges import clamp_date, clamp_seconds, wrap_day, wrap_instant
from sql.typing.times.time_zones import day_from_zone, utc_to_zone, wall_clock, zone_epoch_offset
from sql.typing.typed_expressions import Typed


def to_date(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment | None:
    """Converts a number or time to Date or Date32; ``None`` if ClickHouse does not."""
    if is_date_or_time(source):
        return _time_to_day(value, source, goal, zone)
    if isinstance(source, BoolType):
        return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", value.sql)
    if not isinstance(source, (IntegerType, FloatType)):
        return None
    number = value.sql
    if isinstance(goal, DateType):
        number = fragment("pando_known({})", number) if isinstance(source, FloatType) else number
        seconds = utc_to_zone(fragment("make_timestamp({} * 1000000)", clamp_seconds(number)), zone)
        day = fragment("DATE '1970-01-01' + CAST({} AS INTEGER)", clamp_seconds(number))
        return fragment("(CASE WHEN {} <= 65535 THEN {} ELSE CAST({} AS DATE) END)", number, day, seconds)
    if isinstance(source, IntegerType) and source.bits <= 16:
        return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", value.sql)
    seconds = utc_to_zone(fragment("make_timestamp(pando_clamped_moment({}) * 1000000)", number), zone)
    day = fragment("DATE '1970-01-01' + CAST(pando_clamped_moment({}) AS INTEGER)", number)
    is_early = "{number} < -719528 OR isnan({number})" if isinstance(source, FloatType) else "{number} < -719528"
    return fragment(
        "(CASE WHEN {} THEN DATE '0000-01-01' WHEN {} < 2932897 THEN {} ELSE CAST({} AS DATE) END)",
        fragment(is_early, number=number), number, day, seconds,
    )  # fmt: skip


def _time_to_day(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment:
    if isinstance(source, (DateType, Date32Type)):
        is_narrowed = isinstance(source, Date32Type) and isinstance(goal, DateType)
        return wrap_day(fragment("{} - DATE '1970-01-01'", value.sql)) if is_narrowed else value.sql
    if isinstance(source, DateTime64Type) and isinstance(goal, DateType):
        value = replace(value, sql=second_towards_epoch(value.sql, source))
    day = fragment("CAST({} AS DATE)", wall_clock(value, zone))
    if isinstance(goal, Date32Type):
        return day
    if isinstance(source, DateTime64Type):
        return wrap_day(fragment("{} - DATE '1970-01-01'", day))
    return day if day == fragment("CAST({} AS DATE)", value.sql) else clamp_date(day)


def to_instant(value: Typed, source: DataType, goal: DataType, zone: str) -> Fragment | None:
    """Converts a number, date or time to DateTime or DateTime64; ``None`` if ClickHouse does not.

    Raises ``UserError`` 44 for a Decimal to a DateTime.
    """
    target_zone = goal.timezone or zone  # type: ignore[attr-defined]
    engine = duckdb_type(goal)
    narrow = isinstance(goal, DateTimeType)
    if isinstance(source, (DateType, Date32Type)):
        midnight = _start_of_day(value, source, target_zone)
        return wrap_instant(midnight) if narrow else fragment("CAST({} AS {})", midnight, engine)
    if isinstance(source, (DateTimeType, DateTime64Type)):
        if narrow:
            return value.sql if isinstance(source, DateTimeType) else wrap_instant(floor_to_second(value.sql, source))
        return truncate_instant(value.sql, source, goal.precision, engine)  # type: ignore[attr-defined]
    if isinstance(source, BoolType):
        return fragment("CAST(make_timestamp(CAST({} AS BIGINT) * 1000000) AS {})", value.sql, engine)
    if narrow and isinstance(source, DecimalType):
        raise UserError("ILLEGAL_COLUMN", f"Illegal column {source} of first argument of function toDateTime")
    if isinstance(source, (IntegerType, FloatType)) and narrow:
        number = fragment("pando_known({})", value.sql) if isinstance(source, FloatType) else value.sql
        return fragment("make_timestamp({} * 1000000)", clamp_seconds(number))
    if isinstance(source, IntegerType):
        fraction = 1000000 - 10 ** max(0, 6 - goal.precision)  # type: ignore[attr-defined]
        wide = source.bits == 64
        micros = (
            fragment("pando_moment({}, {})", value.sql, fraction)
            if wide
            else fragment("CAST({} AS BIGINT) * 1000000", value.sql)
        )
        return fragment("CAST(make_timestamp({}) AS {})", micros, engine)
    if isinstance(source, (FloatType, DecimalType)):
        return _fraction_to_instant(value.sql, source, goal, engine)
    return None


def _start_of_day(value: Typed, source: DataType, zone: str) -> Fragment:
    """Returns the beginning of a day in ``zone``.

    In zones east of UTC 1970-01-01 begins before the epoch: ClickHouse takes the next day.
    """
    day = value.sql
    if isinstance(source, DateType) and zone_epoch_offset(zone) > 0:
        day = fragment("({day} + CAST({day} = DATE '1970-01-01' AS INTEGER))", day=day)
    return day_from_zone(fragment("CAST({} AS TIMESTAMP)", day), zone)


def second_towards_epoch(sql: Fragment, source: DateTime64Type) -> Fragment:
    """Cuts a DateTime64 to seconds, towards the epoch.

    ClickHouse does so before it takes the date, and before it truncates to minutes and longer units.
    """
    return truncate_instant(sql, source, 0, duckdb_type(source))


def floor_to_second(sql: Fragment, source: DateTime64Type) -> Fragment:
    """Cuts a DateTime64 to seconds, downwards."""
    return fragment("date_trunc('second', {})", sql) if source.precision else sql


def _fraction_to_instant(sql: Fragment, source: DataType, goal: DataType, engine: str) -> Fragment:
    precision = goal.precision if isinstance(goal, DateTime64Type) else 0
    unit = 10 ** max(0, 6 - precision)
    if isinstance(source, FloatType) and precision > 6:
        per_second = fragment("CAST({} AS {})", 10**precision, duckdb_type(source))
        return fragment("pando_float_nanoseconds({}, {}, {})", sql, per_second, 10 ** (9 - precision))
    if isinstance(source, FloatType):
        micros = fragment("pando_clamped_units({}, {}, {})", sql, 1000000 // unit, unit)
    else:
        scale = min(source.scale, 6)  # type: ignore[attr-defined]
        whole = fragment("CAST({} AS DECIMAL(38, {})) * {}", sql, scale, 1000000 // unit)
        micros = fragment("CAST(trunc({}) AS BIGINT) * {}", whole, unit)
    return fragment("CAST(make_timestamp({}) AS {})", micros, engine)


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
