"""Finds the row of an array that a cast refuses, which Arrow does not tell."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def first_invalid_row(array: pa.Array, target: pa.DataType) -> int:
    """Returns the first row that cannot be cast to ``target``, found by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(array.slice(low, middle - low), target)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
