"""Planning a scan: how much the chosen granules weigh, and which of them a task reads.

A granule weighs as much of a task as its rows or its bytes (of the columns asked for, uncompressed) fill it, whichever
is more. Tasks are cut from the chosen granules in part order so that each has about the same weight; a task may span
parts, and a part may span tasks. Granules are never cut.

All servers that deal an execution must cut alike, and the bytes of a part may differ between replicas. So whoever opens
it measures the parts, coarsely, and writes that down for all (``leases``). From there on it is whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.format.primary_index import (
    MarkRange,
)
from parts.read.part_reader import (
    Part,
)
from parts.table.table_description import Column, TableSchema

DEFAULT_BYTES_PER_TASK = 128 << 20
_WORTH_A_TASK_ROWS = 65_536
_EASY_PARALLELISM = 8
_MOST_STEPS = 4096
_WHOLE_TASK = 1 << 24
"""The weight of what fills a task."""
_MOST_OF_A_GRANULE = 64 * _WHOLE_TASK

Chosen = Sequence[tuple[Part, Sequence[MarkRange]]]
Steps = Mapping[PartName, Sequence[int]]
"""For each part the bytes in equally long pieces of it, in order."""


@dataclass(frozen=True)
class TaskSize:
    """What a task should not exceed."""

    rows: int | None = None
    bytes: int | None = None

    def weights(self, rows: np.ndarray, bytes_: np.ndarray) -> np.ndarray:
        """Of granules."""
        limit = self.bytes or DEFAULT_BYTES_PER_TASK
        weights = bytes_ * _WHOLE_TASK // limit
        if self.rows is not None:
            weights = np.maximum(weights, rows * _WHOLE_TASK // self.rows)
        return np.clip(weights, 1, _MOST_OF_A_GRANULE)

    @property
    def is_given(self) -> bool:
        return self.rows is not None or self.bytes is not None


def select_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """As :func:`select_stored_columns`, at least one."""
    if not names:
        raise UserError("BAD_ARGUMENTS", "A scan needs at least one column")
    return select_stored_columns(schema, names)


def select_stored_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """Raises 16 for a column that is not there, 48 for one that has no data of its own."""
    columns = [schema.column(name) for name in names]
    for column in columns:
        if not column.is_stored:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Column {column.name!r} is an ALIAS: it is computed by queries and cannot be scanned; compute "
                f"{column.default_expression} in Spark",
            )
    return columns


def measure_steps(parts: Sequence[Part], columns: Sequence[str]) -> dict[PartName, list[int]]:
    """The steps of the parts; the more granules a part has, the more steps."""
    granules = sum(part.marks for part in parts)
    measured = {}
    for part in parts:
        count = max(1, min(part.marks, _MOST_STEPS * part.marks // max(granules, 1)))
        before = part.estimate_bytes_before(columns, np.arange(count + 1) * part.marks / count)
        measured[part.name] = np.diff(before.astype(np.int64)).tolist()
    return measured


@dataclass(frozen=True)
class WeighedGranules:
    """The granules to read and their weights, end to end."""

    chosen: Chosen
    rows: int
    bytes: int
    weights: np.ndarray

    @classmethod
    def of(cls, chosen: Chosen, steps: Steps, size: TaskSize) -> WeighedGranules:
        rows = np.concatenate([np.empty(0, np.int64), *(_rows(part)[_granules(ranges)] for part, ranges in chosen)])
        bytes_ = np.concatenate(
            [rows[:0], *(_bytes(part, steps[part.name])[_granules(ranges)] for part, ranges in chosen)]
        )
        return cls(chosen, int(rows.sum()), int(bytes_.sum()), size.weights(rows, bytes_ + rows))

    def tasks(self, size: TaskSize, partitions: int | None, *, is_computed: bool = False) -> int:
        """As asked; else enough tasks of bounded size, and some parallelism for what is worth it: rows that go through
        the pipe, not those that a server computes something of."""
        if partitions:
            return partitions
        needed = -(-int(self.weights.sum()) // _WHOLE_TASK)
        return max(
            1,
            needed
            if size.is_given or is_computed
            else max(needed, min(_EASY_PARALLELISM, self.rows // _WORTH_A_TASK_ROWS)),
        )

    def slot(self, number: int, slots: int) -> list[tuple[Part, list[MarkRange]]]:
        """What task ``number`` of ``slots`` reads; nothing, if there are more tasks than granules."""
        ends = np.cumsum(self.weights)
        total = int(ends[-1]) if len(ends) else 0
        middles = ends - (self.weights + 1) // 2
        first, last = (int(np.searchsorted(middles, total * cut // slots)) for cut in (number, number + 1))
        found: list[tuple[Part, list[MarkRange]]] = []
        position = 0
        for part, ranges in self.chosen:
            mine = []
            for item in ranges:
                begin = item.begin + max(0, first - position)
                end = item.begin + min(item.end - item.begin, last - position)
                if begin < end:
                    mine.append(MarkRange(begin, end))
                position += item.end - item.begin
            if mine:
                found.append((part, mine))
        return found


def _granules(ranges: Sequence[MarkRange]) -> np.ndarray:
    return np.concatenate([np.arange(item.begin, item.end) for item in ranges])


def _rows(part: Part) -> np.ndarray:
    """Of each granule."""
    begins = np.arange(part.marks + 1, dtype=np.int64) * part.granularity
    return np.diff(np.minimum(begins, part.rows))


def _bytes(part: Part, steps: Sequence[int]) -> np.ndarray:
    """Of each granule, its share of the step that it stands in."""
    within = np.array([*steps, 0], np.int64)
    before = np.concatenate([[0], np.cumsum(within[:-1])])
    step, rest = np.divmod(np.arange(part.marks + 1, dtype=np.int64) * len(steps), max(part.marks, 1))
    return np.diff(before[step] + within[step] * rest // max(part.marks, 1))
