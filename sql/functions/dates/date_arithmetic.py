"""Adds units to dates and times, and counts units between them.

Calendar units (day and longer) move the wall clock in the value's zone; clock units move the instant. A Date with a
clock unit added becomes a DateTime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    StringType,
    strip_nullable,
)
from sql.functions.dates.date_kernels import add_units_in_scan
from sql.functions.registry import Call, define, function
from sql.grammar.queries.time_units import find_time_unit_or_short
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.result_types import is_date_or_time, is_number, is_string
from sql.typing.times.date_ranges import wrap_day, wrap_instant, wrap_seconds
from sql.typing.times.time_zones import wall_clock, zone_epoch_offset, zone_to_utc
from sql.typing.typed_expressions import INT32, INT64, IntervalType, Typed, cast

MONTHS_BY_UNIT = {"Month": 1, "Quarter": 3, "Year": 12}
DAYS_BY_UNIT = {"Day": 1, "Week": 7}
MICROSECONDS_BY_UNIT = {
    "Second": 1_000_000, "Minute": 60_000_000, "Hour": 3_600_000_000, "Millisecond": 1000, "Microsecond": 1,
}  # fmt: skip


UTC_ZONE_NAMES = ("UTC", "Etc/UTC", "GMT")


def argument_time_zone(value: Typed, call: Call) -> str:
    """Returns the time zone of a value's type, or the session's."""
    type_ = strip_nullable(value.type)
    return getattr(type_, "timezone", None) or call.environment.zone


def add_default_unit(value: Typed, number: Typed, sign: int, call: Call) -> Typed:
    """Compiles ``date + n`` (days) and ``time + n`` (seconds). Raises ``UserError`` 43."""
    if isinstance(number.type, DecimalType):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"A {number.type} cannot be added to a {value.type}: convert it")
    unit = "Day" if isinstance(value.type, (DateType, Date32Type)) else "Second"
    return _add_count(call, value, number, truncate_number(number), unit, sign)


def as_time(value: Typed, call: Call) -> Typed | None:
    """Returns a date or time as it is, a String read as DateTime64(3), and ``None`` for another type."""
    if isinstance(value.type, StringType):
        type_ = DateTime64Type(3)
        return Typed(cast_to(value, type_, call.environment.zone), type_)
    return value if is_date_or_time(value.type) else None


def truncate_number(number: Typed) -> Fragment:
    """Returns a number as BIGINT, without its fraction."""
    return cast(fragment("trunc({})", number.sql) if isinstance(number.type, FloatType) else number.sql, INT64)


def add_interval(call: Call, value: Typed, interval: Typed, sign: int) -> Typed:
    """Adds (``sign`` 1) or subtracts (-1) an interval."""
    assert isinstance(interval.type, IntervalType)
    return _add_count(call, value, interval, interval.sql, interval.type.unit, sign)


def _add_count(call: Call, value: Typed, number: Typed, count: Fragment, unit: str, sign: int) -> Typed:
    """Adds ``count`` units; ``number`` is the value from which ``count`` was made."""
    result = add_units(call, value, count, unit, sign)
    if (
        unit not in MICROSECONDS_BY_UNIT
        and argument_time_zone(value, call) not in UTC_ZONE_NAMES
        and isinstance(value.type, DateTimeType)
    ):
        return result
    return replace(result, sql=add_units_in_scan(result.sql, value, number, unit, sign, result))


def add_units(call: Call, value: Typed, count: Fragment, unit: str, sign: int) -> Typed:
    """Adds ``count`` units to a date or time.

    Types of 16 and 32 bits wrap around; adding months to a value before the epoch gives the epoch. Raises ``UserError``
    43, 48.
    """
    count = count if sign > 0 else fragment("(-{})", count)
    type_ = value.type
    if unit in MICROSECONDS_BY_UNIT:
        return _add_clock(call, value, count, unit)
    if unit not in MONTHS_BY_UNIT and unit not in DAYS_BY_UNIT:
        raise UserError("NOT_IMPLEMENTED", f"Adding the unit {unit} is not supported")
    if isinstance(type_, DateType) and unit in DAYS_BY_UNIT:
        days = fragment("({} - DATE '1970-01-01') + ({} & 65535) * {}", value.sql, count, DAYS_BY_UNIT[unit])
        return Typed(wrap_day(days), type_)
    interval, units = ("to_months", MONTHS_BY_UNIT) if unit in MONTHS_BY_UNIT else ("to_days", DAYS_BY_UNIT)
    step = function_call(interval, fragment("CAST({} * {} AS INTEGER)", count, units[unit]))
    if isinstance(type_, (DateType, Date32Type)):
        if unit in DAYS_BY_UNIT:
            return Typed(fragment("({} + CAST({} * {} AS INTEGER))", value.sql, count, DAYS_BY_UNIT[unit]), type_)
        moved = fragment("CAST({} + {} AS DATE)", value.sql, step)
        return Typed(fragment("pando_month_date({})", moved) if isinstance(type_, DateType) else moved, type_)
    zone = argument_time_zone(value, call)
    if isinstance(type_, DateTime64Type) and type_.precision > 6 and unit in DAYS_BY_UNIT and zone in UTC_ZONE_NAMES:
        return Typed(_add_nanoseconds(value, type_, count, DAYS_BY_UNIT[unit] * 86_400_000_000_000), type_)
    moved = zone_to_utc(fragment("({} + {})", wall_clock(value, call.environment.zone), step), zone)
    if not isinstance(type_, DateTimeType):
        return Typed(cast(moved, type_), type_)
    return Typed(fragment("pando_month_instant({})", moved) if unit in MONTHS_BY_UNIT else wrap_instant(moved), type_)


def _add_clock(call: Call, value: Typed, count: Fragment, unit: str) -> Typed:
    """Adds seconds, minutes, hours or parts of a second. Raises ``UserError`` 43."""
    type_: DataType = value.type
    step = fragment("to_microseconds({} * {})", count, MICROSECONDS_BY_UNIT[unit])
    fine = {"Millisecond": 3, "Microsecond": 6}.get(unit, 0)
    if fine and isinstance(type_, (DateType, Date32Type)):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"{call.name} cannot be used with {type_}: it has no {unit.lower()}s"
        )
    if isinstance(type_, (DateType, Date32Type)):
        target = DateTimeType() if isinstance(type_, DateType) and not fine else DateTime64Type(fine)
        value = Typed(cast_to(value, target, call.environment.zone), target)
        type_ = target
    elif fine and (isinstance(type_, DateTimeType) or (isinstance(type_, DateTime64Type) and type_.precision < fine)):
        type_ = DateTime64Type(fine, type_.timezone)
    if isinstance(type_, DateTimeType):
        moved = fragment("({} & 4294967295) * {}", count, MICROSECONDS_BY_UNIT[unit] // 1000000)
        seconds = fragment("epoch_us({}) // 1000000 + {}", value.sql, moved)
        return Typed(wrap_seconds(seconds), type_)
    if isinstance(type_, DateTime64Type) and type_.precision > 6:
        return Typed(_add_nanoseconds(value, type_, count, MICROSECONDS_BY_UNIT[unit] * 1000), type_)
    return Typed(cast(fragment("({} + {})", value.sql, step), type_), type_)


def _add_nanoseconds(value: Typed, type_: DateTime64Type, count: Fragment, nanoseconds: int) -> Fragment:
    """Adds to a DateTime64 of more than 6 digits: DuckDB's intervals end at microseconds."""
    return fragment("make_timestamp_ns(epoch_ns({}) + {} * {})", cast(value.sql, type_), count, nanoseconds)


