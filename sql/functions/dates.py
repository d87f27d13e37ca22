"""Parts of dates and times, starts of periods, formatting and parsing, the clock."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from parts.errors import UserError
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    FloatType,
)
from sql.functions.date_arithmetic import clamped, is_aligned_unit, truncate, zone_of
from sql.functions.registry import Call, define, function
from sql.grammar.units import normalized_unit
from sql.typing.casts import cast_to
from sql.typing.fragments import Fragment, called, fragment
from sql.typing.inference import is_date_or_time, is_number, is_string
from sql.typing.ranges import clamped_instant
from sql.typing.typed import INT64, STRING, UINT8, UINT16, UINT32, UINT64, Typed, cast, literal, text
from sql.typing.zones import epoch_offset, from_zone, local_time, start_of_iso_year

_READS_TEXT = frozenset({"toDayOfWeek", "toWeek"})


def _time(call: Call, position: int = 0) -> Typed:
    value = call.args[position]
    if is_string(value.type) and call.name in _READS_TEXT:
        value = Typed(cast_to(value, DateTimeType(), call.environment.zone), DateTimeType())
    if not is_date_or_time(value.type):
        raise call.wrong_type(position, "Date or DateTime")
    return value


def _clock(call: Call, position: int = 0) -> Typed:
    """A value with a time of day."""
    value = _time(call, position)
    if isinstance(value.type, (DateType, Date32Type)):
        raise call.wrong_type(position, "DateTime or DateTime64: a date has no time of day")
    return value


def _check_zone(call: Call, value: Typed) -> None:
    if len(call.args) > 1 and isinstance(call.args[-1].value, str) and isinstance(value.type, (DateType, Date32Type)):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"{call.name}: a time zone goes with DateTime and DateTime64, not {value.type}"
        )


def _local(call: Call) -> Fragment:
    """The wall clock of the first argument, in the zone of the last one if that is a string."""
    value = _time(call)
    if len(call.args) > 1 and isinstance(call.args[-1].value, str):
        zone = call.constant_zone(len(call.args) - 1)
        if isinstance(value.type, DateTimeType):
            value = Typed(value.sql, DateTimeType(zone))
        elif isinstance(value.type, DateTime64Type):
            value = Typed(value.sql, DateTime64Type(value.type.precision, zone))
    return local_time(value, call.environment.zone)


def _part(expression: str, type_: DataType) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        if call.name in _CLOCK_PARTS:
            _clock(call)
        return Typed(cast(fragment(expression, _local(call)), type_), type_)

    return build


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
    define(_names, _part(_expression, _type), (1, 2), any_case=_names.split()[-1].isupper())


@function("toDaysSinceYearZero TO_DAYS", (1, 2), any_case=True)
def to_days_since_year_zero(call: Call) -> Typed:
    """ClickHouse takes the day of an instant in UTC, whatever its zone and the one that is given."""
    call.constant_zone(1)
    day = fragment("CAST({} AS DATE)", _time(call).sql)
    return Typed(cast(fragment("({} - DATE '0000-01-01')", day), UINT32), UINT32)


def _relative(seconds: int) -> Callable[[Call], Typed]:
    """Whole units of the instant since the epoch, whatever the zone."""

    def build(call: Call) -> Typed:
        value = _time(call)
        if isinstance(value.type, (DateType, Date32Type)):
            zone = call.constant_zone(1) or call.environment.zone
            value = Typed(cast_to(value, DateTime64Type(0), zone), DateTime64Type(0))
        moved = epoch_offset(call.constant_zone(1) or zone_of(value, call))
        shift = 86400 - moved if moved % 3600 and seconds == 3600 else 0
        ticks = fragment("epoch_us({})", value.sql)
        if shift:
            ticks = fragment("({} + {})", ticks, shift * 1000000)
        return Typed(cast(fragment("pando_clamped_seconds({} // {})", ticks, seconds * 1000000), UINT32), UINT32)

    return build


define("toRelativeHourNum", _relative(3600), (1, 2))
define("toRelativeMinuteNum", _relative(60), (1, 2))
define("toRelativeSecondNum", _relative(1), (1, 2))


@function("toDayOfWeek DAYOFWEEK", (1, 3), any_case=True)
def to_day_of_week(call: Call) -> Typed:
    mode = call.constant_int(1, 0) if len(call.args) > 1 else 0
    local = _local(call)
    day = ("isodow({})", "(isodow({}) - 1)", "(isodow({}) % 7)", "(isodow({}) % 7 + 1)")[mode % 4]
    expression = fragment(day, local)
    return Typed(cast(expression, UINT8), UINT8)


@function("toWeek week", (1, 3))
def to_week(call: Call) -> Typed:
    """The week of the year in MySQL's modes; mode 0: Sunday first, 0 to 53."""
    mode = call.constant_int(1, 0) if len(call.args) > 1 else 0
    local = _local(call)
    if mode == 3:
        return Typed(cast(fragment("week({})", local), UINT8), UINT8)
    if mode not in (0, 1):
        raise UserError("NOT_IMPLEMENTED", f"Mode {mode} of {call.name} is not supported (0, 1 and 3 are)")
    if mode == 0:
        number = fragment("((dayofyear({local}) - 1 + 7 - dayofweek({local})) // 7)", local=local)
    else:
        number = fragment("((dayofyear({local}) - 1 + 7 + 3 - (isodow({local}) - 1)) // 7)", local=local)
    return Typed(cast(number, UINT8), UINT8)


