"""Parses texts to dates and times.

Dates may be ``YYYY-MM-DD``, ``YYYY/M/D`` or ``YYYYMMDD``. Times may be ``YYYY-MM-DD[ T]hh:mm:ss[.fraction]`` in the
column's time zone, the same with ``Z`` or ``±hh:mm`` as an instant, a date alone (midnight), or unix seconds (with a
fraction). Hours, minutes and seconds may have one digit. Digits of a fraction beyond the type's precision are dropped,
as in ClickHouse. A local time that a change of the clock repeats is the earlier one; one that it skips moves forward.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DataType, Date32Type, DateTime64Type, DateTimeType, DateType
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.wall_clocks import to_utc
from sql.formats.format_options import FormatOptions, parse_error, range_error

_DAY_RANGE = {DateType: (0, 65535), Date32Type: (-25567, 120529)}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ZONED = r"[0-9](?:Z|[+-][0-9]{2}:?[0-9]{2})$"
_SEPARATOR = r"[\x00-/:-\x7f]"
_NUMERIC = r"^-?[0-9]+(?:\.[0-9]*)?$"


def parse_dates(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Parses dates. Raises ``BadValueError``."""
    try:
        days = pc.cast(texts, pa.date32())
    except pa.ArrowInvalid:
        clean = pc.utf8_trim(texts, " \t")
        clean = pc.replace_substring_regex(clean, r"^([0-9]{4})([0-9]{2})([0-9]{2})$", r"\1-\2-\3")
        days = _cast_or_name(_with_dashes(clean), texts, pa.date32(), type_, "CANNOT_PARSE_DATE")
    low, high = _DAY_RANGE[type(type_)]
    _check_range(pc.cast(days, pa.int32()), low, high, texts, type_)
    return days


def _with_dashes(texts: pa.Array) -> pa.Array:
    """``YYYY/M/D``, with a time or without, as ``YYYY-MM-DD``; a separator may be any byte of ASCII but a digit."""
    date = rf"^([0-9]{{4}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}})($|[ T])"
    texts = pc.replace_substring_regex(texts, date, r"\1-\2-\3\4")
    texts = pc.replace_substring_regex(texts, r"^([0-9]{4})-([0-9])-", r"\1-0\2-")
    return pc.replace_substring_regex(texts, r"^([0-9]{4}-[0-9]{2})-([0-9])($|[ T])", r"\1-0\2\3")


def _with_alike_dashes(texts: pa.Array) -> pa.Array:
    """As :func:`_with_dashes`, but both separators of a date must be the same where a time may follow."""
    separators = pc.extract_regex(texts, rf"^[0-9]{{4}}(?P<first>{_SEPARATOR})[0-9]{{1,2}}(?P<second>{_SEPARATOR})")
    differ = pc.not_equal(pc.struct_field(separators, "first"), pc.struct_field(separators, "second"))
    return pc.if_else(pc.fill_null(differ, False), texts, _with_dashes(texts))


def _with_two_digits(texts: pa.Array) -> pa.Array:
    """Returns times with hours, minutes and seconds of two digits: ``7:8:5`` as ``07:08:05``."""
    for before in ("[ T]", "[ T][0-9]{2}:", "[ T][0-9]{2}:[0-9]{2}:"):
        one_digit = rf"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{before})([0-9])($|[^0-9])"
        texts = pc.replace_substring_regex(texts, one_digit, r"\10\2\3")
    return texts