def subtract_dates(call: Call, left: Typed, right: Typed) -> Typed:
    """Compiles ``a - b``: days between dates, seconds between times. Raises ``UserError`` 43.

    The seconds between DateTimes wrap around as Int32.
    """
    if isinstance(left.type, DateType) and isinstance(right.type, DateType):
        return Typed(cast(fragment("({} - {})", left.sql, right.sql), INT32), INT32)
    times = (DateTimeType, DateTime64Type)
    if not isinstance(left.type, times) or not isinstance(right.type, times):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT",
            f"Illegal types {left.type} and {right.type} of arguments of function minus: use dateDiff",
        )
    if isinstance(left.type, DateTimeType) and isinstance(right.type, DateTimeType):
        seconds = fragment("((epoch_us({}) - epoch_us({})) // 1000000)", left.sql, right.sql)
        return Typed(wrap_integer(seconds, INT64, INT32), INT32)
    fine = max(getattr(side.type, "precision", 0) for side in (left, right))
    digits, clock = (9, "epoch_ns") if fine > 6 else (6, "epoch_us")
    unit = fragment("CAST({} AS DECIMAL({}, {}))", f"{10.0**-digits:.{digits}f}", digits + 1, digits)
    type_ = DecimalType(18, fine)
    sides = (fragment("CAST({}({}) AS HUGEINT)", clock, side.sql) for side in (left, right))
    return Typed(
        cast(fragment("(CAST(({}) AS DECIMAL(20, 0)) * {})", join_fragments(" - ", sides), unit), type_), type_
    )


