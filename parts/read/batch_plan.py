"""Plan which rows make one batch of a read.

A batch ends where the frames of all read columns begin anew, so that most frames are decoded once and passed on without
a copy. Neighbouring short runs are joined up to about 64 Ki rows, fewer when rows are long.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parts.format.marks import ColumnMarks
from parts.format.primary_index import MarkRange

_JOIN_ROWS = 65_536
_JOIN_BYTES = 256 * 1024 * 1024
"""Limits a batch: each of its columns is one array, whose text has less than 2 GiB."""


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows ``begin`` to ``end - 1`` of a part."""

    begin: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.begin <= self.end

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.end - self.begin


def get_row_ranges(ranges: Sequence[MarkRange], rows: int, granularity: int) -> list[RowRange]:
    """Returns the rows of the granules, in a part of ``rows`` rows."""
    return [RowRange(item.begin * granularity, min(item.end * granularity, rows)) for item in ranges]


def plan_batches(
    ranges: Sequence[RowRange],
    granularity: int,
    marks: Sequence[ColumnMarks],
    max_batch_rows: int,
    row_bytes: int = 0,
) -> list[RowRange]:
    """Returns the batches of ``ranges`` in order.

    They are whole granules, unless a range or ``max_batch_rows`` cuts them. ``row_bytes`` is the average size of a row
    in the widest column.
    """
    starts: np.ndarray | None = None
    join_rows = min(_JOIN_ROWS, _JOIN_BYTES // max(row_bytes, 1))
    join = max(1, join_rows // granularity) * granularity
    most = max(1, max_batch_rows // granularity) * granularity
    batches: list[RowRange] = []
    for item in ranges:
        begin = item.begin
        while item.end - begin > min(join, most):
            if starts is None:
                starts = _common_starts(marks) * granularity
            end = min(begin - begin % granularity + most, _joined_end(begin + join, item.end, starts, bool(marks)))
            batches.append(RowRange(begin, end))
            begin = end
        if begin < item.end:
            batches.append(RowRange(begin, item.end))
    return batches


def _joined_end(joined: int, limit: int, starts: np.ndarray, has_columns: bool) -> int:
    """Returns the first common start that makes the batch large enough."""
    position = int(np.searchsorted(starts, joined)) if has_columns else len(starts)
    return min(limit, int(starts[position])) if position < len(starts) else limit


def _common_starts(marks: Sequence[ColumnMarks]) -> np.ndarray:
    """Returns the granules at which every column has a new frame."""
    if not marks:
        return np.empty(0, np.int64)
    return functools.reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), [m.frame_starts for m in marks])