def parse_datetimes(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Parses times. Raises ``BadValueError``."""
    assert isinstance(type_, (DateTimeType, DateTime64Type))
    zone = type_.timezone or options.timezone
    try:
        result = wall_clocks_to_utc(pc.cast(texts, type_.arrow), zone)
    except pa.ArrowInvalid:
        result = _mixed_times(texts, type_, zone)
    if isinstance(type_, DateTimeType):
        _check_range(pc.cast(result, pa.int64()), 0, 2**32 - 1, texts, type_)
        return result
    return truncate_fraction(result, type_)


def truncate_fraction(times: pa.Array, type_: DateTime64Type) -> pa.Array:
    """Drops the digits that the unit holds beyond the type's precision."""
    step = 10 ** (_UNIT_DIGITS[type_.unit] - type_.precision)
    if step == 1:
        return times
    ticks = pc.cast(times, pa.int64())
    return pc.cast(pc.multiply(pc.divide(ticks, step), step), times.type)


def wall_clocks_to_utc(local: pa.Array, zone: str) -> pa.Array:
    """Converts wall clock times of the zone to UTC instants."""
    if zone == "UTC":
        return local
    return to_utc(local, zone)


def _mixed_times(texts: pa.Array, type_: DateTimeType | DateTime64Type, zone: str) -> pa.Array:
    """Rows of different forms: unix seconds, zoned, and local times."""
    clean = _with_two_digits(_with_alike_dashes(pc.utf8_trim(texts, " \t")))
    digits = _UNIT_DIGITS[type_.unit] if isinstance(type_, DateTime64Type) else 0
    numeric = pc.match_substring_regex(clean, _NUMERIC)
    zoned = pc.match_substring_regex(clean, _ZONED)
    compact = pc.if_else(numeric, None, _cut_fraction(clean, digits))
    local_text = pc.replace_substring_regex(pc.if_else(zoned, None, compact), r"^([0-9-]+ [0-9]+:[0-9]+)$", r"\1:00")
    local = _cast_or_name(local_text, texts, type_.arrow, type_, "CANNOT_PARSE_DATETIME")
    zoned_text = pc.replace_substring_regex(pc.if_else(zoned, compact, None), r"([+-][0-9]{2})([0-9]{2})$", r"\1:\2")
    instants = _cast_or_name(zoned_text, texts, pa.timestamp(type_.arrow.unit, "UTC"), type_, "CANNOT_PARSE_DATETIME")
    ticks = _numeric_ticks(pc.if_else(numeric, clean, None), texts, type_, digits)
    return pc.coalesce(wall_clocks_to_utc(local, zone), pc.cast(pc.cast(instants, pa.int64()), type_.arrow), ticks)


def _cut_fraction(texts: pa.Array, digits: int) -> pa.Array:
    if digits == 0:
        return pc.replace_substring_regex(texts, r"(:[0-9]{2})\.[0-9]*", r"\1")
    return pc.replace_substring_regex(texts, rf"(\.[0-9]{{{digits}}})[0-9]+", r"\1")


def _numeric_ticks(numbers: pa.Array, texts: pa.Array, type_: DataType, digits: int) -> pa.Array:
    """Parses unix seconds.

    For DateTime64 a whole number of more than ten digits counts ticks of the type's precision.
    """
    parts = pc.extract_regex(numbers, r"^(?P<whole>-?[0-9]+)(?:\.(?P<fraction>[0-9]*))?$")
    whole = _cast_or_name(pc.struct_field(parts, "whole"), texts, pa.int64(), type_, "CANNOT_PARSE_DATETIME")
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), digits, "0"), 0, digits)
    fraction = pc.cast(pc.if_else(pc.equal(padded, ""), "0", padded), pa.int64())
    fraction = pc.if_else(pc.starts_with(numbers, "-"), pc.negate(fraction), fraction)
    try:
        ticks = pc.add_checked(pc.multiply_checked(whole, 10**digits), fraction)
    except pa.ArrowInvalid:
        ticks = None
    if isinstance(type_, DateTime64Type):
        counts = pc.and_(pc.invert(pc.match_substring(numbers, ".")), pc.greater(pc.binary_length(numbers), 10))
        counted = pc.multiply_checked(whole, 10 ** (digits - type_.precision))
        ticks = counted if ticks is None else pc.if_else(counts, counted, ticks)
    if ticks is None:
        index = int(pc.index(pc.equal(whole, pc.max(pc.abs(whole))), pa.scalar(True)).as_py())
        raise range_error(index, texts[index].as_py(), type_)
    return pc.cast(ticks, type_.arrow)


def _cast_or_name(clean: pa.Array, texts: pa.Array, target: pa.DataType, type_: DataType, name: str) -> pa.Array:
    """Casts the texts; when that fails, names the first row that fails, with its original text."""
    try:
        return pc.cast(clean, target)
    except pa.ArrowInvalid:
        index = first_invalid_row(clean, target)
        raise parse_error(index, texts[index].as_py(), type_, name) from None


def _check_range(numbers: pa.Array, low: int, high: int, texts: pa.Array, type_: DataType) -> None:
    bounds = pc.min_max(numbers)
    if bounds["min"].as_py() is None or (low <= bounds["min"].as_py() and bounds["max"].as_py() <= high):
        return
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    index = int(pc.index(outside, pa.scalar(True)).as_py())
    raise range_error(index, texts[index].as_py(), type_)
