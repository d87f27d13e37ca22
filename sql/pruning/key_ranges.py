"""Ranges of keys at many places (granules or parts), and their comparison with wanted ranges.

A :class:`KeyRanges` holds one range for each of n places. A condition's answer is two masks: where it *can be true* and
where it *can be false*; NOT swaps them. Both are over-approximations, so nothing that could match is ever left out. A
NULL or NaN in a bound makes that end infinite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.format.primary_index import get_plain_integers

Mask = np.ndarray


@dataclass(frozen=True)
class KeyRanges:
    """Ranges from ``low`` to ``high``, one for each place.

    An infinite end ignores its value; an open one excludes it. Without masks of open ends all are closed.
    """

    low: pa.Array
    high: pa.Array
    low_infinite: Mask
    high_infinite: Mask
    low_open: Mask | None = None
    high_open: Mask | None = None

    def __len__(self) -> int:
        return len(self.low)

    def take(self, places: np.ndarray) -> KeyRanges:
        """Returns the closed ranges at these places."""
        assert self.low_open is None
        assert self.high_open is None
        low = self.low.take(pa.array(places))
        high = low if self.is_point else self.high.take(pa.array(places))
        return KeyRanges(low, high, self.low_infinite[places], self.high_infinite[places])

    @property
    def is_point(self) -> bool:
        """Returns whether every range is one value."""
        return self.low is self.high and self.low_open is None


def find_null_or_nan(array: pa.Array) -> Mask:
    """Returns a mask of the values that are NULL or NaN."""
    if not array.null_count and not pa.types.is_floating(array.type):
        return np.zeros(len(array), bool)
    mask = pc.is_null(array, nan_is_null=pa.types.is_floating(array.type))
    return mask.to_numpy(zero_copy_only=False)


def make_closed_ranges(low: pa.Array, high: pa.Array) -> KeyRanges:
    """Makes ranges that include both ends; NULL and NaN ends are infinite."""
    return KeyRanges(low, high, find_null_or_nan(low), find_null_or_nan(high))


def make_point_ranges(values: pa.Array) -> KeyRanges:
    """Makes ranges of one value each; NULL and NaN are unknown."""
    unknown = find_null_or_nan(values)
    return KeyRanges(values, values, unknown, unknown)


def _to_mask(result: pa.Array) -> Mask:
    return pc.fill_null(result, False).to_numpy(zero_copy_only=False)


_Operator = Callable[[Any, Any], Any]
_ARROW: dict[_Operator, Callable[[Any, Any], pa.Array]] = {
    operator.eq: pc.equal, operator.lt: pc.less, operator.le: pc.less_equal, operator.gt: pc.greater,
    operator.ge: pc.greater_equal,
}  # fmt: skip


def _compare(compare: _Operator, values: pa.Array, other: pa.Array | pa.Scalar) -> Mask:
    """Returns a mask of ``values compare other``, false where NULL.

    Most keys are integers inside, which NumPy compares much faster.
    """
    numbers = get_plain_integers(values)
    if numbers is not None and values.type == other.type:
        if isinstance(other, pa.Array):
            others = get_plain_integers(other)
            if others is not None:
                return compare(numbers, others)
        elif other.is_valid:
            number = other.value if pa.types.is_temporal(other.type) else other.as_py()
            return compare(numbers, number)
    return _to_mask(_ARROW[compare](values, other))


@dataclass(frozen=True)
class WantedRange:
    """The range of values that a condition asks for; ``None`` is infinite."""

    low: pa.Scalar | None
    high: pa.Scalar | None
    low_closed: bool = True
    high_closed: bool = True

    def intersects(self, bounds: KeyRanges) -> Mask:
        """Returns a mask of the ranges that have a value in common with this one."""
        result = np.ones(len(bounds), bool)
        if self.low is not None:
            reached = _reaches_limit(operator.gt, operator.ge, bounds.high, self.low, self.low_closed, bounds.high_open)
            result &= reached | bounds.high_infinite
        if self.high is not None:
            reached = _reaches_limit(operator.lt, operator.le, bounds.low, self.high, self.high_closed, bounds.low_open)
            result &= reached | bounds.low_infinite
        return result

    def contains(self, bounds: KeyRanges) -> Mask:
        """Returns a mask of the ranges that lie inside this one."""
        result = np.ones(len(bounds), bool)
        if self.low is not None:
            inside = _stays_within_limit(
                operator.gt, operator.ge, bounds.low, self.low, self.low_closed, bounds.low_open
            )
            result &= inside & ~bounds.low_infinite
        if self.high is not None:
            inside = _stays_within_limit(
                operator.lt, operator.le, bounds.high, self.high, self.high_closed, bounds.high_open
            )
            result &= inside & ~bounds.high_infinite
        return result


def _reaches_limit(
    strict: _Operator, loose: _Operator, ends: pa.Array, limit: pa.Scalar, is_closed: bool, is_open: Mask | None
) -> Mask:
    """Returns a mask of the ends that reach the limit. A closed limit is met only by a closed end."""
    if not is_closed:
        return _compare(strict, ends, limit)
    reached = _compare(loose, ends, limit)
    return reached if is_open is None else np.where(is_open, _compare(strict, ends, limit), reached)


def _stays_within_limit(
    strict: _Operator, loose: _Operator, ends: pa.Array, limit: pa.Scalar, is_closed: bool, is_open: Mask | None
) -> Mask:
    """Returns a mask of the ends that stay within the limit. An open limit may be met by an open end."""
    if is_closed:
        return _compare(loose, ends, limit)
    within = _compare(strict, ends, limit)
    return within if is_open is None else np.where(is_open, _compare(loose, ends, limit), within)


@dataclass(frozen=True, slots=True)
class _Side:
    """One key's range in a box, between the left and the right tuple of a granule."""

    low_is_right: bool = False
    high_is_right: bool = False
    low_infinite: bool = False
    high_infinite: bool = False
    is_open: bool = False


