"""Counts of queries in memory that processes share: one row a process, added up when somebody asks.

A process that takes the place of another goes on with its row, so no sum ever falls.

Invariants: made before any fork; a row has one writer at a time, and in it one thread (the loop of its HTTP server).
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
    """Of ``rows`` processes."""

    def __init__(self, rows: int = 1) -> None:
        self._rows = rows
        self._memory = memoryview(mmap.mmap(-1, rows * _WIDTH * 8))  # anonymous and shared: forks see the same

    def row(self, index: int) -> Row:
        memory = self._memory[index * _WIDTH * 8 : (index + 1) * _WIDTH * 8]
        return cast(Row, memory.cast("d"))

    def totals(self) -> Totals:
        return Totals([sum(values) for values in zip(*(self.row(index) for index in range(self._rows)), strict=True)])


class Totals:
    """Sums over all rows, as of one moment."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> float:
        return self._values[_NAMES.index(name)]

    @property
    def errors(self) -> dict[str, float]:
        """Those that happened."""
        return {name: self._values[index] for name, index in _ERRORS.items() if self._values[index]}

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and how many queries took no longer."""
        bounds = [*map(str, BUCKETS_SECONDS), "+Inf"]
        return list(zip(bounds, accumulate(self._values[_FIRST_BUCKET:_FIRST_ERROR]), strict=True))


def get_column(name: str) -> int:
    """Where a row holds the count."""
    return _NAMES.index(name)


def get_bucket_column(seconds: float) -> int:
    return _FIRST_BUCKET + next(
        (index for index, bound in enumerate(BUCKETS_SECONDS) if seconds <= bound), len(BUCKETS_SECONDS)
    )


def get_error_column(name: str) -> int:
    return _ERRORS.get(name, _ERRORS["STD_EXCEPTION"])
