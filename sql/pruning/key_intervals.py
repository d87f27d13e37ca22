"""Conditions that are one interval of the first key's numbers.

Parts are sorted by that key, so bisection finds the matching granules and rows without a look at all of them. Only
integers, dates and times without NULL have numbers (``get_plain_integers``). For these an open end is the next closed
one, and the answer equals the one of :class:`sql.pruning.conditions.InRange`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parts.format.primary_index import (
    MarkRange,
)
from sql.pruning.conditions import Combination, Condition, InRange

_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class KeyInterval:
    """The numbers from ``low`` to ``high``, both included, of keys of ``type``."""

    low: int
    high: int
    type: pa.DataType

    def granules(self, keys: np.ndarray) -> tuple[MarkRange, list[MarkRange]] | None:
        """Returns the granules that can have matching rows, and which of them may have other rows too.

        ``keys`` are the first keys of an index (``marks + 1`` numbers). ``None`` means that no granule can match.
        """
        low, high = self._clip_ends(keys)
        if low > high:
            return None
        begin = int(keys[1:].searchsorted(low))
        end = int(keys[:-1].searchsorted(high, "right"))
        if begin >= end:
            return None
        uncertain = []
        first, last = int(keys[begin]), int(keys[end])
        if begin + 1 == end:
            if first < low or last > high:
                uncertain.append(MarkRange(begin, end))
            return MarkRange(begin, end), uncertain
        middle, rest = self._find_certain_run(keys, begin, end, low, high)
        if begin < middle:
            uncertain.append(MarkRange(begin, middle))
        if rest < end:
            uncertain.append(MarkRange(rest, end))
        return MarkRange(begin, end), uncertain

    def _find_certain_run(self, keys: np.ndarray, begin: int, end: int, low: Any, high: Any) -> tuple[int, int]:
        """Returns the run of granules, perhaps empty, whose keys at both ends are inside."""
        first = min(end, max(begin, int(keys.searchsorted(low))))
        last = max(first, min(end, int(keys.searchsorted(high, "right")) - 1))
        return first, last

    def rows(self, values: np.ndarray) -> tuple[int, int]:
        """Returns the begin and end of the matching positions in sorted values."""
        low, high = self._clip_ends(values)
        if low > high:
            return 0, 0
        return int(values.searchsorted(low)), int(values.searchsorted(high, "right"))

    def _clip_ends(self, values: np.ndarray) -> tuple[Any, Any]:
        """Returns the ends as numbers of the array's type, so that the search converts nothing."""
        bounds = _LIMITS[values.dtype]
        kind = values.dtype.type
        if self.low > bounds[1] or self.high < bounds[0]:
            return kind(1), kind(0)
        return kind(max(self.low, bounds[0])), kind(min(self.high, bounds[1]))


_LIMITS = {
    np.dtype(name): (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("<u1", "<u2", "<u4", "<u8", "<i1", "<i2", "<i4", "<i8")
}


def find_key_interval(condition: Condition) -> KeyInterval | None:
    """Returns the interval of key 0 that is equivalent to the condition, if there is one."""
    ends = list(_list_ranges(condition))
    if not ends or any(end is None for end in ends):
        return None
    low, high, type_ = _LEAST, _MOST, None
    for term in ends:
        assert term is not None
        for limit, is_closed, is_low in (
            (term.wanted.low, term.wanted.low_closed, True),
            (term.wanted.high, term.wanted.high_closed, False),
        ):
            if limit is None:
                continue
            number = _to_number(limit)
            if number is None or (type_ is not None and limit.type != type_):
                return None
            type_ = limit.type
            if is_low:
                low = max(low, number if is_closed else number + 1)
            else:
                high = min(high, number if is_closed else number - 1)
    return KeyInterval(low, high, type_) if type_ is not None else None


def _list_ranges(condition: Condition) -> Iterator[InRange | None]:
    """Yields the terms of an AND; ``None`` for a term that is no interval of key 0."""
    if isinstance(condition, Combination) and not condition.either:
        for term in condition.terms:
            yield from _list_ranges(term)
    elif isinstance(condition, InRange) and condition.key == 0 and condition.change is None and condition.exact:
        yield condition
    else:
        yield None


def _to_number(value: pa.Scalar) -> int | None:
    type_ = value.type
    if not value.is_valid:
        return None
    if pa.types.is_integer(type_):
        return int(value.as_py())
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return int(value.value)
    return None
