"""Whether two columns of the same storage type hold the same values, without a Python object a value.

Floats are the same when their bits are (all NaN are one), or when they are at most some last digits apart; this holds
inside arrays, maps and tuples too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def same(a: pa.Array, b: pa.Array, ulps: int = 0) -> bool:
    if not a.type.equals(b.type) or len(a) != len(b):
        return False
    if pa.types.is_dictionary(a.type):
        return same(a.dictionary_decode(), b.dictionary_decode(), ulps)
    if pa.types.is_floating(a.type):
        return _same_places_of_nulls(a, b) and _same_floats(_numbers(a), _numbers(b), ulps)
    if pa.types.is_struct(a.type):
        pairs = zip(a.flatten(), b.flatten(), strict=True)
        return _same_places_of_nulls(a, b) and all(same(x, y, ulps) for x, y in pairs)
    if pa.types.is_map(a.type):
        pairs = ((a.keys, b.keys), (a.items, b.items))
        return _same_lengths(a, b) and all(same(x, y, ulps) for x, y in pairs)
    if pa.types.is_list(a.type):
        return _same_lengths(a, b) and same(a.flatten(), b.flatten(), ulps)
    return bool(a.equals(b))


def first_difference(a: pa.Array, b: pa.Array, ulps: int = 0) -> tuple[int, object, object]:
    """(row, a's value, b's); row -1 when one has more rows."""
    if len(a) != len(b) or not a.type.equals(b.type):
        return -1, len(a), len(b)
    low, high = 0, len(a)
    while high - low > 1:
        middle = (low + high) // 2
        differs = not same(_rows(a, low, middle), _rows(b, low, middle), ulps)
        low, high = (low, middle) if differs else (middle, high)
    return low, _shown(a[low]), _shown(b[low])


def _shown(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a date that Python has not
        return f"{value.type} beyond what Python has"


def _rows(array: pa.Array, start: int, end: int) -> pa.Array:
    """Without an offset, so that children are cut too."""
    return array.take(pa.array(np.arange(start, end)))


def _same_places_of_nulls(a: pa.Array, b: pa.Array) -> bool:
    return a.null_count == b.null_count and (not a.null_count or a.is_null().equals(b.is_null()))


def _same_lengths(a: pa.Array, b: pa.Array) -> bool:
    return bool(np.array_equal(np.diff(np.asarray(a.offsets)), np.diff(np.asarray(b.offsets))))


def _numbers(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(array, 0) if array.null_count else array)


def _same_floats(a: np.ndarray, b: np.ndarray, ulps: int) -> bool:
    bits = np.dtype(f"u{a.dtype.itemsize}")
    wrong = (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))
    if not wrong.any():
        return True
    a, b = a[wrong], b[wrong]
    if not ulps or np.isnan(a).any() or np.isnan(b).any():
        return False
    with np.errstate(all="ignore"):
        bound = ulps * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return bool(np.all(np.abs(a - b) <= bound))
