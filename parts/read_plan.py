"""Planning a read: which granules make one batch.

A batch ends where the frames of all columns read begin anew, so that most frames are decoded once and handed over
without a copy. Neighbouring short runs are joined up to about 64 Ki rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parts.marks import ColumnMarks
from parts.primary_index import MarkRange

_JOIN_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Batch:
    """Granules ``begin`` to ``end - 1``, which hold ``rows`` rows."""

    begin: int
    end: int
    rows: int


def plan_batches(
    ranges: Sequence[MarkRange], rows: int, granularity: int, marks: Sequence[ColumnMarks], max_batch_rows: int
) -> list[Batch]:
    """The batches of ``ranges`` in order."""
    common = _common_starts(marks)
    most = max(1, max_batch_rows // granularity)
    batches: list[Batch] = []
    for item in ranges:
        begin = item.begin
        while begin < item.end:
            end = _batch_end(begin, item.end, common, most, granularity)
            batches.append(Batch(begin, end, min(end * granularity, rows) - begin * granularity))
            begin = end
    return batches


def _common_starts(marks: Sequence[ColumnMarks]) -> np.ndarray | None:
    """Granules at which every column has a new frame; ``None`` without columns."""
    if not marks:
        return None
    return functools.reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), [m.frame_starts for m in marks])


def _batch_end(begin: int, limit: int, common: np.ndarray | None, most: int, granularity: int) -> int:
    if common is None:
        return min(limit, begin + most)
    joined = begin + max(1, _JOIN_ROWS // granularity)
    position = int(np.searchsorted(common, joined))  # the first common start that gives a batch of some size
    end = int(common[position]) if position < len(common) else limit
    return min(limit, max(end, begin + 1), begin + most)
