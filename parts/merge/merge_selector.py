"""Select the merges to make among the allowed ones, by sizes and ages. No I/O.

A merge of n neighbours writes their whole size once and removes n - 1 parts. The selector takes the window with the
least cost for each removed part, among *balanced* windows: the sum of sizes is at least ``base`` times the largest.
Balanced merging rewrites a row about log(total / block) times. The base begins at ``INITIAL_BALANCE_BASE`` and sinks
with the window's age and with the number of parts, so that even a table without inserts, or with many parts, is merged.

A merge of little data has the same minimum cost. So a window of small parts waits until there are many, or one of them
has been there for a moment. Under a stream of small INSERTs each part is merged with dozens of others.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from parts.common.part_name import PartName

INITIAL_BALANCE_BASE = 5.0
MIN_BALANCE_BASE = 1.05
PART_OVERHEAD_BYTES = 1024 * 1024
"""Cost of a part besides its bytes: files, metadata, a search at every query."""
SMALL_PARTS_PER_MERGE = 32
SMALL_PARTS_MAX_AGE_SECONDS = 1.0
"""A window below :data:`PART_OVERHEAD_BYTES` is merged when it has this many parts, or one of this age."""
_FULL_AGE_SECONDS = 6 * 3600.0
_CROWDED_PARTS = 200
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MergeCandidate:
    """Size and age of a part that may be merged."""

    size_bytes: int
    age_seconds: float
    rows: int = 0


def compute_balance_bases(ages: np.ndarray, parts_in_partition: int) -> np.ndarray:
    """Returns the required ratio of sum to largest: less for old windows and for many parts."""
    age = np.log1p(np.maximum(ages, 0.0)) / math.log1p(_FULL_AGE_SECONDS)
    ease = np.minimum(1.0, np.maximum(age, parts_in_partition / _CROWDED_PARTS))
    return INITIAL_BALANCE_BASE + (MIN_BALANCE_BASE - INITIAL_BALANCE_BASE) * ease


def select_merge(
    runs: Sequence[Sequence[PartName]],
    facts: Callable[[PartName], MergeCandidate],
    *,
    max_bytes: int,
    max_parts: int = 100,
) -> list[PartName]:
    """Selects the best window of at least two parts within one run; empty if none is worth it."""
    chosen = select_merges(runs, facts, max_bytes=lambda merges, size: max_bytes, max_parts=max_parts, at_most=1)
    return chosen[0] if chosen else []


def select_merges(
    runs: Sequence[Sequence[PartName]],
    facts: Callable[[PartName], MergeCandidate],
    *,
    max_bytes: Callable[[int, int], int],
    max_parts: int,
    at_most: int,
) -> list[list[PartName]]:
    """Selects the best windows of at least two parts, the best first, no part in two of them.

    ``max_bytes(merges, size)``: the size limit of the next window when ``merges`` windows of ``size`` bytes in all are
    selected; it does not grow. Every run is examined once, and its rest once more for each window that is taken.
    """
    crowd = Counter(part.partition_id for run in runs for part in run)
    windows: list[_Window] = []
    number = itertools.count()
    chosen: list[list[PartName]] = []
    chosen_bytes = 0

    def look(run: Sequence[PartName], known: Sequence[MergeCandidate]) -> None:
        """Finds the best window of a run, and keeps it for comparison."""
        if len(run) < 2:
            return
        limit = max_bytes(len(chosen), chosen_bytes)
        window, cost = _best_window(known, crowd[run[0].partition_id], limit, max_parts)
        if window is not None:
            heappush(windows, _Window(cost, next(number), run, known, *window))

    for run in runs:
        look(run, [facts(part) for part in run] if len(run) > 1 else [])
    while windows and len(chosen) < at_most:
        best = heappop(windows)
        if best.size_bytes > max_bytes(len(chosen), chosen_bytes):
            look(best.run, best.known)
            continue
        chosen.append(list(best.run[best.begin : best.end]))
        chosen_bytes += best.size_bytes
        look(best.run[: best.begin], best.known[: best.begin])
        look(best.run[best.end :], best.known[best.end :])
    return chosen


@dataclass(frozen=True, slots=True, order=True)
class _Window:
    cost: float
    number: int
    """Orders windows of equal cost: the first one wins."""
    run: Sequence[PartName] = field(compare=False)
    known: Sequence[MergeCandidate] = field(compare=False)
    begin: int = field(compare=False)
    end: int = field(compare=False)

    @property
    def size_bytes(self) -> int:
        """The size of the window's parts."""
        return sum(fact.size_bytes for fact in self.known[self.begin : self.end])


def _best_window(
    facts: Sequence[MergeCandidate], crowd: int, max_bytes: int, max_parts: int
) -> tuple[tuple[int, int] | None, float]:
    """Returns the best window and its cost.

    It evaluates all windows of one length together, from two parts to ``max_parts``.
    """
    sizes = np.array([fact.size_bytes for fact in facts], np.float64)
    ages = np.array([fact.age_seconds for fact in facts])
    totals = largest = sizes
    youngest = oldest = ages
    best: tuple[float, int, int] = (math.inf, 0, 0)
    for count in range(2, min(max_parts, len(facts)) + 1):
        last = slice(count - 1, None)
        totals = totals[:-1] + sizes[last]
        largest = np.maximum(largest[:-1], sizes[last])
        youngest = np.minimum(youngest[:-1], ages[last])
        oldest = np.maximum(oldest[:-1], ages[last])
        is_fit = totals <= max_bytes
        if not is_fit.any():
            break
        is_fit &= totals + PART_OVERHEAD_BYTES >= compute_balance_bases(youngest, crowd) * largest
        if count < SMALL_PARTS_PER_MERGE:
            is_fit &= (totals >= PART_OVERHEAD_BYTES) | (oldest >= SMALL_PARTS_MAX_AGE_SECONDS)
        # The exponent prefers longer windows among equal parts: one merge of 100 rather than 50 of two.
        costs = np.where(is_fit, (totals + count * PART_OVERHEAD_BYTES) / (count - 1) ** 1.1, math.inf)
        begin = int(costs.argmin())
        best = min(best, (float(costs[begin]), begin, begin + count))
    cost, begin, end = best
    return ((begin, end) if end else None), cost


def compute_max_merge_bytes(
    free_slots: int, total_slots: int, *, at_most: int = 150 * 1024 * MIB, at_least: int = MIB
) -> int:
    """Returns how large a merge may be.

    It sinks exponentially as slots run out, so that small merges always find one.
    """
    if free_slots <= 0 or total_slots <= 0:
        return 0
    if free_slots >= total_slots or total_slots == 1:
        return at_most
    share = (free_slots - 1) / (total_slots - 1)
    return int(at_least * (at_most / at_least) ** share)
