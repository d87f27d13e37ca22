"""The parts, granules and rows that a query must read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parts.format.array_file import to_plain_array
from parts.format.primary_index import (
    MarkRange,
    get_plain_integers,
)
from parts.read.batch_plan import (
    RowRange,
    get_row_ranges,
)
from parts.read.part_reader import (
    Part,
)
from parts.types import DataType
from sql.pruning.conditions import Condition
from sql.pruning.key_intervals import KeyInterval
from sql.pruning.key_ranges import make_point_ranges
from sql.pruning.row_prefilter import RowPrefilter

MAX_ROWS_TESTED_BY_KEY = 1 << 19
_JOIN_GAP_ROWS = 4096
_FEW_ROWS = 16_384
_ROWS_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class KeyRowFilter:
    """The condition on the key, tested on rows where key expressions are plain columns.

    ``columns`` has their names and types by key number.
    """

    condition: Condition
    columns: Mapping[int, tuple[str, DataType]]
    is_whole: bool = False
    """The filter is the whole condition: there is no conjunct on other columns."""
    interval: KeyInterval | None = None
    """The condition as an interval of the first key, if it is one: its rows are then a run."""
    is_of_values: bool = False
    """The condition is false where a column is NULL or NaN: it is an AND of comparisons with values."""

    @property
    def names(self) -> list[str]:
        """The names of the columns that the test reads."""
        return [name for name, _ in self.columns.values()]

    def find_row_runs(self, part: Part, ranges: Sequence[MarkRange], interval: KeyInterval) -> list[RowRange] | None:
        """Returns the rows of the granules that are in the interval, found by bisection.

        ``None`` means that the key has no numbers.
        """
        if part.primary_index.first_key_integers is None:
            return None
        found = []
        for chosen in get_row_ranges(ranges, part.rows, part.granularity):
            arrays = part.read_row_range(self.names, chosen)
            numbers = get_plain_integers(arrays[0]) if arrays is not None and arrays[0].type == interval.type else None
            if numbers is None:
                return None
            begin, end = interval.rows(numbers)
            if begin < end:
                found.append(RowRange(chosen.begin + begin, chosen.begin + end))
        return found

    def _read_values(self, part: Part, ranges: Sequence[MarkRange]) -> Iterator[tuple[np.ndarray, list[pa.Array]]]:
        """Yields row numbers and their values; short ranges are joined."""
        held: list[tuple[np.ndarray, list[pa.Array]]] = []
        for chosen in get_row_ranges(ranges, part.rows, part.granularity):
            few = part.read_row_range(self.names, chosen) if chosen.rows <= _FEW_ROWS else None
            if few is not None:
                held.append((np.arange(chosen.begin, chosen.end), few))
                if sum(len(rows) for rows, _ in held) >= _ROWS_AT_ONCE:
                    yield _concatenate(held)
                    held = []
                continue
            if held:
                yield _concatenate(held)
                held = []
            first = chosen.begin
            for batch in part.read_rows(self.names, [chosen], with_deleted=True):
                yield np.arange(first, first + batch.num_rows), batch.columns
                first += batch.num_rows
        if held:
            yield _concatenate(held)

    def matching(self, part: Part, ranges: Sequence[MarkRange]) -> tuple[np.ndarray, bool]:
        """Returns the numbers of the granules' rows that can match, and whether all of them do."""
        found: list[np.ndarray] = []
        is_sure = True
        for rows, arrays in self._read_values(part, ranges):
            bounds = {
                number: make_point_ranges(to_plain_array(column, type_))
                for (number, (_, type_)), column in zip(self.columns.items(), arrays, strict=True)
            }
            true, false = self.condition.evaluate(bounds, len(rows))
            if self.is_of_values:
                for one in bounds.values():
                    true, false = true & ~one.low_infinite, false | one.low_infinite
            found.append(rows[true])
            is_sure = is_sure and not (true & false).any()
        return np.concatenate(found) if found else np.empty(0, np.int64), is_sure