# Starts of periods ----------------------------------------------------------------------------------------------------


def _start(unit: str, count: int = 1) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = _clock(call) if unit in ("Minute", "Hour") else _time(call)
        if unit != "Day":
            _check_zone(call, value)
        if isinstance(value.type, (DateType, Date32Type)) and unit == "Day":
            value = Typed(cast_to(value, DateTime64Type(0), call.environment.zone), DateTime64Type(0))
        zone = call.constant_zone(1)
        is_aligned = is_aligned_unit(unit, zone or zone_of(value, call))
        result = clamped(truncate(call, value, unit, count, zone), value.type, is_aligned=is_aligned)
        if zone and isinstance(result.type, DateTimeType):
            return Typed(result.sql, DateTimeType(zone))
        return result

    return build


for _name, _unit, _count in (
    ("toStartOfYear", "Year", 1), ("toStartOfQuarter", "Quarter", 1), ("toStartOfMonth", "Month", 1),
    ("toMonday", "Week", 1), ("toStartOfDay", "Day", 1), ("toStartOfHour", "Hour", 1), ("toStartOfMinute", "Minute", 1),
    ("toStartOfFiveMinutes toStartOfFiveMinute", "Minute", 5), ("toStartOfTenMinutes", "Minute", 10),
    ("toStartOfFifteenMinutes", "Minute", 15), ("timeSlot", "Minute", 30),
):  # fmt: skip
    define(_name, _start(_unit, _count), (1, 2))


@function("toStartOfSecond", (1, 2))
def to_start_of_second(call: Call) -> Typed:
    value = _time(call)
    if not isinstance(value.type, DateTime64Type):
        raise call.wrong_type(0, "DateTime64")
    return Typed(fragment("date_trunc('second', {})", value.sql), value.type)


@function("toStartOfISOYear", (1, 2))
def to_start_of_iso_year(call: Call) -> Typed:
    value = _time(call)
    _check_zone(call, value)
    local = value.sql if isinstance(value.type, DateType) else _local(call)
    return clamped(Typed(start_of_iso_year(local), DateType()), Date32Type())


@function("toStartOfWeek", (1, 3))
def to_start_of_week(call: Call) -> Typed:
    mode = call.constant_int(1, 0) if len(call.args) > 1 and not isinstance(call.args[1].value, str) else 0
    day = fragment("CAST({} AS DATE)", _local(call))
    back = fragment("(isodow({}) - 1)" if mode % 2 else "(isodow({}) % 7)", day)
    return clamped(Typed(fragment("({} - CAST({} AS INTEGER))", day, back), DateType()), Date32Type())


