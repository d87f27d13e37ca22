"""Functions that return parts of dates and times, and starts of periods."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import DataType, Date32Type, DateTime64Type, DateTimeType, DateType
from sql.functions.dates.date_arithmetic import argument_time_zone
from sql.functions.dates.date_truncation import clamp_to_range, is_aligned_unit, truncate_to_interval
from sql.functions.registry import Call, define, function
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_date_or_time, is_string
from sql.typing.times import day_tables
from sql.typing.times.time_zones import start_of_iso_year, wall_clock, zone_epoch_offset
from sql.typing.typed_expressions import UINT8, UINT16, UINT32, UINT64, Typed, cast

_READS_TEXT = frozenset({"toDayOfWeek", "toWeek"})


def time_argument(call: Call, position: int = 0) -> Typed:
    """Returns an argument that is a date or time; some functions also parse a String.

    Raises ``UserError`` 43.
    """
    value = call.args[position]
    if is_string(value.type) and call.name in _READS_TEXT:
        value = Typed(cast_to(value, DateTimeType(), call.environment.zone), DateTimeType())
    if not is_date_or_time(value.type):
        raise call.wrong_type(position, "Date or DateTime")
    return value


def clock_argument(call: Call, position: int = 0) -> Typed:
    """Returns an argument that has a time of day. Raises ``UserError`` 43."""
    value = time_argument(call, position)
    if isinstance(value.type, (DateType, Date32Type)):
        raise call.wrong_type(position, "DateTime or DateTime64: a date has no time of day")
    return value


def _check_zone(call: Call, value: Typed) -> None:
    if len(call.args) > 1 and isinstance(call.args[-1].value, str) and isinstance(value.type, (DateType, Date32Type)):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"{call.name}: a time zone goes with DateTime and DateTime64, not {value.type}"
        )


def local_clock(call: Call) -> Fragment:
    """Returns the wall clock of the first argument.

    The zone is the last argument if that is a string, else the value's own.
    """
    value = time_argument(call)
    if len(call.args) > 1 and isinstance(call.args[-1].value, str):
        zone = call.constant_zone(len(call.args) - 1)
        if isinstance(value.type, DateTimeType):
            value = Typed(value.sql, DateTimeType(zone))
        elif isinstance(value.type, DateTime64Type):
            value = Typed(value.sql, DateTime64Type(value.type.precision, zone))
    return wall_clock(value, call.environment.zone)


def _day_or_clock(call: Call) -> Fragment:
    """Returns the first argument as a day if it is a date, else as a wall clock."""
    value = time_argument(call)
    return value.sql if isinstance(value.type, (DateType, Date32Type)) else local_clock(call)


def _build_part(expression: str, type_: DataType) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        if call.name in _CLOCK_PARTS:
            clock_argument(call)
        sql = cast(fragment(expression, local_clock(call)), type_)
        if call.name in _DAY_FUNCTIONS:
            sql = day_tables.scan_day_function(sql, _day_or_clock(call), _DAY_FUNCTIONS[call.name], type_.arrow)
        elif call.name == "toYYYYMMDDhhmmss":
            sql = day_tables.year_to_second_number(sql, _day_or_clock(call))
        return Typed(sql, type_)

    return build


_DAY_FUNCTIONS = {
    "toYear": day_tables.year, "toMonth": day_tables.month, "toDayOfMonth": day_tables.day_of_month,
    "toDayOfYear": day_tables.day_of_year, "toRelativeYearNum": day_tables.year,
    "toQuarter": day_tables.quarter, "toYYYYMM": day_tables.year_months, "toYYYYMMDD": day_tables.year_month_days,
    "toISOYear": day_tables.iso_year, "toISOWeek": day_tables.iso_week,
    "toRelativeMonthNum": day_tables.month_number, "toRelativeQuarterNum": day_tables.quarter_number,
    "toStartOfMonth": day_tables.start_of_month, "toStartOfQuarter": day_tables.start_of_quarter,
    "toStartOfYear": day_tables.start_of_year, "toMonday": day_tables.monday_of_week,
}  # fmt: skip
"""Functions that a scan looks up in a table faster than DuckDB computes them."""


_CLOCK_PARTS = frozenset({"toHour", "toMinute", "toSecond", "toMillisecond"})


for _names, _expression, _type in (
    ("toYear YEAR", "year({0})", UINT16),
    ("toQuarter QUARTER", "quarter({0})", UINT8),
    ("toMonth MONTH", "month({0})", UINT8),
    ("toDayOfMonth DAY DAYOFMONTH", "day({0})", UINT8),
    ("toDayOfYear DAYOFYEAR", "dayofyear({0})", UINT16),
    ("toHour HOUR", "hour({0})", UINT8),
    ("toMinute MINUTE", "minute({0})", UINT8),
    ("toSecond SECOND", "second({0})", UINT8),
    ("toMillisecond MILLISECOND", "(millisecond({0}) % 1000)", UINT16),
    ("toYYYYMM", "(year({0}) * 100 + month({0}))", UINT32),
    ("toYYYYMMDD", "(year({0}) * 10000 + month({0}) * 100 + day({0}))", UINT32),
    ("toYYYYMMDDhhmmss",
     "((CAST(year({0}) AS BIGINT) * 10000 + month({0}) * 100 + day({0})) * 1000000 + hour({0}) * 10000 "
     "+ minute({0}) * 100 + second({0}))", UINT64),
    ("toISOYear", "isoyear({0})", UINT16),
    ("toISOWeek", "week({0})", UINT8),
    ("toRelativeYearNum", "year({0})", UINT16),
    ("toRelativeMonthNum", "(year({0}) * 12 + month({0}))", UINT32),
    ("toRelativeQuarterNum", "(year({0}) * 4 + quarter({0}) - 1)", UINT32),
    ("toRelativeDayNum", "pando_clamped_day_number(CAST({0} AS DATE) - DATE '1970-01-01')", UINT32),
):  # fmt: skip
    define(_names, _build_part(_expression, _type), (1, 2))


@function("toDaysSinceYearZero TO_DAYS", (1, 2))
def to_days_since_year_zero(call: Call) -> Typed:
    """Compiles ``toDaysSinceYearZero``. ClickHouse takes the day in UTC and ignores the zone."""
    call.constant_zone(1)
    day = fragment("CAST({} AS DATE)", time_argument(call).sql)
    return Typed(cast(fragment("({} - DATE '0000-01-01')", day), UINT32), UINT32)


def _build_relative_number(seconds: int) -> Callable[[Call], Typed]:
    """Builds a function that counts whole units of ``seconds`` since the epoch."""

    def build(call: Call) -> Typed:
        value = time_argument(call)
        if isinstance(value.type, (DateType, Date32Type)):
            zone = call.constant_zone(1) or call.environment.zone
            value = Typed(cast_to(value, DateTime64Type(0), zone), DateTime64Type(0))
        moved = zone_epoch_offset(call.constant_zone(1) or argument_time_zone(value, call))
        shift = 86400 - moved if moved % 3600 and seconds == 3600 else 0
        ticks = fragment("epoch_us({})", value.sql)
        if shift:
            ticks = fragment("({} + {})", ticks, shift * 1000000)
        return Typed(cast(fragment("pando_clamped_seconds({} // {})", ticks, seconds * 1000000), UINT32), UINT32)

    return build


define("toRelativeHourNum", _build_relative_number(3600), (1, 2))
define("toRelativeMinuteNum", _build_relative_number(60), (1, 2))
define("toRelativeSecondNum", _build_relative_number(1), (1, 2))


@function("toDayOfWeek DAYOFWEEK", (1, 3))
def to_day_of_week(call: Call) -> Typed:
    """Compiles ``toDayOfWeek(value[, mode[, timezone]])``.

    Modes 0 and 1 begin the week with Monday, 2 and 3 with Sunday; the first day is 1, or 0 in modes 1 and 2.
    """
    mode = call.constant_int(1, 0) if len(call.args) > 1 else 0
    local = local_clock(call)
    day = ("isodow({})", "(isodow({}) - 1)", "(isodow({}) % 7)", "(isodow({}) % 7 + 1)")[mode % 4]
    sql = cast(fragment(day, local), UINT8)
    return Typed(
        day_tables.scan_day_function(sql, _day_or_clock(call), day_tables.DAYS_OF_WEEK[mode % 4], UINT8.arrow), UINT8
    )


@function("toWeek week", (1, 3))
def to_week(call: Call) -> Typed:
    """Compiles ``toWeek(value[, mode[, timezone]])`` with MySQL's modes 0, 1 and 3.

    Mode 0: weeks begin with Sunday and count from 0 to 53. Raises ``UserError`` 48.
    """
    mode = call.constant_int(1, 0) if len(call.args) > 1 else 0
    local = local_clock(call)
    if mode == 3:
        sql = cast(fragment("week({})", local), UINT8)
        return Typed(day_tables.scan_day_function(sql, _day_or_clock(call), day_tables.iso_week, UINT8.arrow), UINT8)
    if mode not in (0, 1):
        raise UserError("NOT_IMPLEMENTED", f"Mode {mode} of {call.name} is not supported (0, 1 and 3 are)")
    if mode == 0:
        number = fragment("((dayofyear({local}) - 1 + 7 - dayofweek({local})) // 7)", local=local)
    else:
        number = fragment("((dayofyear({local}) - 1 + 7 + 3 - (isodow({local}) - 1)) // 7)", local=local)
    weeks = day_tables.weeks_from_monday if mode else day_tables.weeks_from_sunday
    return Typed(day_tables.scan_day_function(cast(number, UINT8), _day_or_clock(call), weeks, UINT8.arrow), UINT8)


# Starts of periods ----------------------------------------------------------------------------------------------------


def _build_period_start(unit: str, count: int = 1) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = clock_argument(call) if unit in ("Minute", "Hour") else time_argument(call)
        if unit != "Day":
            _check_zone(call, value)
        if isinstance(value.type, (DateType, Date32Type)) and unit == "Day":
            value = Typed(cast_to(value, DateTime64Type(0), call.environment.zone), DateTime64Type(0))
        zone = call.constant_zone(1)
        is_aligned = is_aligned_unit(unit, zone or argument_time_zone(value, call))
        result = clamp_to_range(truncate_to_interval(call, value, unit, count, zone), value.type, is_aligned=is_aligned)
        if call.name in _DAY_FUNCTIONS:
            return _scan_day(call, result, _DAY_FUNCTIONS[call.name])
        if zone and isinstance(result.type, DateTimeType):
            return Typed(result.sql, DateTimeType(zone))
        return result

    return build


def _scan_day(call: Call, result: Typed, of: day_tables.OfDays) -> Typed:
    return Typed(day_tables.scan_day_function(result.sql, _day_or_clock(call), of, pa.date32()), result.type)


for _name, _unit, _count in (
    ("toStartOfYear", "Year", 1), ("toStartOfQuarter", "Quarter", 1), ("toStartOfMonth", "Month", 1),
    ("toMonday", "Week", 1), ("toStartOfDay", "Day", 1), ("toStartOfHour", "Hour", 1), ("toStartOfMinute", "Minute", 1),
    ("toStartOfFiveMinutes toStartOfFiveMinute", "Minute", 5), ("toStartOfTenMinutes", "Minute", 10),
    ("toStartOfFifteenMinutes", "Minute", 15), ("timeSlot", "Minute", 30),
):  # fmt: skip
    define(_name, _build_period_start(_unit, _count), (1, 2))


@function("toStartOfSecond", (1, 2))
def to_start_of_second(call: Call) -> Typed:
    """Compiles ``toStartOfSecond`` of a DateTime64. Raises ``UserError`` 43."""
    value = time_argument(call)
    if not isinstance(value.type, DateTime64Type):
        raise call.wrong_type(0, "DateTime64")
    return Typed(fragment("date_trunc('second', {})", value.sql), value.type)


@function("toStartOfISOYear", (1, 2))
def to_start_of_iso_year(call: Call) -> Typed:
    """Compiles ``toStartOfISOYear``: the Monday of the first ISO week."""
    value = time_argument(call)
    _check_zone(call, value)
    local = value.sql if isinstance(value.type, DateType) else local_clock(call)
    return clamp_to_range(Typed(start_of_iso_year(local), DateType()), Date32Type())


@function("toStartOfWeek", (1, 3))
def to_start_of_week(call: Call) -> Typed:
    """Compiles ``toStartOfWeek(value[, mode])``: Sunday, or Monday in odd modes."""
    mode = call.constant_int(1, 0) if len(call.args) > 1 and not isinstance(call.args[1].value, str) else 0
    day = fragment("CAST({} AS DATE)", local_clock(call))
    back = fragment("(isodow({}) - 1)" if mode % 2 else "(isodow({}) % 7)", day)
    result = clamp_to_range(Typed(fragment("({} - CAST({} AS INTEGER))", day, back), DateType()), Date32Type())
    return _scan_day(call, result, day_tables.monday_of_week if mode % 2 else day_tables.sunday_of_week)


@function("toLastDayOfMonth LAST_DAY", (1, 2))
def to_last_day_of_month(call: Call) -> Typed:
    """Compiles ``toLastDayOfMonth``."""
    _check_zone(call, time_argument(call))
    result = clamp_to_range(Typed(fragment("last_day({})", local_clock(call)), DateType()), Date32Type())
    return _scan_day(call, result, day_tables.last_day_of_month)
