"""Units of time as SQL names them: DAY, days, ``'dd'``, SQL_TSI_HOUR."""

from __future__ import annotations

TIME_UNITS = {
    "NANOSECOND": "Nanosecond", "MICROSECOND": "Microsecond", "MILLISECOND": "Millisecond", "SECOND": "Second",
    "MINUTE": "Minute", "HOUR": "Hour", "DAY": "Day", "WEEK": "Week", "MONTH": "Month", "QUARTER": "Quarter",
    "YEAR": "Year",
}  # fmt: skip
_UNIT_SHORT = {"SS": "Second", "S": "Second", "MI": "Minute", "N": "Minute", "HH": "Hour", "H": "Hour", "DD": "Day",
               "D": "Day", "WW": "Week", "MM": "Month", "QQ": "Quarter", "YYYY": "Year", "YY": "Year"}  # fmt: skip
_SHORT = {
    "ms": "Millisecond", "us": "Microsecond", "mi": "Minute", "n": "Minute", "wk": "Week", "m": "Month", "h": "Hour",
}  # fmt: skip


def find_time_unit(word: str) -> str | None:
    """Returns the unit's name, such as ``Day`` for DAY, days or DD; ``None`` for anything else."""
    upper = word.upper()
    unit = TIME_UNITS.get(upper) or TIME_UNITS.get(upper.removesuffix("S")) or _UNIT_SHORT.get(upper)
    return unit or (_UNIT_SHORT.get(upper.removeprefix("SQL_TSI_")) if upper.startswith("SQL_TSI_") else None)


def find_time_unit_or_short(word: str) -> str | None:
    """Returns the unit's name, also for the short names that functions take in strings."""
    return find_time_unit(word) or _SHORT.get(word.lower())