@function("toLastDayOfMonth LAST_DAY", (1, 2), any_case=True)
def to_last_day_of_month(call: Call) -> Typed:
    _check_zone(call, _time(call))
    return clamped(Typed(fragment("last_day({})", _local(call)), DateType()), Date32Type())


@function("toTimeZone toTimezone", 2)
def to_time_zone(call: Call) -> Typed:
    value, zone = call.args[0], call.constant_zone(1)
    if isinstance(value.type, DateTimeType):
        return Typed(value.sql, DateTimeType(zone))
    if isinstance(value.type, DateTime64Type):
        return Typed(value.sql, DateTime64Type(value.type.precision, zone))
    raise call.wrong_type(0, "DateTime")


@function("timeZoneOf timezoneOf", 1)
def time_zone_of(call: Call) -> Typed:
    value = _clock(call)
    return literal(value.type.timezone or call.environment.zone)  # type: ignore[attr-defined]


@function("fromUnixTimestamp FROM_UNIXTIME", (1, 3), any_case=True)
def from_unix_timestamp(call: Call) -> Typed:
    value = Typed(cast_to(call.args[0], DateTimeType(), call.environment.zone), DateTimeType())
    if len(call.args) == 1:
        return value
    return format_date_time(Call("formatDateTime", (value, *call.args[1:]), call.environment))


