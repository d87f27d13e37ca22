"""Functions that construct, format and parse dates and times, and the clock (``now``, ``today``)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import (
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    FloatType,
    make_nullable,
)
from sql.functions.dates.date_parts import clock_argument, local_clock, time_argument
from sql.functions.registry import Call, define, function
from sql.grammar.queries.time_units import find_time_unit_or_short
from sql.typing.casts.casts import cast_to
from sql.typing.casts.text_casts import value_or_null
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.result_types import is_number, is_string
from sql.typing.times.date_ranges import clamp_instant
from sql.typing.times.time_zones import from_zone_as_utc, wall_clock, zone_to_utc
from sql.typing.typed_expressions import INT64, STRING, Typed, cast, literal, string_literal


@function("toTimeZone toTimezone", 2)
def to_time_zone(call: Call) -> Typed:
    """Compiles ``toTimeZone(value, timezone)``: the same instant. Raises ``UserError`` 43."""
    value, zone = call.args[0], call.constant_zone(1)
    if isinstance(value.type, DateTimeType):
        return Typed(value.sql, DateTimeType(zone))
    if isinstance(value.type, DateTime64Type):
        return Typed(value.sql, DateTime64Type(value.type.precision, zone))
    raise call.wrong_type(0, "DateTime")


@function("timeZoneOf timezoneOf", 1)
def time_zone_of(call: Call) -> Typed:
    """Compiles ``timeZoneOf(value)``. Raises ``UserError`` 43."""
    value = clock_argument(call)
    return literal(value.type.timezone or call.environment.zone)  # type: ignore[attr-defined]


@function("fromUnixTimestamp FROM_UNIXTIME", (1, 3))
def from_unix_timestamp(call: Call) -> Typed:
    """Compiles ``fromUnixTimestamp(seconds[, format[, timezone]])``."""
    value = Typed(cast_to(call.args[0], DateTimeType(), call.environment.zone), DateTimeType())
    if len(call.args) == 1:
        return value
    return format_date_time(Call("formatDateTime", (value, *call.args[1:]), call.environment))


def _build_from_unix(scale: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        type_ = DateTime64Type(scale, call.constant_zone(1))
        micros = fragment("CAST({} AS BIGINT) * {}", call.args[0].sql, 10 ** (6 - scale))
        return Typed(cast(fragment("make_timestamp({})", micros), type_), type_)

    return build


define("fromUnixTimestamp64Milli", _build_from_unix(3), (1, 2))
define("fromUnixTimestamp64Micro", _build_from_unix(6), (1, 2))


def _build_to_unix(step: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if not isinstance(value.type, DateTime64Type):
            raise call.wrong_type(0, "DateTime64")
        micros = fragment("(epoch_ns({}) // 1000)" if value.type.precision > 6 else "epoch_us({})", value.sql)
        return Typed(fragment("({} // {})", micros, step) if step > 1 else micros, INT64)

    return build


define("toUnixTimestamp64Milli", _build_to_unix(1000), 1)
define("toUnixTimestamp64Micro", _build_to_unix(1), 1)


@function("makeDate", (2, 3))
def make_date(call: Call) -> Typed:
    """Compiles ``makeDate``; an invalid date, or one outside Date's range, gives 1970-01-01."""
    macro = "pando_make_day" if len(call.args) == 2 else "pando_make_date"
    return Typed(
        function_call(macro, *[_integer_argument(call, position) for position in range(len(call.args))]), DateType()
    )


def _integer_argument(call: Call, position: int) -> Fragment:
    value = call.args[position]
    if not is_number(value.type):
        raise call.wrong_type(position, "a number")
    return cast(fragment("trunc({})", value.sql) if isinstance(value.type, FloatType) else value.sql, INT64)


@function("makeDateTime", (6, 7))
def make_date_time(call: Call) -> Typed:
    """Compiles ``makeDateTime(year, month, day, hour, minute, second[, timezone])``."""
    zone = call.constant_zone(6)
    local = function_call("pando_make_time", *[_integer_argument(call, position) for position in range(6)])
    return Typed(clamp_instant(zone_to_utc(local, zone or call.environment.zone)), DateTimeType(zone))


# The clock: one moment for the whole query ----------------------------------------------------------------------------


def _current_second(call: Call) -> Fragment:
    moment = datetime.datetime.fromtimestamp(int(call.environment.now), datetime.UTC)
    return fragment("CAST('{}' AS TIMESTAMP)", f"{moment:%Y-%m-%d %H:%M:%S}")


@function("now current_timestamp", (0, 1))
def now(call: Call) -> Typed:
    """Compiles ``now([timezone])``: one instant for the whole query."""
    zone = call.constant_zone(0)
    return Typed(_current_second(call), DateTimeType(zone), is_constant=True)


