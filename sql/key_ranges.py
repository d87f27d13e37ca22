"""Ranges of keys, many at once: what a condition can be on every granule or part.

A :class:`Bounds` holds one range for each of n places. A condition's answer is two masks: where it *can be true* and
where it *can be false*; NOT swaps them. Both are over-approximations, so nothing that could match is ever left out. A
NULL or NaN in a bound makes that end infinite."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Mask = np.ndarray


@dataclass(frozen=True)
class Bounds:
    """For each place the range from ``low`` to ``high``; an infinite end ignores its value, an open one excludes it."""

    low: pa.Array
    high: pa.Array
    low_infinite: Mask
    high_infinite: Mask
    low_open: bool = False
    high_open: bool = False

    def __len__(self) -> int:
        return len(self.low)


def unknown_values(array: pa.Array) -> Mask:
    """Where a value is NULL or NaN."""
    if not array.null_count and not pa.types.is_floating(array.type):
        return np.zeros(len(array), bool)
    mask = pc.is_null(array, nan_is_null=pa.types.is_floating(array.type))
    return mask.to_numpy(zero_copy_only=False)


def closed(low: pa.Array, high: pa.Array) -> Bounds:
    return Bounds(low, high, unknown_values(low), unknown_values(high))


def point(values: pa.Array) -> Bounds:
    unknown = unknown_values(values)
    return Bounds(values, values, unknown, unknown)


def everything(values: pa.Array) -> Bounds:
    always = np.ones(len(values), bool)
    return Bounds(values, values, always, always)


def between_open(low: pa.Array, high: pa.Array) -> Bounds:
    return replace(closed(low, high), low_open=True, high_open=True)


def above(low: pa.Array) -> Bounds:
    return Bounds(low, low, unknown_values(low), np.ones(len(low), bool), low_open=True)


def below(high: pa.Array) -> Bounds:
    return Bounds(high, high, np.ones(len(high), bool), unknown_values(high), high_open=True)


def _mask(result: pa.Array) -> Mask:
    return pc.fill_null(result, False).to_numpy(zero_copy_only=False)


_ARROW: dict[Callable[[Any, Any], Any], Callable[[Any, Any], pa.Array]] = {
    operator.eq: pc.equal, operator.lt: pc.less, operator.le: pc.less_equal, operator.gt: pc.greater,
    operator.ge: pc.greater_equal,
}  # fmt: skip


def _compare(compare: Callable[[Any, Any], Any], values: pa.Array, other: pa.Array | pa.Scalar) -> Mask:
    """``values compare other``, false where NULL. Most keys are integers inside: NumPy compares those much faster."""
    numbers = _numbers(values)
    if numbers is not None and values.type == other.type:
        if isinstance(other, pa.Array):
            others = _numbers(other)
            if others is not None:
                return compare(numbers, others)
        elif other.is_valid:
            number = other.value if pa.types.is_temporal(other.type) else other.as_py()
            return compare(numbers, number)
    return _mask(_ARROW[compare](values, other))


def _numbers(values: pa.Array) -> np.ndarray | None:
    """The integers under integers, dates and times without NULL; without a copy."""
    type_ = values.type
    if values.null_count or not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        return None
    width = type_.bit_width // 8
    kind = "u" if pa.types.is_unsigned_integer(type_) else "i"
    buffer = values.buffers()[1]
    if buffer is None:
        return None
    return np.frombuffer(buffer, f"<{kind}{width}", len(values), values.offset * width)


@dataclass(frozen=True)
class Wanted:
    """The range of values a condition asks for; ``None`` is infinite."""

    low: pa.Scalar | None
    high: pa.Scalar | None
    low_closed: bool = True
    high_closed: bool = True

    def intersects(self, bounds: Bounds) -> Mask:
        result = np.ones(len(bounds), bool)
        if self.low is not None:
            reaches = operator.ge if self.low_closed and not bounds.high_open else operator.gt
            result &= _compare(reaches, bounds.high, self.low) | bounds.high_infinite
        if self.high is not None:
            reaches = operator.le if self.high_closed and not bounds.low_open else operator.lt
            result &= _compare(reaches, bounds.low, self.high) | bounds.low_infinite
        return result

    def contains(self, bounds: Bounds) -> Mask:
        """Where every value of the range is wanted."""
        result = np.ones(len(bounds), bool)
        if self.low is not None:
            inside = operator.ge if self.low_closed or bounds.low_open else operator.gt
            result &= _compare(inside, bounds.low, self.low) & ~bounds.low_infinite
        if self.high is not None:
            inside = operator.le if self.high_closed or bounds.high_open else operator.lt
            result &= _compare(inside, bounds.high, self.high) & ~bounds.high_infinite
        return result


def rectangles(keys: Sequence[pa.Array], chosen: np.ndarray) -> list[tuple[list[Bounds], Mask]]:
    """The key tuples from entry i to entry i + 1, for every chosen granule i, as boxes of independent ranges.

    A run of tuples in lexicographic order is not a box. Up to the first column ``k`` in which the ends differ it is a
    point; then come the tuples strictly between in column k (anything behind), those equal to the left end in k and
    beyond it further right, and likewise those at the right end. Each box comes with the mask of granules it is for.
    """
    granules = len(chosen)
    left = [key.take(pa.array(chosen)) for key in keys]
    right = [key.take(pa.array(chosen + 1)) for key in keys]
    equal = [_compare(operator.eq, a, b) for a, b in zip(left, right, strict=True)]
    count = len(keys)
    result: list[tuple[list[Bounds], Mask]] = []
    prefix = np.ones(granules, bool)
    for k in range(count):
        mask = prefix & ~equal[k]
        if mask.any():
            points = [point(array) for array in left[:k]]
            rest = [everything(array) for array in left[k + 1 :]]
            result.append(([*points, between_open(left[k], right[k]), *rest], mask))
            for ends, beyond in ((left, above), (right, below)):
                for m in range(k + 1, count):
                    fixed = [point(array) for array in ends[k:m]]
                    behind = [everything(array) for array in left[m + 1 :]]
                    result.append(([*points, *fixed, beyond(ends[m]), *behind], mask))
                result.append(([*points, *(point(array) for array in ends[k:])], mask))
        prefix = prefix & equal[k]
    if prefix.any():
        result.append(([point(array) for array in left], prefix))
    return result
