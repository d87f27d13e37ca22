"""Truncation of dates and times to units and intervals."""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from parts.types import DataType, Date32Type, DateTime64Type, DateTimeType, DateType
from sql.functions.dates.date_arithmetic import (
    DAYS_BY_UNIT,
    MICROSECONDS_BY_UNIT,
    MONTHS_BY_UNIT,
    UTC_ZONE_NAMES,
    argument_time_zone,
    unit_argument,
)
from sql.functions.registry import Call, function
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_date_or_time
from sql.typing.times.date_ranges import clamp_date, clamp_instant
from sql.typing.times.time_casts import second_towards_epoch
from sql.typing.times.time_zones import DAY_MICROS, day_from_zone, start_of_clock, utc_to_zone, wall_clock
from sql.typing.times.zone_offset_tables import has_whole_hours
from sql.typing.typed_expressions import IntervalType, Typed, cast


@function("date_trunc dateTrunc", (2, 3))
def date_trunc(call: Call) -> Typed:
    """Compiles ``date_trunc('unit', value[, timezone])``."""
    unit = unit_argument(call, 0)
    zone = call.constant_zone(2)
    value = call.args[1]
    if isinstance(value.type, DateTime64Type) and unit not in ("Millisecond", "Microsecond"):
        value = replace(value, sql=second_towards_epoch(value.sql, value.type))
    result = _with_zone(truncate_to_interval(call, _date_as_time(call, value, unit), unit, 1, zone), zone)
    if isinstance(value.type, (Date32Type, DateTime64Type)):  # the start has a type of the value's range
        if isinstance(result.type, DateType):
            return Typed(result.sql, Date32Type())
        if isinstance(result.type, DateTimeType):
            return Typed(result.sql, DateTime64Type(0, result.type.timezone))
    return clamp_to_range(result, value.type, is_aligned=is_aligned_unit(unit, zone or argument_time_zone(value, call)))


def is_aligned_unit(unit: str, zone: str) -> bool:
    """Tells whether the epoch begins a period of this unit.

    If so, the start of a period never lies before the epoch.
    """
    return unit != "Week" and zone in UTC_ZONE_NAMES


def _date_as_time(call: Call, value: Typed, unit: str) -> Typed:
    """Turns a date into a time where the unit is a day, as ClickHouse does."""
    if unit == "Day" and isinstance(value.type, (DateType, Date32Type)):
        return Typed(cast_to(value, DateTime64Type(0), call.environment.zone), DateTime64Type(0))
    return value


def _with_zone(result: Typed, zone: str | None) -> Typed:
    """Returns a result with the time zone of the call's argument."""
    if zone and isinstance(result.type, DateTimeType):
        return Typed(result.sql, DateTimeType(zone))
    return result


@function("toStartOfInterval", (2, 4))
def to_start_of_interval(call: Call) -> Typed:
    """Compiles ``toStartOfInterval(value, INTERVAL n unit[, timezone])``.

    Raises ``UserError`` 43, and 48 for an origin.
    """
    interval = call.args[1]
    if not isinstance(interval.type, IntervalType) or not isinstance(interval.value, int) or interval.value <= 0:
        raise call.wrong_type(1, "a constant positive INTERVAL")
    zone = None
    if len(call.args) > 2:
        if not isinstance(call.args[-1].value, str):
            raise UserError("NOT_IMPLEMENTED", "toStartOfInterval with an origin is not supported")
        zone = call.constant_zone(len(call.args) - 1)
    value, unit = call.args[0], interval.type.unit
    result = truncate_to_interval(call, _date_as_time(call, value, unit), unit, interval.value, zone)
    return clamp_to_range(
        _with_zone(result, zone), value.type if isinstance(value.type, DateTimeType) else Date32Type()
    )