def _from_unix(scale: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        type_ = DateTime64Type(scale, call.constant_zone(1))
        micros = fragment("CAST({} AS BIGINT) * {}", call.args[0].sql, 10 ** (6 - scale))
        return Typed(cast(fragment("make_timestamp({})", micros), type_), type_)

    return build


define("fromUnixTimestamp64Milli", _from_unix(3), (1, 2))
define("fromUnixTimestamp64Micro", _from_unix(6), (1, 2))


def _to_unix(step: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if not isinstance(value.type, DateTime64Type):
            raise call.wrong_type(0, "DateTime64")
        micros = fragment("(epoch_ns({}) // 1000)" if value.type.precision > 6 else "epoch_us({})", value.sql)
        return Typed(fragment("({} // {})", micros, step) if step > 1 else micros, INT64)

    return build


define("toUnixTimestamp64Milli", _to_unix(1000), 1)
define("toUnixTimestamp64Micro", _to_unix(1), 1)


@function("makeDate MAKEDATE", (2, 3), any_case=True)
def make_date(call: Call) -> Typed:
    """A date that does not exist or is outside Date's range is the first one, as in ClickHouse."""
    macro = "pando_make_day" if len(call.args) == 2 else "pando_make_date"
    return Typed(called(macro, *[_whole(call, position) for position in range(len(call.args))]), DateType())


def _whole(call: Call, position: int) -> Fragment:
    value = call.args[position]
    if not is_number(value.type):
        raise call.wrong_type(position, "a number")
    return cast(fragment("trunc({})", value.sql) if isinstance(value.type, FloatType) else value.sql, INT64)


@function("makeDateTime", (6, 7))
def make_date_time(call: Call) -> Typed:
    zone = call.constant_zone(6)
    local = called("pando_make_time", *[_whole(call, position) for position in range(6)])
    return Typed(clamped_instant(from_zone(local, zone or call.environment.zone)), DateTimeType(zone))


# The clock: one moment for the whole query ----------------------------------------------------------------------------


def _instant(call: Call) -> Fragment:
    moment = datetime.datetime.fromtimestamp(int(call.environment.now), datetime.UTC)
    return fragment("CAST('{}' AS TIMESTAMP)", f"{moment:%Y-%m-%d %H:%M:%S}")


@function("now NOW CURRENT_TIMESTAMP", (0, 1), any_case=True)
def now(call: Call) -> Typed:
    zone = call.constant_zone(0)
    return Typed(_instant(call), DateTimeType(zone), is_constant=True)


@function("now64", (0, 2))
def now64(call: Call) -> Typed:
    type_ = DateTime64Type(call.constant_precision(0, 3), call.constant_zone(1))
    micros = int(call.environment.now * 1_000_000)
    unit = 10 ** max(0, 6 - type_.precision)
    return Typed(cast(fragment("make_timestamp({})", micros // unit * unit), type_), type_, is_constant=True)


def _day(call: Call, shift: int) -> Typed:
    from zoneinfo import ZoneInfo

    moment = datetime.datetime.fromtimestamp(call.environment.now, ZoneInfo(call.environment.zone))
    return Typed(
        fragment("DATE '{}'", str(moment.date() + datetime.timedelta(days=shift))), DateType(), is_constant=True
    )


define("today curdate CURRENT_DATE", lambda call: _day(call, 0), 0, any_case=True)
define("yesterday", lambda call: _day(call, -1), 0)


# Formatting and parsing -----------------------------------------------------------------------------------------------

_FORMAT = {
    "Y": "%Y", "y": "%y", "m": "%m", "d": "%d", "H": "%H", "M": "%B", "i": "%M", "S": "%S", "s": "%S", "I": "%I",
    "h": "%I", "p": "%p", "j": "%j", "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y",
    "a": "%a", "W": "%A",
    "b": "%b", "%": "%%", "n": "\n", "t": "\t", "f": "%f", "r": "%I:%M %p", "u": "%u", "w": "%w", "G": "%G", "V": "%V",
}  # fmt: skip
_PARSE = {**_FORMAT, "f": "%f", "c": "%m", "e": "%d", "l": "%I", "k": "%H"}


def _translated(call: Call, pattern: str, table: dict[str, str]) -> str:
    result, position = [], 0
    while position < len(pattern):
        char = pattern[position]
        if char != "%":
            result.append(char)
            position += 1
            continue
        code = pattern[position + 1 : position + 2]
        if code not in table:
            raise UserError("NOT_IMPLEMENTED", f"{call.name}: the format specifier %{code} is not supported")
        result.append(table[code])
        position += 2
    return "".join(result)


@function("formatDateTime DATE_FORMAT", (2, 3), any_case=True)
def format_date_time(call: Call) -> Typed:
    pattern = _translated(call, call.constant_text(1), _FORMAT)
    value = _time(call)
    if len(call.args) > 2:
        zone = call.constant_zone(2)
        value = Typed(value.sql, DateTimeType(zone) if isinstance(value.type, DateTimeType) else value.type)
    return Typed(fragment("strftime({}, {})", local_time(value, call.environment.zone), text(pattern)), STRING)


@function("dateName", (2, 3), any_case=True)
def date_name(call: Call) -> Typed:
    unit = normalized_unit(call.constant_text(0))
    pattern = {"Month": "%B", "Day": "%-d", "Year": "%Y", "Hour": "%-H", "Minute": "%-M", "Second": "%-S"}.get(
        unit or ""
    )
    if call.constant_text(0).lower() == "weekday":
        pattern = "%A"
    if pattern is None:
        raise UserError("NOT_IMPLEMENTED", f"dateName of {call.args[0].value!r} is not supported")
    value = _clock(call, 1) if unit in ("Hour", "Minute", "Second") else _time(call, 1)
    return Typed(fragment("strftime({}, {})", local_time(value, call.environment.zone), text(pattern)), STRING)


@function("monthName", 1, any_case=True)
def month_name(call: Call) -> Typed:
    if isinstance(call.args[0].type, Date32Type):
        raise call.wrong_type(0, "Date, DateTime or DateTime64")
    return Typed(fragment("monthname({})", _local(call)), STRING)


@function("parseDateTime STR_TO_DATE TO_TIMESTAMP_MYSQL", (2, 3), any_case=True)
def parse_date_time(call: Call) -> Typed:
    zone = call.constant_zone(2)
    pattern = _translated(call, call.constant_text(1), _PARSE)
    local = fragment("strptime({}, {})", call.args[0].sql, text(pattern))
    return Typed(from_zone(local, zone or call.environment.zone), DateTimeType(zone or call.environment.zone))


@function("parseDateTimeBestEffort", (1, 2))
def parse_best_effort(call: Call) -> Typed:
    """Only the ISO forms; anything else fails instead of being guessed."""
    zone = call.constant_zone(1)
    type_ = DateTimeType(zone)
    return Typed(cast_to(call.args[0], type_, call.environment.zone), type_)
