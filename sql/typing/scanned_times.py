"""Dates and times that texts spell, as scans read them: the usual spellings by words of eight bytes.

``known`` values are those of ``sql.typing.texts`` and ``sql.typing.instant_texts``; a text that is *odd* may spell
something else, which their macros read; all others spell nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.kernels import masked, numbers
from sql.typing.scannable import known_and_odd
from sql.typing.text_words import (
    BYTES,
    Texts,
    are_digits,
    low_bytes,
    minus_zeros,
    pair_at,
    value_of,
    whole_numbers,
)
from sql.typing.zone_tables import zone_table

_MONTHS = np.arange(-1970 * 12, 8030 * 12 + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
"""The first day of every month from the year 0 on."""
_LAST_DAY, _LAST_SECOND = 65535, 4294967295
_WRONG_DAY = int(np.datetime64("1900-01-01").astype(np.int64))
_MICROS = 1_000_000
_BEGINS = np.isin(np.arange(256), list(b"0123456789-"))
_DAY = 86400 * _MICROS
_COLON = ord(":") ^ ord("0")


class _Read(NamedTuple):
    """What the texts of ``rows`` of an array spell, which are those that begin with a digit (or a minus)."""

    length: int
    rows: np.ndarray
    texts: Texts
    days: np.ndarray
    micros: np.ndarray
    """Of the day."""
    is_right: np.ndarray
    """Whether there is such a day, and such a time."""
    is_known: np.ndarray

    @property
    def clocks(self) -> np.ndarray:
        return self.days * _DAY + self.micros

    def column(self, values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
        result = np.zeros(self.length, np.int32 if type_ == pa.date32() else np.int64)
        is_known = np.zeros(self.length, bool)
        result[self.rows], is_known[self.rows] = values, known
        return masked(result, is_known, type_)

    def of_all(self, which: np.ndarray) -> np.ndarray:
        """What holds for some of ``rows``."""
        result = np.zeros(self.length, bool)
        result[self.rows] = which
        return result


def _read(array: pa.Array) -> _Read:
    """Known are ``YYYY-MM-DD``, alone or with ``hh:mm:ss`` and up to eight digits of a fraction, and with any marks in
    the date. A wrong day flows into the next month, a wrong month is 1900-01-01."""
    texts = Texts.that_begin(array, _BEGINS)
    may_be = (texts.sizes >= 5) | ((texts.sizes >= 2) & (texts.bytes_at(0) == ord("-")))
    if not may_be.all():
        texts = texts.chosen(may_be)
    usual = _usual(array if len(texts.rows) == len(array) else array.take(pa.array(texts.rows)), texts.sizes)
    if usual is None:
        return _Read(len(array), texts.rows, texts, *_split(texts))
    days = usual // 86400
    all_of_them = np.ones(len(usual), bool)
    return _Read(len(array), texts.rows, texts, days, (usual - days * 86400) * _MICROS, all_of_them, all_of_them)


def _usual(array: pa.Array, sizes: np.ndarray) -> np.ndarray | None:
    """The seconds, if all are right days, alone or with a time: most columns are, and Arrow reads these."""
    if not ((sizes == 10) | (sizes == 19)).all():
        return None
    try:
        return numbers(pc.cast(array, pa.timestamp("s")), np.int64)
    except pa.ArrowInvalid:
        return None


def _split(texts: Texts) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    sizes = texts.sizes
    first, second = minus_zeros(texts.words(0)), minus_zeros(texts.words(BYTES))
    is_known = are_digits(first & np.uint64(0x00FFFF00FFFFFFFF)) & are_digits(low_bytes(second, 2)) & (sizes >= 10)
    for place in (4, 7):
        mark = texts.bytes_at(place)
        is_known &= (mark < 128) & ((mark < ord("0")) | (mark > ord("9")))
    clock = minus_zeros(texts.words(11))
    is_clock = are_digits(clock & np.uint64(0xFFFF00FFFF00FFFF)) & np.isin(texts.bytes_at(10), (ord(" "), ord("T")))
    is_clock &= clock & np.uint64(0x0000FF0000FF0000) == np.uint64(_COLON << 16 | _COLON << 40)
    is_known &= (sizes == 10) | ((sizes >= 19) & (sizes <= 28) & is_clock)
    fraction = low_bytes(minus_zeros(texts.words(20)), np.clip(sizes - 20, 0, BYTES))
    is_known &= (sizes <= 19) | ((texts.bytes_at(19) == ord(".")) & are_digits(fraction))
    days, is_right = _day_of(first, pair_at(first, 5), pair_at(second, 0))
    hour, minute, second = (pair_at(clock, place) for place in (0, 3, 6))
    is_right &= (sizes == 10) | ((hour < 24) & (minute < 60) & (second < 60))
    micros = np.where(sizes > 10, ((hour * 60 + minute) * 60 + second) * _MICROS, 0)
    micros = np.where(sizes > 19, micros + (value_of(fraction) // np.uint64(100)).astype(np.int64), micros)
    return days, micros, is_right, is_known


def _day_of(first: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``first`` has the four digits of the year. Also whether there is such a day."""
    year = pair_at(first, 0) * 100 + pair_at(first, 2)
    place = np.clip(year * 12 + month - 1, 0, len(_MONTHS) - 2)
    begins, length = _MONTHS[place], _MONTHS[place + 1] - _MONTHS[place]
    is_some = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return np.where(is_some, begins + day - 1, _WRONG_DAY), is_some & (day <= length)