def clamp_to_range(result: Typed, source: DataType, *, is_aligned: bool = False) -> Typed:
    """Limits the start of a period to the range of its type.

    The start may lie before the type's first day, or come from a wider type.
    """
    if is_aligned and isinstance(source, (DateType, DateTimeType)):
        return result
    if isinstance(result.type, DateType):
        return Typed(clamp_date(result.sql), result.type)
    if isinstance(result.type, DateTimeType) and not isinstance(source, DateTimeType):
        return Typed(clamp_instant(result.sql), result.type)
    return result


def truncate_to_interval(call: Call, value: Typed, unit: str, count: int, zone: str | None = None) -> Typed:
    """Returns the start of the interval of ``count`` units that contains the value.

    Intervals count from the epoch, weeks from a Monday. Raises ``UserError`` 43, 48.
    """
    if not is_date_or_time(value.type):
        raise call.wrong_type(0, "Date or DateTime")
    is_date = isinstance(value.type, (DateType, Date32Type))
    zone = zone or argument_time_zone(value, call)
    own = getattr(value.type, "timezone", None)
    local = wall_clock(value, zone) if is_date else utc_to_zone(value.sql, zone)
    if unit in MONTHS_BY_UNIT or unit == "Week":
        return Typed(_start_of_calendar(local, unit, count), DateType())
    if is_date and unit == "Day" and count == 1:
        return Typed(value.sql, DateType())
    if is_date and unit not in DAYS_BY_UNIT:
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"{call.name}: a Date has no {unit.lower()}s")
    if unit == "Day":
        start = start_of_clock(local, DAY_MICROS)
        if count > 1:
            start = fragment(
                "make_timestamp((epoch_us({}) // 86400000000 // {count}) * {count} * 86400000000)", start, count=count
            )
        if is_date:
            return Typed(fragment("CAST({} AS DATE)", start), DateType())
        type_ = DateTimeType(own)
        return Typed(cast(day_from_zone(start, zone), type_), type_)
    return _start_of_clock(value, local, unit, count, zone)


def _start_of_calendar(local: Fragment, unit: str, count: int) -> Fragment:
    if unit == "Week":
        monday = fragment("CAST(date_trunc('week', {}) AS DATE)", local)
        if count == 1:
            return monday
        days = fragment("({} - DATE '1970-01-05')", monday)
        return fragment("(DATE '1970-01-05' + CAST(({} // {value}) * {value} AS INTEGER))", days, value=7 * count)
    months = MONTHS_BY_UNIT[unit] * count
    if count == 1:
        return fragment("CAST(date_trunc('{}', {}) AS DATE)", unit.lower(), local)
    if unit == "Year":
        return fragment("make_date(year({}) // {count} * {count}, 1, 1)", local, count=count)
    index = fragment("((year({local}) * 12 + month({local}) - 1) // {months} * {months})", local=local, months=months)
    return fragment("make_date({index} // 12, {index} % 12 + 1, 1)", index=index)


def _start_of_clock(value: Typed, local: Fragment, unit: str, count: int, zone: str) -> Typed:
    """Truncates a time to hours, minutes, seconds or parts of a second. Raises ``UserError`` 48."""
    step = MICROSECONDS_BY_UNIT.get(unit)
    if step is None:
        raise UserError("NOT_IMPLEMENTED", f"Truncation to the unit {unit} is not supported")
    own = getattr(value.type, "timezone", None)
    fine = {"Millisecond": 3, "Microsecond": 6}.get(unit)
    type_: DataType = DateTime64Type(fine, own) if fine else DateTimeType(own)
    width = step * count
    if unit == "Hour" and count == 1 and (zone in UTC_ZONE_NAMES or has_whole_hours(zone)):
        # An hour that the clock repeats is not mixed up with its twin.
        start = start_of_clock(value.sql, width, width)
    elif unit == "Hour":  # hours count from midnight in the zone
        start = day_from_zone(start_of_clock(local, width), zone)
    elif unit == "Minute" or fine:
        start = start_of_clock(value.sql, width, width)
    else:  # seconds before the epoch are rounded towards it
        start = fragment("make_timestamp(epoch_us({}) // {width} * {width})", value.sql, width=width)
    return Typed(cast(start, type_), type_)
