"""Scan kernels for functions of calendar days: each is looked up in a table.

A table covers the days from 1900 to 2299, and is built when a value first needs it. Other days are computed. Days count
from 1970-01-01; all functions of this module take and return arrays of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa

from sql.typing.column_kernels.kernels import fixed_width_column, fixed_width_values
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment

OfDays = Callable[[np.ndarray], np.ndarray]
_FIRST, _LAST = -25567, 120529
_LAST_DATE = 65535
_THURSDAY = 3
"""The epoch's day of the week, counted from Monday as 0."""
_DAY_SECONDS = 86400
_INT64 = np.dtype(np.int64)
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def scan_day_function(sql: Fragment, moment: Fragment, of: OfDays, result: pa.DataType) -> Fragment:
    """Adds a scan kernel to ``sql``, a function of a date or a wall clock's day."""
    return Scannable(sql, moment, partial(_looked_up, of, result), result)


def year_to_second_number(sql: Fragment, moment: Fragment) -> Fragment:
    """Adds a scan kernel to ``sql``, the number YYYYMMDDhhmmss (UInt64)."""
    return Scannable(sql, moment, _spelled, pa.uint64())


def _looked_up(of: OfDays, result: pa.DataType, times: pa.Array) -> pa.Array:
    kind = np.dtype(np.int32 if pa.types.is_date32(result) else result.to_pandas_dtype())
    return fixed_width_column(_of(of, kind, _days_and_rest(times)[0]), result, times)


def _spelled(times: pa.Array) -> pa.Array:
    days, rest, second = _days_and_rest(times)
    seconds = (rest // second).astype(np.uint32)
    clock = seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60
    return fixed_width_column(
        _of(year_month_days, _INT64, days).astype(np.uint64) * np.uint64(1_000_000) + clock, pa.uint64(), times
    )


def _days_and_rest(times: pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns days, ticks since each day's beginning, and ticks per second."""
    if pa.types.is_date32(times.type):
        days = fixed_width_values(times, np.int32)
        return days, np.zeros(len(days), np.int64), 1
    second = _TICKS[times.type.unit]
    ticks = fixed_width_values(times, np.int64)
    days = ticks // (_DAY_SECONDS * second)
    return days, ticks - days * (_DAY_SECONDS * second), second


def _of(of: OfDays, kind: np.dtype, days: np.ndarray) -> np.ndarray:
    if len(days) and (days.min() < _FIRST or days.max() > _LAST):
        return of(days).astype(kind)
    return _table(of, kind)[days - _FIRST]


@cache
def _table(of: OfDays, kind: np.dtype) -> np.ndarray:
    return of(np.arange(_FIRST, _LAST + 1)).astype(kind)


def _months(days: np.ndarray) -> np.ndarray:
    """Returns months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_days(months: np.ndarray) -> np.ndarray:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _in_date(days: np.ndarray) -> np.ndarray:
    return np.clip(days, 0, _LAST_DATE)


# Parts ----------------------------------------------------------------------------------------------------------------


def year(days: np.ndarray) -> np.ndarray:
    return 1970 + _months(days) // 12


def month(days: np.ndarray) -> np.ndarray:
    return _months(days) % 12 + 1


def day_of_month(days: np.ndarray) -> np.ndarray:
    return days - _first_days(_months(days)) + 1


def day_of_year(days: np.ndarray) -> np.ndarray:
    return days - _first_days(_months(days) // 12 * 12) + 1


def quarter(days: np.ndarray) -> np.ndarray:
    return _months(days) % 12 // 3 + 1


def year_months(days: np.ndarray) -> np.ndarray:
    """Returns numbers YYYYMM."""
    number = _months(days)
    return (1970 + number // 12) * 100 + number % 12 + 1


def year_month_days(days: np.ndarray) -> np.ndarray:
    """Returns numbers YYYYMMDD."""
    return year_months(days) * 100 + day_of_month(days)


def month_number(days: np.ndarray) -> np.ndarray:
    """Returns months since the year 0, from 1."""
    return _months(days) + 1970 * 12 + 1


def quarter_number(days: np.ndarray) -> np.ndarray:
    """Returns quarters since the year 0, from 0."""
    return _months(days) // 3 + 1970 * 4


def _thursdays(days: np.ndarray) -> np.ndarray:
    """Returns the Thursdays of the same weeks, whose year is the week's year."""
    return days - (days + _THURSDAY) % 7 + _THURSDAY


def iso_year(days: np.ndarray) -> np.ndarray:
    """Returns the ISO year: the year of the week's Thursday."""
    return 1970 + _months(_thursdays(days)) // 12


def iso_week(days: np.ndarray) -> np.ndarray:
    """Returns the ISO week of the year, from 1."""
    thursdays = _thursdays(days)
    return (thursdays - _first_days(_months(thursdays) // 12 * 12)) // 7 + 1


def weeks_from_monday(days: np.ndarray) -> np.ndarray:
    """Returns the week of the year; week 1 is the first with four days in the year (MySQL's mode 1)."""
    return (day_of_year(days) - 1 + 7 + 3 - (days + _THURSDAY) % 7) // 7


def weeks_from_sunday(days: np.ndarray) -> np.ndarray:
    """Returns the week of the year; week 1 begins with the first Sunday (MySQL's mode 0)."""
    return (day_of_year(days) - 1 + 7 - (days + _THURSDAY + 1) % 7) // 7


DAYS_OF_WEEK: tuple[OfDays, ...] = (
    lambda days: (days + _THURSDAY) % 7 + 1,
    lambda days: (days + _THURSDAY) % 7,
    lambda days: (days + _THURSDAY + 1) % 7,
    lambda days: (days + _THURSDAY + 1) % 7 + 1,
)
"""The functions of ClickHouse's modes 0 to 3: the first day is Monday or Sunday, and its number 1 or 0."""


# Starts of periods, as dates ------------------------------------------------------------------------------------------


def start_of_month(days: np.ndarray) -> np.ndarray:
    """Returns the first day of the month, within Date's range."""
    return _in_date(_first_days(_months(days)))


def start_of_quarter(days: np.ndarray) -> np.ndarray:
    """Returns the first day of the quarter, within Date's range."""
    return _in_date(_first_days(_months(days) // 3 * 3))


def start_of_year(days: np.ndarray) -> np.ndarray:
    """Returns the first day of the year, within Date's range."""
    return _in_date(_first_days(_months(days) // 12 * 12))


def last_day_of_month(days: np.ndarray) -> np.ndarray:
    """Returns the last day of the month, within Date's range."""
    return _in_date(_first_days(_months(days) + 1) - 1)


def monday_of_week(days: np.ndarray) -> np.ndarray:
    """Returns the Monday of the week, within Date's range."""
    return _in_date(_thursdays(days) - _THURSDAY)


def sunday_of_week(days: np.ndarray) -> np.ndarray:
    """Returns the Sunday that begins the week, within Date's range."""
    return _in_date(days - (days + _THURSDAY + 1) % 7)


# Moved by months ------------------------------------------------------------------------------------------------------


def add_months(days: np.ndarray, count: np.ndarray | int) -> np.ndarray:
    """Adds months; a day that the new month lacks becomes its last day."""
    months = _of(_months, _INT64, days)
    first = _of(_first_days, _INT64, months + count)
    following = _of(_first_days, _INT64, months + count + 1)
    return first + np.minimum(_of(day_of_month, _INT64, days) - 1, following - first - 1)
