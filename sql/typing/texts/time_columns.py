"""Scan kernels that parse dates and times; usual spellings are read by words of eight bytes.

``known`` values equal those of ``sql.typing.texts.value_texts`` and ``sql.typing.texts.instant_texts``. An *odd* text
may be valid in another spelling, and is left to their macros. All other texts are invalid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import fixed_width_values, nullable_column
from sql.typing.column_kernels.scannable import split_known_values
from sql.typing.column_kernels.text_words import (
    BYTES,
    TextColumn,
    are_digits,
    digit_values,
    eight_digit_values,
    low_bytes,
    parse_digits,
    two_digit_value,
)
from sql.typing.texts.number_columns import parse_numbers, truncate_to_scale
from sql.typing.times.zone_offset_tables import zone_table

_MONTHS = np.arange(-1970 * 12, 8030 * 12 + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
"""The first day of every month from the year 0 on."""
_LAST_DAY, _LAST_SECOND = 65535, 4294967295
_WRONG_DAY = int(np.datetime64("1900-01-01").astype(np.int64))
_MICROS = 1_000_000
_BEGINS = np.isin(np.arange(256), list(b"0123456789-"))
_DAY = 86400 * _MICROS
_COLON = ord(":") ^ ord("0")
_TIME = pa.timestamp("us")
_UTC = ("UTC", "Etc/UTC", "GMT")
_ODD_DAY = (
    r"^(?P<y>[0-9]{4})[\x01-/:-\x7f](?P<m>[0-9]{1,2})[\x01-/:-\x7f](?P<d>[0-9]{1,2})"
    r"(?P<clock>[ T](?:[0-9]{2}:){2}[0-9]{2}(?:[.][0-9]+)?)?$"
)
_SECONDS = r"^(?:-[0-9]{1,12}|[0-9]{5,12})(?:[.][0-9]*)?$"
_MAY_BE_TIME = (
    r"^ *[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]|^[0-9]{4,}(?:[.][0-9]*|[ T][0-9]{6})?$|^[0-9]{4}[-/][0-9]{1,2} *$"
    r"|^ *(?:[A-Z][a-z]{2}, *)?(?:[0-9]+ *[A-Za-z]{3}|[A-Za-z]{3,} *[0-9])"
)
_LONG_FRACTION = r"^[0-9]{4}.{5,13}[0-9][ T][0-9:]{8}[.][0-9]{9,}$"
_LONGEST = 28
"""The size of ``YYYY-MM-DD hh:mm:ss`` and eight digits of a fraction."""


class _ParsedTimes(NamedTuple):
    """The parsed texts of an array; ``rows`` are those that begin with a digit or a minus."""

    length: int
    rows: np.ndarray
    texts: TextColumn
    days: np.ndarray
    micros: np.ndarray
    """Microseconds since the day's beginning."""
    is_day: np.ndarray
    """Whether the day exists."""
    is_right: np.ndarray
    """Whether the day and the time exist."""
    is_known: np.ndarray

    @property
    def clocks(self) -> np.ndarray:
        """The wall clocks in microseconds since the epoch."""
        return self.days * _DAY + self.micros

    def column(self, values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
        """Builds a column of all rows; ``values`` belong to ``rows``."""
        result = np.zeros(self.length, np.int32 if type_ == pa.date32() else np.int64)
        is_known = np.zeros(self.length, bool)
        result[self.rows], is_known[self.rows] = values, known
        return nullable_column(result, is_known, type_)

    def expand_flags(self, which: np.ndarray) -> np.ndarray:
        """Expands flags of ``rows`` to all rows; the others are false."""
        result = np.zeros(self.length, bool)
        result[self.rows] = which
        return result


def _parse(array: pa.Array) -> _ParsedTimes:
    """Parses ``YYYY-MM-DD``, alone or with ``hh:mm:ss`` and up to eight digits of a fraction.

    Any separators are allowed in the date. A day beyond the month's end flows into the next month; an invalid month
    gives 1900-01-01.
    """
    texts = TextColumn.select_by_first_byte(array, _BEGINS)
    may_be = (texts.sizes >= 5) | ((texts.sizes >= 2) & (texts.bytes_at(0) == ord("-")))
    if not may_be.all():
        texts = texts.select_texts(may_be)
    usual = _parse_with_arrow(array if len(texts.rows) == len(array) else array.take(pa.array(texts.rows)), texts.sizes)
    if usual is None:
        return _ParsedTimes(len(array), texts.rows, texts, *_parse_fields(texts))
    days = usual // 86400
    all_of_them = np.ones(len(usual), bool)
    return _ParsedTimes(len(array), texts.rows, texts, days, (usual - days * 86400) * _MICROS, *[all_of_them] * 3)


def _parse_with_arrow(array: pa.Array, sizes: np.ndarray) -> np.ndarray | None:
    """Returns the seconds if all texts are valid days, alone or with a time, else ``None``.

    Most columns are; Arrow parses these.
    """
    if not ((sizes == 10) | (sizes == 19)).all():
        return None
    try:
        return fixed_width_values(pc.cast(array, pa.timestamp("s")), np.int64)
    except pa.ArrowInvalid:
        return None


def _parse_fields(texts: TextColumn) -> tuple[np.ndarray, ...]:
    """Returns days and microseconds, and the flags of :class:`_ParsedTimes`."""
    sizes = texts.sizes
    first, second = digit_values(texts.words(0)), digit_values(texts.words(BYTES))
    is_known = are_digits(first & np.uint64(0x00FFFF00FFFFFFFF)) & are_digits(low_bytes(second, 2)) & (sizes >= 10)
    for place in (4, 7):
        mark = texts.bytes_at(place)
        is_known &= (mark < 128) & ((mark < ord("0")) | (mark > ord("9")))
    clock = digit_values(texts.words(11))
    is_clock = are_digits(clock & np.uint64(0xFFFF00FFFF00FFFF)) & np.isin(texts.bytes_at(10), (ord(" "), ord("T")))
    is_clock &= clock & np.uint64(0x0000FF0000FF0000) == np.uint64(_COLON << 16 | _COLON << 40)
    is_known &= (sizes == 10) | ((sizes >= 19) & (sizes <= 28) & is_clock)
    fraction = low_bytes(digit_values(texts.words(20)), np.clip(sizes - 20, 0, BYTES))
    is_known &= (sizes <= 19) | ((texts.bytes_at(19) == ord(".")) & are_digits(fraction))
    days, is_day = _to_days(_year(first), two_digit_value(first, 5), two_digit_value(second, 0))
    hour, minute, second = (two_digit_value(clock, place) for place in (0, 3, 6))
    is_right = is_day & ((sizes == 10) | ((hour < 24) & (minute < 60) & (second < 60)))
    micros = np.where(sizes > 10, ((hour * 60 + minute) * 60 + second) * _MICROS, 0)
    micros = np.where(sizes > 19, micros + (eight_digit_values(fraction) // np.uint64(100)).astype(np.int64), micros)
    return days, micros, is_day, is_right, is_known


def _year(first: np.ndarray) -> np.ndarray:
    return two_digit_value(first, 0) * 100 + two_digit_value(first, 2)


def _to_days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns days since the epoch, and whether these days exist."""
    place = np.clip(year * 12 + month - 1, 0, len(_MONTHS) - 2)
    begins, length = _MONTHS[place], _MONTHS[place + 1] - _MONTHS[place]
    is_some = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return np.where(is_some, begins + day - 1, _WRONG_DAY), is_some & (day <= length)


# Days -----------------------------------------------------------------------------------------------------------------


def parse_days(texts: pa.Array, *, is_narrow: bool) -> pa.Array:
    """Parses dates; ``is_narrow`` limits them to Date's range."""
    read = _parse(texts)
    sizes = read.texts.sizes
    found, known = read.days, read.is_known & (sizes != 20)
    is_short = sizes == BYTES
    if is_short.any():  # YYYYMMDD
        first = digit_values(read.texts.words(0))
        short, _ = _to_days(_year(first), two_digit_value(first, 4), two_digit_value(first, 6))
        found, known = np.where(is_short, short, found), known | (is_short & are_digits(first))
    left = np.flatnonzero((sizes >= BYTES) & ~known)
    if len(left):
        found = found.copy()
        found[left], known[left] = _parse_odd_days(texts.take(pa.array(read.rows[left])))
    return read.column(np.clip(found, 0, _LAST_DAY) if is_narrow else found, known, pa.date32())


def _parse_odd_days(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Parses months and days of one digit, and times with long fractions.

    Returns the days, and which texts are valid.
    """
    parts = pc.extract_regex(texts, _ODD_DAY)
    year, month, day = (
        np.asarray(pc.cast(pc.fill_null(pc.struct_field(parts, name), "1"), pa.int64())) for name in "ymd"
    )
    has_two = [pc.equal(pc.binary_length(pc.struct_field(parts, name)), 2) for name in "md"]
    is_day = pc.or_(pc.equal(pc.struct_field(parts, "clock"), ""), pc.and_(*has_two))
    return _to_days(year, month, day)[0], np.asarray(pc.fill_null(is_day, False))


# Instants -------------------------------------------------------------------------------------------------------------


def parse_usual_instants(texts: pa.Array, *, zone: str, fine: bool, may_be_none: bool) -> pa.Array:
    """Returns the instants of usual spellings, and the texts that are odd.

    ``may_be_none``: texts that are certainly invalid are not odd. Without ``fine`` the instants are whole seconds in
    DateTime's range.
    """
    read = _parse(texts)
    sizes = read.texts.sizes
    is_usual = read.is_known & ((sizes < 27) & (sizes != 20) if fine else sizes <= 19)
    for place in (4, 7):
        is_usual &= read.texts.bytes_at(place) == ord("-")
    times = read.clocks if zone in _UTC else zone_table(zone, True).instants(read.clocks)
    times = times if fine else np.clip(times, 0, _LAST_SECOND * _MICROS)
    known = read.column(times, is_usual & read.is_right, _TIME)
    is_odd = np.asarray(pc.and_(pc.is_null(known), pc.is_valid(texts)))
    if may_be_none:
        is_odd = is_odd & ~read.expand_flags(is_usual & ~read.is_day)
        rows = np.flatnonzero(is_odd)
        is_odd[rows] = np.asarray(pc.match_substring_regex(texts.take(pa.array(rows)), _MAY_BE_TIME))
    return split_known_values(known, texts, is_odd)


def parse_basic_instants(texts: pa.Array, *, zone: str, fine: bool) -> pa.Array:
    """Parses the instants of the basic spelling; other texts give NULL."""
    read = _parse(texts)
    known = _mark_basic(read, fine)
    times = read.clocks if zone in _UTC else zone_table(zone, True).instants(read.clocks)
    if not fine:
        times = np.clip(times, 0, _LAST_SECOND * _MICROS) // _MICROS * _MICROS
    if not known.all():
        ticks, is_number = _parse_unix(read.texts, fine)
        times, known = np.where(is_number, ticks, times), known | is_number
    left = np.flatnonzero(~known)
    if fine and len(left):
        times[left], known[left] = _parse_odd_instants(texts.take(pa.array(read.rows[left])), zone)
    return read.column(times, known, _TIME)


def _parse_odd_instants(texts: pa.Array, zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Parses signed or fractional seconds, and times with long fractions.

    Returns the instants, and which texts are valid.
    """
    times, known = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    is_number = np.asarray(pc.match_substring_regex(texts, _SECONDS))
    is_long = np.asarray(pc.match_substring_regex(texts, _LONG_FRACTION))
    if is_number.any():
        spelled = pc.replace_substring_regex(texts.filter(pa.array(is_number)), "^-(0+[.])", r"\1")
        micros = parse_numbers(truncate_to_scale(spelled, 6), pa.decimal128(18, 6))
        times[is_number], known[is_number] = np.frombuffer(micros.buffers()[1], np.int64)[: 2 * len(micros) : 2], True
    if is_long.any():
        short = pc.utf8_slice_codeunits(texts.filter(pa.array(is_long)), 0, _LONGEST)
        read = parse_basic_instants(short, zone=zone, fine=True)
        times[is_long], known[is_long] = fixed_width_values(read, np.int64), np.asarray(pc.is_valid(read))
    return times, known


def _mark_basic(read: _ParsedTimes, fine: bool) -> np.ndarray:
    """Tells which texts are known. A DateTime with a point is invalid, unless points separate its date."""
    if fine:
        return read.is_known
    texts = read.texts
    has_point = (texts.bytes_at(4) == ord(".")) | (texts.bytes_at(7) == ord("."))
    return read.is_known & (texts.sizes <= 19) & (~has_point | (texts.sizes == 10))


def _parse_unix(texts: TextColumn, fine: bool) -> tuple[np.ndarray, np.ndarray]:
    """Parses seconds since the epoch; with ``fine`` more than twelve digits are milliseconds.

    Returns the microseconds, and which texts are such numbers.
    """
    value, fits, is_number = parse_digits(texts)
    if fine:
        unit = np.where(texts.sizes > 12, 1000, _MICROS)
        return value.astype(np.int64) * unit, is_number & (texts.sizes <= 15)
    return np.minimum(value, np.uint64(_LAST_SECOND)).astype(np.int64) * _MICROS, is_number & fits
