"""Rows of bytes as hash functions read them: one word of every row, all rows at once.

A hash function goes through its rows word by word. Rows with more words come first, so the rows that are not at their
end are always the first ones, and every step works on a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sql.typing.column_kernels.kernels import text_bytes, text_offsets

_ROWS_AT_ONCE = 4096
"""The state of this many rows stays in the processor's cache."""
_PADDING = np.zeros(8, np.uint8)
_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@dataclass(frozen=True, slots=True)
class HashedRows:
    """The bytes of rows in ``data``, with at least one spare word after the last row."""

    data: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray

    def words(self, places: np.ndarray, width: int = 8) -> np.ndarray:
        """Reads little-endian integers of ``width`` bytes at positions of ``data``, as 64 bits."""
        size = len(self.data) - width + 1
        return np.ndarray((size,), f"<u{width}", self.data, strides=(1,))[places].astype(np.uint64, copy=False)

    def take(self, chosen: np.ndarray) -> HashedRows:
        """Returns the chosen rows over the same bytes."""
        return HashedRows(self.data, self.begins[chosen], self.lengths[chosen])

    def text(self, row: int, first: int = 0) -> bytes:
        """Returns a row's bytes from ``first`` on."""
        begin = int(self.begins[row])
        return self.data[begin + first : begin + int(self.lengths[row])].tobytes()


def rows_of_texts(texts: pa.Array) -> Iterator[HashedRows]:
    """Yields the rows of strings or BLOBs, 4096 at a time. The bytes under a NULL are arbitrary."""
    offsets, data = text_offsets(texts).astype(np.int64) if len(texts) else np.zeros(1, np.int64), text_bytes(texts)
    for first in range(0, len(texts), _ROWS_AT_ONCE):
        ends = offsets[first : first + _ROWS_AT_ONCE + 1]
        piece = np.concatenate((data[ends[0] : ends[-1]], _PADDING))
        yield HashedRows(piece, ends[:-1] - ends[0], np.diff(ends))


def rows_of_matrix(values: np.ndarray) -> Iterator[HashedRows]:
    """Yields the rows of a byte matrix, 4096 at a time."""
    width = values.shape[1]
    for first in range(0, len(values), _ROWS_AT_ONCE):
        chosen = values[first : first + _ROWS_AT_ONCE]
        begins = np.arange(0, len(chosen) * width, width)
        yield HashedRows(np.concatenate((chosen.ravel(), _PADDING)), begins, np.full(len(chosen), width))


def low_byte_masks(counts: np.ndarray) -> np.ndarray:
    """Returns 64-bit masks for the lowest bytes, 0 to 8 of them."""
    return _LOW_BYTES[counts]


def order_by_length(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the order of rows by their number of steps, most first.

    Also returns how many rows have a step ``k``, for every ``k`` and one more.
    """
    order = np.argsort(-steps, kind="stable")
    counts = np.bincount(steps)
    return order, np.append(len(steps) - np.cumsum(counts)[:-1], 0) if len(counts) else np.zeros(1, np.int64)


def restore_row_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Returns values that were computed in ``order`` in the rows' original order."""
    result = np.empty_like(values)
    result[order] = values
    return result


def rotate_left(values: np.ndarray, bits: int, width: int = 64) -> np.ndarray:
    """Rotates ``width``-bit values to the left."""
    kind = values.dtype.type
    return (values << kind(bits)) | (values >> kind(width - bits))
