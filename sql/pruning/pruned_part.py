"""Which parts and which granules of a table a query must read, and which of their rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parts.read_plan import rows_of
from parts.reader import MarkRange, Part, RowRange
from parts.types import DataType
from parts.value_file import plain_array
from sql.pruning.condition import Condition
from sql.pruning.ranges import point

_MOST_ROWS_LOOKED_AT = 1 << 19
_JOIN_GAP_ROWS = 4096


@dataclass(frozen=True)
class RowFilter:
    """The condition on the key, where the key's expressions are columns: by key number their names and types."""

    condition: Condition
    columns: Mapping[int, tuple[str, DataType]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns.values()]

    def matching(self, part: Part, ranges: Sequence[MarkRange]) -> list[RowRange]:
        """Runs of rows of the granules that hold every row for which the condition can be true."""
        runs: list[RowRange] = []
        for chosen in rows_of(ranges, part.rows, part.granularity):
            first = chosen.begin
            for batch in part.read_rows(self.names, [chosen]):
                bounds = {
                    number: point(plain_array(column, type_))
                    for (number, (_, type_)), column in zip(self.columns.items(), batch.columns, strict=True)
                }
                found = np.flatnonzero(self.condition.evaluate(bounds, batch.num_rows)[0])
                runs.extend(_runs_of(found + first))
                first += batch.num_rows
        return runs


@dataclass(frozen=True, slots=True)
class PrunedPart:
    """A part and the granules to read of it (``None``: all).

    In ``uncertain`` of them (``None``: in all) the condition on the key may be false for some row; in the others it
    holds for every row. ``is_whole``: that condition is the query's whole WHERE.
    """

    part: Part
    ranges: Sequence[MarkRange] | None = None
    uncertain: Sequence[MarkRange] | None = None
    is_whole: bool = False
    row_filter: RowFilter | None = None

    @property
    def marks(self) -> int:
        return self.part.marks if self.ranges is None else _marks(self.ranges)

    @property
    def rows(self) -> int:
        return self._rows(self.all_ranges)

    @property
    def all_ranges(self) -> Sequence[MarkRange]:
        return [MarkRange(0, self.part.marks)] if self.ranges is None else self.ranges

    @property
    def uncertain_ranges(self) -> Sequence[MarkRange]:
        return self.all_ranges if self.uncertain is None else self.uncertain

    @property
    def certain_rows(self) -> int:
        """Rows that match the query's WHERE for sure, whatever is in them."""
        return self.rows - self._rows(self.uncertain_ranges) if self.is_whole else 0

    def needed_rows(self, names: Sequence[str]) -> list[RowRange]:
        """The rows to read when columns ``names`` are wanted.

        The key's columns of doubtful granules are looked at first, so that of the other columns only what can match is
        decoded, unless there are so many doubtful granules that little would be gained.
        """
        doubtful = self._rows(self.uncertain_ranges)
        known = self.row_filter
        if known is None or not doubtful or doubtful > _MOST_ROWS_LOOKED_AT or set(names) <= set(known.names):
            return rows_of(self.all_ranges, self.part.rows, self.part.granularity)
        limits = rows_of(self.all_ranges, self.part.rows, self.part.granularity)
        certain = rows_of(_without(self.all_ranges, self.uncertain_ranges), self.part.rows, self.part.granularity)
        return _joined([*certain, *known.matching(self.part, self.uncertain_ranges)], limits)

    def _rows(self, ranges: Sequence[MarkRange]) -> int:
        return sum(item.rows for item in rows_of(ranges, self.part.rows, self.part.granularity))


def _marks(ranges: Sequence[MarkRange]) -> int:
    return sum(item.end - item.begin for item in ranges)


def _without(ranges: Sequence[MarkRange], taken: Sequence[MarkRange]) -> list[MarkRange]:
    """The granules of ``ranges`` that are not in ``taken``, a subset of them; both in order."""
    result: list[MarkRange] = []
    left = deque(taken)
    for item in ranges:
        begin = item.begin
        while left and left[0].begin < item.end:
            other = left.popleft()
            if begin < other.begin:
                result.append(MarkRange(begin, other.begin))
            begin = other.end
        if begin < item.end:
            result.append(MarkRange(begin, item.end))
    return result


def _runs_of(rows: np.ndarray) -> list[RowRange]:
    """Sorted row numbers as runs, over small gaps."""
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > _JOIN_GAP_ROWS)
    begins = rows[np.concatenate(([0], cuts + 1))]
    ends = rows[np.concatenate((cuts, [len(rows) - 1]))] + 1
    return [RowRange(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]


def _joined(runs: Sequence[RowRange], limits: Sequence[RowRange]) -> list[RowRange]:
    """The runs in order, joined over small gaps inside one of ``limits``, never beyond."""
    left = deque(sorted(runs))
    result: list[RowRange] = []
    for limit in limits:
        inside: list[RowRange] = []
        while left and left[0].begin < limit.end:
            item = left.popleft()
            if inside and item.begin - inside[-1].end <= _JOIN_GAP_ROWS:
                inside[-1] = RowRange(inside[-1].begin, item.end)
            else:
                inside.append(item)
        result.extend(inside)
    return result