# Functions ------------------------------------------------------------------------------------------------------------


def _build_add(unit: str, sign: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = as_time(call.args[0], call) if len(call.args) == 2 else _with_zone_argument(call)
        if value is None:
            raise call.wrong_type(0, "Date or DateTime")
        if not is_number(call.args[1].type):
            raise call.wrong_type(1, "a number")
        return _add_count(call, value, call.args[1], truncate_number(call.args[1]), unit, sign)

    return build


def _with_zone_argument(call: Call) -> Typed:
    """Returns the time with the zone of the third argument. Raises ``UserError`` 43."""
    value = call.args[0]
    if not is_string(call.args[2].type):
        raise call.wrong_type(2, "a time zone")
    zone = call.constant_zone(2)
    if zone is None:
        raise call.wrong_type(2, "a time zone that is not empty")
    if isinstance(value.type, DateTime64Type):
        return replace(value, type=DateTime64Type(value.type.precision, zone))
    if isinstance(value.type, DateTimeType):
        return replace(value, type=DateTimeType(zone))
    raise call.wrong_type(0, "DateTime")


def _time_argument(call: Call, position: int) -> Typed:
    value = call.args[position]
    if not is_date_or_time(value.type):
        raise call.wrong_type(position, "Date or DateTime")
    return value


for _unit in (*MICROSECONDS_BY_UNIT, *DAYS_BY_UNIT, *MONTHS_BY_UNIT):
    define(f"add{_unit}s", _build_add(_unit, 1), (2, 3))
    define(f"subtract{_unit}s", _build_add(_unit, -1), (2, 3))


def _add_or_subtract(sign: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        if len(call.args) == 2:
            value, interval = call.args
            if not isinstance(interval.type, IntervalType):
                value, interval = interval, value
            if not isinstance(interval.type, IntervalType):
                raise call.wrong_type(1, "an INTERVAL")
            return add_interval(call, value, interval, sign)
        unit = unit_argument(call, 0)
        moved = Call(call.name, (call.args[2], call.args[1]), call.environment)
        return _build_add(unit, sign)(moved)

    return build


define("dateAdd date_add timestampAdd timestamp_add", _add_or_subtract(1), (2, 3))
define("dateSub date_sub timestampSub timestamp_sub", _add_or_subtract(-1), (2, 3))


def unit_argument(call: Call, position: int) -> str:
    """Returns the canonical name of a unit. Raises ``UserError`` 36, 44."""
    unit = find_time_unit_or_short(call.constant_text(position))
    if unit is None:
        raise UserError("BAD_ARGUMENTS", f"{call.name} does not know the unit {call.args[position].value!r}")
    return unit


@function("dateDiff date_diff DATE_DIFF TIMESTAMP_DIFF timestampDiff timestamp_diff", (3, 4))
def date_diff(call: Call) -> Typed:
    """Compiles ``dateDiff('unit', a, b[, timezone])``: the borders of units between two times."""
    unit = unit_argument(call, 0)
    zone = call.constant_zone(3)
    if unit == "Hour":
        hours = (_count_hours(call, position, zone) for position in (2, 1))
        return Typed(fragment("({})", join_fragments(" - ", hours)), INT64)
    if unit in MICROSECONDS_BY_UNIT:
        first, second = (
            fragment("CAST({} AS TIMESTAMP)", _argument_instant(call, position, zone)) for position in (1, 2)
        )
    else:
        first, second = (_argument_wall_clock(call, position, zone) for position in (1, 2))
    if unit == "Week":  # weeks begin on Monday
        weeks = (fragment("pando_week(CAST(date_trunc('week', {}) AS DATE))", local) for local in (second, first))
        return Typed(fragment("CAST({} AS BIGINT)", join_fragments(" - ", weeks)), INT64)
    engine = {"Millisecond": "millisecond", "Microsecond": "microsecond"}.get(unit, unit.lower())
    return Typed(fragment("CAST(date_diff('{}', {}, {}) AS BIGINT)", engine, first, second), INT64)


def _count_hours(call: Call, position: int, zone: str | None) -> Fragment:
    micros = _hour_counting_micros(call, position, zone)
    return fragment("(({0} - ({0} % {1} + {1}) % {1}) // {1})", micros, 3_600_000_000)


def _hour_counting_micros(call: Call, position: int, zone: str | None) -> Fragment:
    """Returns a time in microseconds for counting hours.

    As in ClickHouse, hours begin where they did in the value's zone at the epoch.
    """
    own = zone or argument_time_zone(_time_argument(call, position), call)
    return fragment("(epoch_us({}) - {})", _argument_instant(call, position, zone), zone_epoch_offset(own) * 1000000)


# For each unit: the unit's number of a wall clock, and the position within the unit.
_AGE_PARTS = {
    "Year": ("year({clock})", "month({clock}) * 32 + day({clock})"),
    "Quarter": ("year({clock}) * 4 + quarter({clock})", "(month({clock}) - 1) % 3 * 32 + day({clock})"),
    "Month": ("year({clock}) * 12 + month({clock})", "day({clock})"),
    "Week": ("(CAST(date_trunc('week', {clock}) AS DATE) - DATE '1970-01-05') // 7", "0"),
    "Day": ("(CAST({clock} AS DATE) - DATE '1970-01-01')", "0"),
}


@function("age", (3, 4))
def age(call: Call) -> Typed:
    """Compiles ``age('unit', a, b[, timezone])``: the whole units between two times.

    These are the borders between the wall clocks, less one if the last unit is not complete.
    """
    unit = unit_argument(call, 0)
    zone = call.constant_zone(3)
    if unit == "Hour":
        later, earlier = (_hour_counting_micros(call, position, zone) for position in (2, 1))
        return Typed(fragment("CAST(trunc(({} - {}) / 3600000000.0) AS BIGINT)", later, earlier), INT64)
    first, second = (fragment("CAST({} AS TIMESTAMP)", _argument_instant(call, position, zone)) for position in (1, 2))
    if unit not in _AGE_PARTS:
        return Typed(fragment("CAST(date_sub('{}', {}, {}) AS BIGINT)", unit.lower(), first, second), INT64)
    clocks = (fragment("CAST({} AS TIMESTAMP)", _argument_wall_clock(call, position, zone)) for position in (1, 2))
    bound = fragment("struct_pack(i := {}, j := {}, l := {}, m := {})", first, second, *clocks)
    return Typed(fragment("list_transform([{}], lambda p: {})[1]", bound, _age_from_pair(unit)), INT64)


def _age_from_pair(unit: str) -> Fragment:
    """Computes ``age`` from the instants ``p.i`` and ``p.j`` and their wall clocks ``p.l`` and ``p.m``."""
    number, rest = _AGE_PARTS[unit]
    of_day = f"(({rest}) * 86400000000 + pando_time_of_day({{clock}}))"
    left, right = (fragment(of_day, clock=clock) for clock in ("p.l", "p.m"))
    not_full = fragment("CASE WHEN p.i <= p.j THEN {left} > {right} ELSE {right} > {left} END", left=left, right=right)
    if unit == "Week":  # ClickHouse compares the weekdays in the order of the arguments
        not_full = fragment("(isodow(p.l) > isodow(p.m) OR (isodow(p.l) = isodow(p.m) AND {}))", not_full)
    borders = fragment("({}) - ({})", fragment(number, clock="p.m"), fragment(number, clock="p.l"))
    last = fragment("CASE WHEN NOT {} THEN 0 WHEN p.i <= p.j THEN -1 ELSE 1 END", not_full)
    return fragment("CAST({} + {} AS BIGINT)", borders, last)


def _argument_instant(call: Call, position: int, zone: str | None) -> Fragment:
    """Returns a time as an instant; a date is midnight in ``zone``."""
    value = _time_argument(call, position)
    if isinstance(value.type, (DateType, Date32Type)):
        return cast_to(value, DateTime64Type(0), zone or call.environment.zone)
    return value.sql


def _argument_wall_clock(call: Call, position: int, zone: str | None) -> Fragment:
    value = _time_argument(call, position)
    if zone is not None and isinstance(value.type, DateTimeType):
        value = Typed(value.sql, DateTimeType(zone))
    return wall_clock(value, call.environment.zone)


MACROS = define_macros(
    # As in ClickHouse, the week before that of 1970-01-01 has the same number.
    r"""pando_week(monday) AS CASE WHEN monday < DATE '1969-12-29' THEN (monday - DATE '1969-12-29') // 7 + 1
        ELSE (monday - DATE '1969-12-29') // 7 END""",
)