@function("now64", (0, 2))
def now64(call: Call) -> Typed:
    """Compiles ``now64([precision[, timezone]])``: one instant for the whole query."""
    type_ = DateTime64Type(call.constant_precision(0, 3), call.constant_zone(1))
    micros = int(call.environment.now * 1_000_000)
    unit = 10 ** max(0, 6 - type_.precision)
    return Typed(cast(fragment("make_timestamp({})", micros // unit * unit), type_), type_, is_constant=True)


def _current_day(call: Call, shift: int) -> Typed:
    from zoneinfo import ZoneInfo

    moment = datetime.datetime.fromtimestamp(call.environment.now, ZoneInfo(call.environment.zone))
    return Typed(
        fragment("DATE '{}'", str(moment.date() + datetime.timedelta(days=shift))), DateType(), is_constant=True
    )


define("today curdate current_date", lambda call: _current_day(call, 0), 0)
define("yesterday", lambda call: _current_day(call, -1), 0)


# Formatting and parsing -----------------------------------------------------------------------------------------------

_FORMAT = {
    "Y": "%Y", "y": "%y", "m": "%m", "d": "%d", "H": "%H", "M": "%B", "i": "%M", "S": "%S", "s": "%S", "I": "%I",
    "h": "%I", "p": "%p", "j": "%j", "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y",
    "a": "%a", "W": "%A",
    "b": "%b", "%": "%%", "n": "\n", "t": "\t", "f": "%f", "r": "%I:%M %p", "u": "%u", "w": "%w", "G": "%G", "V": "%V",
}  # fmt: skip
_PARSE = {**_FORMAT, "f": "%f", "c": "%m", "e": "%d", "l": "%I", "k": "%H"}


def _translate_format(call: Call, pattern: str, table: dict[str, str]) -> str:
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


@function("formatDateTime DATE_FORMAT", (2, 3))
def format_date_time(call: Call) -> Typed:
    """Compiles ``formatDateTime(value, format[, timezone])``.

    Raises ``UserError`` 48 for an unsupported specifier.
    """
    pattern = _translate_format(call, call.constant_text(1), _FORMAT)
    value = time_argument(call)
    if len(call.args) > 2:
        zone = call.constant_zone(2)
        value = Typed(value.sql, DateTimeType(zone) if isinstance(value.type, DateTimeType) else value.type)
    return Typed(
        fragment("strftime({}, {})", wall_clock(value, call.environment.zone), string_literal(pattern)), STRING
    )


@function("dateName", (2, 3))
def date_name(call: Call) -> Typed:
    """Compiles ``dateName('unit', value)``. Raises ``UserError`` 48 for an unsupported unit."""
    unit = find_time_unit_or_short(call.constant_text(0))
    pattern = {"Month": "%B", "Day": "%-d", "Year": "%Y", "Hour": "%-H", "Minute": "%-M", "Second": "%-S"}.get(
        unit or ""
    )
    if call.constant_text(0).lower() == "weekday":
        pattern = "%A"
    if pattern is None:
        raise UserError("NOT_IMPLEMENTED", f"dateName of {call.args[0].value!r} is not supported")
    value = clock_argument(call, 1) if unit in ("Hour", "Minute", "Second") else time_argument(call, 1)
    return Typed(
        fragment("strftime({}, {})", wall_clock(value, call.environment.zone), string_literal(pattern)), STRING
    )


@function("monthName", 1)
def month_name(call: Call) -> Typed:
    """Compiles ``monthName(value)``. Raises ``UserError`` 43."""
    if isinstance(call.args[0].type, Date32Type):
        raise call.wrong_type(0, "Date, DateTime or DateTime64")
    return Typed(fragment("monthname({})", local_clock(call)), STRING)


@function("parseDateTime str_to_date", (2, 3))
def parse_date_time(call: Call) -> Typed:
    """Compiles ``parseDateTime(text, format[, timezone])``. Raises ``UserError`` 48."""
    zone = call.constant_zone(2)
    pattern = _translate_format(call, call.constant_text(1), _PARSE)
    local = fragment("strptime({}, {})", call.args[0].sql, string_literal(pattern))
    name = zone or call.environment.zone
    return Typed(from_zone_as_utc(local, name), DateTimeType(name))


def _build_best_effort(kind: str, *, fine: bool, month_first: bool) -> Callable[[Call], Typed]:
    """Builds a ``parseDateTimeBestEffort`` function.

    ``kind`` says what an invalid text gives: ``Null``, ``Zero``, or an error if empty. ``fine``: the result is a
    DateTime64. ``month_first``: texts are in the American order.
    """

    def build(call: Call) -> Typed:
        if not is_string(call.args[0].type):
            raise call.wrong_type(0, "String")
        zone = call.constant_zone(2 if fine else 1)
        type_ = DateTime64Type(call.constant_precision(1, 3), zone) if fine else DateTimeType(zone)
        value = Typed(cast_to(call.args[0], STRING, call.environment.zone), STRING)
        if month_first:
            value = Typed(fragment("regexp_replace({}, {}, {})", value.sql, *map(string_literal, _MONTH_FIRST)), STRING)
        if not kind:
            return Typed(cast_to(value, type_, call.environment.zone), type_)
        read = value_or_null(value, type_, call.environment.zone)
        if kind == "Null":
            return Typed(read, make_nullable(type_))
        return Typed(fragment("coalesce({}, {})", read, default_value(type_)), type_)

    return build


_MONTH_FIRST = (r"^( *(?:[0-9:]{4,} +)?)([0-9]{1,2})([-/.])([0-9]{1,2})([-/.])", r"\1\4\3\2\5")
"""Puts the day before the month."""

for _kind in ("", "Null", "Zero"):
    _suffix = _kind and f"Or{_kind}"
    for _order in ("", "US"):
        define(
            f"parseDateTimeBestEffort{_order}{_suffix}",
            _build_best_effort(_kind, fine=False, month_first=bool(_order)),
            (1, 2),
        )
        define(
            f"parseDateTime64BestEffort{_order}{_suffix}",
            _build_best_effort(_kind, fine=True, month_first=bool(_order)),
            (1, 3),
            low_cardinality=False,
        )