# Days -----------------------------------------------------------------------------------------------------------------


def days(texts: pa.Array, *, is_narrow: bool) -> pa.Array:
    """The days that are known; ``is_narrow``: within Date's range."""
    return _days(_read(texts), is_narrow)[0]


def days_and_odd(texts: pa.Array, *, is_narrow: bool) -> pa.Array:
    read = _read(texts)
    found, known = _days(read, is_narrow)
    return known_and_odd(found, texts, read.of_all((read.texts.sizes >= BYTES) & ~known))


def _days(read: _Read, is_narrow: bool) -> tuple[pa.Array, np.ndarray]:
    """Also of ``YYYYMMDD``; and which of ``rows`` are known."""
    found, known = read.days, read.is_known & (read.texts.sizes != 20)
    is_short = read.texts.sizes == BYTES
    if is_short.any():
        first = minus_zeros(read.texts.words(0))
        short, _ = _day_of(first, pair_at(first, 4), pair_at(first, 6))
        found, known = np.where(is_short, short, found), known | (is_short & are_digits(first))
    return read.column(np.clip(found, 0, _LAST_DAY) if is_narrow else found, known, pa.date32()), known


# Instants -------------------------------------------------------------------------------------------------------------


def clocks(texts: pa.Array, *, fine: bool) -> pa.Array:
    """The wall clocks that are known, of right days; unless ``fine`` whole seconds far inside DateTime's range."""
    read = _read(texts)
    known = read.is_known & read.is_right
    for place in (4, 7):
        known &= read.texts.bytes_at(place) == ord("-")
    if fine:
        known &= (read.texts.sizes < 27) & (read.texts.sizes != 20)
    else:
        known &= (read.texts.sizes <= 19) & (read.days > 0) & (read.days < _LAST_SECOND // 86400)
    return read.column(read.clocks, known, pa.timestamp("us"))


def basic_instants(texts: pa.Array, *, zone: str, fine: bool) -> pa.Array:
    """The instants that are known of the basic spelling, and the texts that are odd."""
    read = _read(texts)
    known = _basic(read, fine)
    times = read.clocks if zone in ("UTC", "Etc/UTC", "GMT") else zone_table(zone, True).instants(read.clocks)
    if not fine:
        times = np.clip(times, 0, _LAST_SECOND * _MICROS) // _MICROS * _MICROS
    is_odd = ~known
    if is_odd.any():
        ticks, is_number = _unix(read.texts, fine)
        times, known = np.where(is_number, ticks, times), known | is_number
        begins = are_digits(low_bytes(minus_zeros(read.texts.words(0)), 4))
        is_odd = ~known & (begins | (read.texts.bytes_at(0) == ord("-")) if fine else begins)
    return known_and_odd(read.column(times, known, pa.timestamp("us")), texts, read.of_all(is_odd))


def _basic(read: _Read, fine: bool) -> np.ndarray:
    """Which are known. What has a point spells no DateTime, but for a date with points."""
    if fine:
        return read.is_known
    texts = read.texts
    has_point = (texts.bytes_at(4) == ord(".")) | (texts.bytes_at(7) == ord("."))
    return read.is_known & (texts.sizes <= 19) & (~has_point | (texts.sizes == 10))


def _unix(texts: Texts, fine: bool) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since the epoch, and milliseconds if more than twelve digits stand for a DateTime64; which are that."""
    value, fits, is_number = whole_numbers(texts)
    if fine:
        unit = np.where(texts.sizes > 12, 1000, _MICROS)
        return value.astype(np.int64) * unit, is_number & (texts.sizes <= 15)
    return np.minimum(value, np.uint64(_LAST_SECOND)).astype(np.int64) * _MICROS, is_number & fits
