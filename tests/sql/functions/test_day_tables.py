"""What scans look up of days is what the calendar says, within the tables and beyond them."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from sql.typing.times import day_tables
from sql.typing.times.day_tables import OfDays, add_months

_EPOCH = datetime.date(1970, 1, 1)
_DAYS = [*range(-25600, 120600, 97), -25567, 120529, 120530, -40000, 200000, 0, -1, 59, 789, 11016, 65535]
Expected = Callable[[datetime.date], int]
_PARTS: dict[str, Expected] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "year_month_days": lambda day: day.year * 10000 + day.month * 100 + day.day,
    "day_of_year": lambda day: day.timetuple().tm_yday,
    "iso_year": lambda day: day.isocalendar().year,
    "iso_week": lambda day: day.isocalendar().week,
    "quarter_number": lambda day: day.year * 4 + (day.month - 1) // 3,
    "weeks_from_sunday": lambda day: int(day.strftime("%U")),
}


def _computed(of: OfDays, days: list[int]) -> list[int]:
    made = day_tables._looked_up(of, pa.int64(), pa.array(days, pa.int32()).cast(pa.date32()))
    return [int(value) for value in made.to_pylist()]


@pytest.mark.parametrize("name", _PARTS)
def test_parts(name: str) -> None:
    expected = [_PARTS[name](_EPOCH + datetime.timedelta(days)) for days in _DAYS]
    assert _computed(getattr(day_tables, name), _DAYS) == expected
    inside = [days for days in _DAYS if -25567 <= days <= 120529]
    assert _computed(getattr(day_tables, name), inside) == [
        _PARTS[name](_EPOCH + datetime.timedelta(d)) for d in inside
    ]


@pytest.mark.parametrize("count", [0, 1, -1, 12, -25, 300])
def test_months_later(count: int) -> None:
    def moved(days: int) -> int:
        day = _EPOCH + datetime.timedelta(days)
        year, month = divmod(day.year * 12 + day.month - 1 + count, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return (datetime.date(year, month + 1, min(day.day, last)) - _EPOCH).days

    assert add_months(np.array(_DAYS), count).tolist() == [moved(days) for days in _DAYS]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_clocks_of_every_unit(unit: str) -> None:
    moments = [datetime.datetime(1969, 12, 31, 23, 59, 58), None, datetime.datetime(2024, 2, 29, 1, 2, 3)]
    made = day_tables._spelled(pa.array(moments, pa.timestamp(unit)))
    assert made.to_pylist() == [19691231235958, None, 20240229010203]
