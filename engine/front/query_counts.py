"""Counts of queries in shared memory: one row per process, added up on demand.

A process that replaces another continues its row, so no sum ever falls. Invariants: created before any fork; a row has
one writer at a time, and only one of its threads (the HTTP loop).
"""

from __future__ import annotations

import mmap
from collections.abc import MutableSequence
from itertools import accumulate
from typing import cast

from parts.common.errors import CODES

BUCKETS_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
_NAMES = ("queries", "inserts", "running", "seconds", "read_rows", "written_rows", "deduplicated_blocks")
_FIRST_BUCKET = len(_NAMES)
_FIRST_ERROR = _FIRST_BUCKET + len(BUCKETS_SECONDS) + 1
_ERRORS = {name: _FIRST_ERROR + index for index, name in enumerate(CODES)}
_WIDTH = _FIRST_ERROR + len(_ERRORS)

Row = MutableSequence[float]


class QueryCounts:
    """The counts of ``rows`` processes."""

    def __init__(self, rows: int = 1) -> None:
        self._rows = rows
        self._memory = memoryview(mmap.mmap(-1, rows * _WIDTH * 8))  # anonymous and shared with forked processes

    def get_row(self, index: int) -> Row:
        """Returns the row of one process."""
        memory = self._memory[index * _WIDTH * 8 : (index + 1) * _WIDTH * 8]
        return cast(Row, memory.cast("d"))

    def sum_rows(self) -> Totals:
        """Returns the present sums over all rows."""
        return Totals(
            [sum(values) for values in zip(*(self.get_row(index) for index in range(self._rows)), strict=True)]
        )


class Totals:
    """Sums over all rows at one moment."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> float:
        return self._values[_NAMES.index(name)]

    @property
    def errors(self) -> dict[str, float]:
        """The number of errors by name; only those that occurred."""
        return {name: self._values[index] for name, index in _ERRORS.items() if self._values[index]}

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative histogram: upper bound in seconds, and the number of queries that took no longer."""
        bounds = [*map(str, BUCKETS_SECONDS), "+Inf"]
        return list(zip(bounds, accumulate(self._values[_FIRST_BUCKET:_FIRST_ERROR]), strict=True))


def get_column(name: str) -> int:
    """Returns the position of a count in a row."""
    return _NAMES.index(name)


def get_bucket_column(seconds: float) -> int:
    """Returns the position of the histogram bucket for this time."""
    return _FIRST_BUCKET + next(
        (index for index, bound in enumerate(BUCKETS_SECONDS) if seconds <= bound), len(BUCKETS_SECONDS)
    )


def get_error_column(name: str) -> int:
    """Returns the position of an error's count."""
    return _ERRORS.get(name, _ERRORS["STD_EXCEPTION"])