def _concatenate(held: Sequence[tuple[np.ndarray, list[pa.Array]]]) -> tuple[np.ndarray, list[pa.Array]]:
    if len(held) == 1:
        return held[0]
    columns = zip(*(arrays for _, arrays in held), strict=True)
    return np.concatenate([rows for rows, _ in held]), [pa.chunked_array(column).combine_chunks() for column in columns]


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Rows that are read together; ``matching`` are positions of those that match (``None``: all)."""

    rows: RowRange
    matching: np.ndarray | None = None

    @property
    def count(self) -> int:
        """The number of rows that match."""
        return self.rows.rows if self.matching is None else len(self.matching)

    def first(self, count: int) -> MatchingRows:
        """Returns the first ``count`` (at least one) rows that match."""
        if count >= self.count:
            return self
        if self.matching is None:
            return MatchingRows(RowRange(self.rows.begin, self.rows.begin + count))
        matching = self.matching[:count]
        return MatchingRows(RowRange(self.rows.begin, self.rows.begin + int(matching[-1]) + 1), matching)


@dataclass(frozen=True, slots=True)
class PrunedPart:
    """A part and the granules to read of it (``None``: all).

    In the ``uncertain`` granules (``None``: all) the condition on the key may be false for some rows; in the others it
    holds for every row. ``is_whole`` says that this condition is the query's whole WHERE, and that no row of the part
    is deleted.
    """

    part: Part
    ranges: Sequence[MarkRange] | None = None
    uncertain: Sequence[MarkRange] | None = None
    is_whole: bool = False
    row_filter: KeyRowFilter | None = None
    row_test: RowPrefilter | None = None

    @property
    def marks(self) -> int:
        """The number of granules to read."""
        return self.part.marks if self.ranges is None else _count_marks(self.ranges)

    @property
    def rows(self) -> int:
        """The number of rows in them."""
        return self._count_rows(self.all_ranges)

    @property
    def all_ranges(self) -> Sequence[MarkRange]:
        """The granules to read."""
        return [MarkRange(0, self.part.marks)] if self.ranges is None else self.ranges

    @property
    def uncertain_ranges(self) -> Sequence[MarkRange]:
        """The granules in which some rows may not match."""
        return self.all_ranges if self.uncertain is None else self.uncertain

    @property
    def certain_rows(self) -> int:
        """The number of rows that surely match the query's WHERE."""
        return self.rows - self.uncertain_rows if self.is_whole else 0

    def find_needed_rows(self, names: Sequence[str]) -> list[RowRange]:
        """Returns the rows to read when columns ``names`` are wanted.

        The key's columns of uncertain granules are tested first, so that other columns are decoded only where they can
        match. With too many uncertain rows that gains little, and all rows are read.
        """
        doubtful = self.uncertain_rows
        known = self.row_filter
        if known is None or not doubtful or doubtful > MAX_ROWS_TESTED_BY_KEY or set(names) <= set(known.names):
            return get_row_ranges(self.all_ranges, self.part.rows, self.part.granularity)
        limits = get_row_ranges(self.all_ranges, self.part.rows, self.part.granularity)
        certain = get_row_ranges(
            _subtract_ranges(self.all_ranges, self.uncertain_ranges), self.part.rows, self.part.granularity
        )
        found = self._find_uncertain_matches(known)[0]
        return _join_runs([*certain, *(piece.rows for piece in found)], limits)

    @property
    def uncertain_rows(self) -> int:
        """The number of rows in uncertain granules."""
        return self._count_rows(self.uncertain_ranges)

    def matching_rows(self) -> list[MatchingRows] | None:
        """Returns the rows that match the query's WHERE, in order.

        ``None`` means that the key's columns do not decide it.
        """
        known, unsure = self.row_filter, self.uncertain_ranges
        if not self.is_whole:
            return None
        certain = get_row_ranges(_subtract_ranges(self.all_ranges, unsure), self.part.rows, self.part.granularity)
        pieces = [MatchingRows(rows) for rows in certain]
        if unsure:
            if known is None or not known.is_whole:
                return None
            found, is_sure = self._find_uncertain_matches(known)
            if not is_sure:
                return None
            pieces += found
        return sorted(pieces, key=lambda piece: piece.rows)

    def _find_uncertain_matches(self, known: KeyRowFilter) -> tuple[list[MatchingRows], bool]:
        """Returns the rows of uncertain granules that can match, and whether they all do."""
        if known.interval is not None:
            runs = known.find_row_runs(self.part, self.uncertain_ranges, known.interval)
            if runs is not None:
                return [MatchingRows(run) for run in runs], True
        rows, is_sure = known.matching(self.part, self.uncertain_ranges)
        limits = get_row_ranges(self.uncertain_ranges, self.part.rows, self.part.granularity)
        return _group_into_pieces(rows, limits), is_sure

    def _count_rows(self, ranges: Sequence[MarkRange]) -> int:
        return sum(item.rows for item in get_row_ranges(ranges, self.part.rows, self.part.granularity))


def restrict_to_granules(pruned: PrunedPart, mask: np.ndarray) -> PrunedPart | None:
    """Returns the part with only the granules of the mask; ``None`` if none is left."""
    left = _to_mask(pruned.all_ranges, len(mask)) & mask
    if not left.any():
        return None
    uncertain = None if pruned.uncertain is None else ranges_of_mask(_to_mask(pruned.uncertain, len(mask)) & mask)
    return replace(pruned, ranges=ranges_of_mask(left), uncertain=uncertain)


def ranges_of_mask(mask: np.ndarray) -> list[MarkRange]:
    """Returns the runs of true positions as mark ranges."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [MarkRange(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def _to_mask(ranges: Sequence[MarkRange], marks: int) -> np.ndarray:
    flags = np.zeros(marks, bool)
    for item in ranges:
        flags[item.begin : item.end] = True
    return flags


def _count_marks(ranges: Sequence[MarkRange]) -> int:
    return sum(item.end - item.begin for item in ranges)


def _subtract_ranges(ranges: Sequence[MarkRange], taken: Sequence[MarkRange]) -> list[MarkRange]:
    """Returns the granules of ``ranges`` that are not in ``taken``, a subset of them; both in order."""
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


def _group_into_runs(rows: np.ndarray) -> list[RowRange]:
    """Groups sorted row numbers into runs, over small gaps."""
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > _JOIN_GAP_ROWS)
    begins = rows[np.concatenate(([0], cuts + 1))]
    ends = rows[np.concatenate((cuts, [len(rows) - 1]))] + 1
    return [RowRange(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]


def _group_into_pieces(found: np.ndarray, limits: Sequence[RowRange]) -> list[MatchingRows]:
    """Groups sorted row numbers into runs that stay inside one of ``limits``.

    The limits hold all of the rows.
    """
    pieces = []
    for limit in limits:
        begin, end = np.searchsorted(found, (limit.begin, limit.end))
        inside = found[begin:end]
        for run in _group_into_runs(inside):
            rows = inside[slice(*np.searchsorted(inside, (run.begin, run.end)))]
            pieces.append(MatchingRows(run, None if len(rows) == run.rows else rows - run.begin))
    return pieces


def _join_runs(runs: Sequence[RowRange], limits: Sequence[RowRange]) -> list[RowRange]:
    """Joins runs over small gaps, but never beyond one of ``limits``; returns them in order."""
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
