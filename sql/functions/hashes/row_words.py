"""Rows of bytes, as hash functions read them: words at a place of every row, all rows at once.

A hash function goes through its rows word by word. Rows of more words come first, so that those that are not at their
end are always the first few, and every step is over a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sql.typing.column_kernels.kernels import text_bytes, text_offsets

_ROWS_AT_ONCE = 4096
"""Their state stays in the processor's cache."""
_PADDING = np.zeros(8, np.uint8)
_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


@dataclass(frozen=True, slots=True)
class HashedRows:
    """The bytes of rows in ``data``, which goes on behind the last row for at least a word."""

    data: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray

    def words(self, places: np.ndarray, width: int = 8) -> np.ndarray:
        """The little-endian numbers of ``width`` bytes that begin at places of ``data``, as 64 bits."""
        size = len(self.data) - width + 1
        return np.ndarray((size,), f"<u{width}", self.data, strides=(1,))[places].astype(np.uint64, copy=False)

    def take(self, chosen: np.ndarray) -> HashedRows:
        return HashedRows(self.data, self.begins[chosen], self.lengths[chosen])

    def text(self, row: int, first: int = 0) -> bytes:
        """A row from its byte ``first`` on."""
        begin = int(self.begins[row])
        return self.data[begin + first : begin + int(self.lengths[row])].tobytes()


def rows_of_texts(texts: pa.Array) -> Iterator[HashedRows]:
    """Of strings or BLOBs, some thousand rows at once; anything under a NULL."""
    offsets, data = text_offsets(texts).astype(np.int64) if len(texts) else np.zeros(1, np.int64), text_bytes(texts)
    for first in range(0, len(texts), _ROWS_AT_ONCE):
        ends = offsets[first : first + _ROWS_AT_ONCE + 1]
        piece = np.concatenate((data[ends[0] : ends[-1]], _PADDING))
        yield HashedRows(piece, ends[:-1] - ends[0], np.diff(ends))


def rows_of_matrix(values: np.ndarray) -> Iterator[HashedRows]:
    """Of the rows of a byte matrix."""
    width = values.shape[1]
    for first in range(0, len(values), _ROWS_AT_ONCE):
        chosen = values[first : first + _ROWS_AT_ONCE]
        begins = np.arange(0, len(chosen) * width, width)
        yield HashedRows(np.concatenate((chosen.ravel(), _PADDING)), begins, np.full(len(chosen), width))


def low_byte_masks(counts: np.ndarray) -> np.ndarray:
    """Masks of so many bytes, of eight at most."""
    return _LOW_BYTES[counts]


def order_by_length(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows by their steps, most first; and how many rows have a step ``k``, for every ``k`` and one
    more."""
    order = np.argsort(-steps, kind="stable")
    counts = np.bincount(steps)
    return order, np.append(len(steps) - np.cumsum(counts)[:-1], 0) if len(counts) else np.zeros(1, np.int64)


def restore_row_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """What was computed in that order, in the rows' own."""
    result = np.empty_like(values)
    result[order] = values
    return result


def rotate_left(values: np.ndarray, bits: int, width: int = 64) -> np.ndarray:
    """To the left."""
    kind = values.dtype.type
    return (values << kind(bits)) | (values >> kind(width - bits))