_LEFT, _RIGHT = _Side(), _Side(low_is_right=True, high_is_right=True)
_BETWEEN = _Side(high_is_right=True, is_open=True)
_ABOVE_LEFT = _Side(high_infinite=True, is_open=True)
_BELOW_RIGHT = _Side(low_is_right=True, high_is_right=True, low_infinite=True, is_open=True)
_EVERYTHING = _Side(low_infinite=True, high_infinite=True)


def split_into_boxes(keys: Sequence[pa.Array], chosen: np.ndarray) -> tuple[list[KeyRanges], np.ndarray]:
    """Splits the key tuples of every chosen granule into boxes of independent ranges.

    Granule i has the tuples from entry i to entry i + 1, in lexicographic order, which is not a box. Let ``k`` be the
    first column in which the ends differ; before it the tuples are a point. The boxes are then:

    - tuples strictly between the ends in column k, with anything behind;
    - tuples equal to the left end in k, and beyond it in a later column;
    - likewise tuples equal to the right end in k.

    Returns the ranges of all boxes by key, and for every box the position in ``chosen`` of its granule.
    """
    granules = len(chosen)
    both = [key.take(pa.array(np.concatenate((chosen, chosen + 1)))) for key in keys]
    equal = [_compare(operator.eq, values.slice(0, granules), values.slice(granules)) for values in both]
    boxes: list[tuple[np.ndarray, list[_Side]]] = []
    prefix = np.ones(granules, bool)
    for k in range(len(keys)):
        places = np.flatnonzero(prefix & ~equal[k])
        if len(places):
            boxes.extend((places, box) for box in _make_boxes(k, len(keys)))
        prefix &= equal[k]
    places = np.flatnonzero(prefix)
    if len(places):
        boxes.append((places, [_LEFT] * len(keys)))
    owners = np.concatenate([places for places, _ in boxes]) if boxes else np.empty(0, np.int64)
    counts = [len(places) for places, _ in boxes]
    sides = ([box[k] for _, box in boxes] for k in range(len(keys)))
    return [_stack_ranges(values, owners, counts, side) for values, side in zip(both, sides, strict=True)], owners


def _make_boxes(k: int, count: int) -> list[list[_Side]]:
    """Returns the boxes of a granule whose ends differ first in key ``k`` of ``count``."""
    boxes = [[*[_LEFT] * k, _BETWEEN, *[_EVERYTHING] * (count - k - 1)]]
    for end, beyond in ((_LEFT, _ABOVE_LEFT), (_RIGHT, _BELOW_RIGHT)):
        for m in range(k + 1, count):
            boxes.append([*[_LEFT] * k, *[end] * (m - k), beyond, *[_EVERYTHING] * (count - m - 1)])
        boxes.append([*[_LEFT] * k, *[end] * (count - k)])
    return boxes


def _stack_ranges(both: pa.Array, owners: np.ndarray, counts: list[int], sides: list[_Side]) -> KeyRanges:
    """Returns one key's ranges in all boxes.

    ``both`` are the left values of the granules, then the right ones.
    """

    def each(flags: list[bool]) -> Mask:
        return np.repeat(np.array(flags, bool), counts)

    granules = len(both) // 2
    low = both.take(pa.array(owners + granules * each([side.low_is_right for side in sides])))
    high = both.take(pa.array(owners + granules * each([side.high_is_right for side in sides])))
    is_open = each([side.is_open for side in sides])
    return KeyRanges(
        low, high,
        find_null_or_nan(low) | each([side.low_infinite for side in sides]),
        find_null_or_nan(high) | each([side.high_infinite for side in sides]),
        is_open, is_open,
    )  # fmt: skip
