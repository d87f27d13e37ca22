"""Which of the allowed merges to make: pure arithmetic on sizes and ages.

A merge of n neighbours writes their whole size once and makes n - 1 parts fewer. The selector takes the window with the
least cost for each part it removes, among windows that are *balanced*: the sum of sizes is at least ``base`` times the
largest. Balanced merging rewrites a row about log(total / block) times. The base begins at ``START_BASE`` and sinks
with the window's age and with the number of parts, so that a quiet table is tidied up and a crowded one relieved.

A merge of little data costs what any merge costs at least, so a window of small parts waits until there are many, or
one of them has been there for a moment: under a stream of small INSERTs each part is merged with dozens of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parts.part_name import PartName

START_BASE = 5.0
LEAST_BASE = 1.05
PART_OVERHEAD_BYTES = 1024 * 1024
"""A part costs this much besides its bytes: files, metadata, a search at every query."""
SMALL_PARTS = 32
SMALL_PARTS_SECONDS = 1.0
"""A window of less than :data:`PART_OVERHEAD_BYTES` is merged when it has so many parts or one of such an age."""
_FULL_AGE_SECONDS = 6 * 3600.0
_CROWDED_PARTS = 200
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartFacts:
    size_bytes: int
    age_seconds: float
    rows: int = 0


def balance_base(age_seconds: float, parts_in_partition: int) -> float:
    """What sum / largest must reach: less for old windows and for partitions of many parts."""
    age = min(1.0, math.log1p(max(age_seconds, 0.0)) / math.log1p(_FULL_AGE_SECONDS))
    crowd = min(1.0, parts_in_partition / _CROWDED_PARTS)
    ease = max(age, crowd)
    return START_BASE + (LEAST_BASE - START_BASE) * ease


def select_merge(
    runs: Sequence[Sequence[PartName]],
    facts: Callable[[PartName], PartFacts],
    *,
    max_bytes: int,
    max_parts: int = 100,
) -> list[PartName]:
    """The best window of at least two parts within one run; empty if no window is worth it or small enough."""
    crowd: dict[str, int] = {}
    for run in runs:
        for part in run:
            crowd[part.partition_id] = crowd.get(part.partition_id, 0) + 1
    best: list[PartName] = []
    best_cost = math.inf
    for run in runs:
        if len(run) < 2:
            continue
        known = [facts(part) for part in run]
        window, cost = _best_window(known, crowd[run[0].partition_id], max_bytes, max_parts)
        if window is not None and cost < best_cost:
            best, best_cost = list(run[window[0] : window[1]]), cost
    return best


def _best_window(
    facts: Sequence[PartFacts], crowd: int, max_bytes: int, max_parts: int
) -> tuple[tuple[int, int] | None, float]:
    """Every window is looked at once: parts × ``max_parts`` steps of plain arithmetic."""
    best: tuple[int, int] | None = None
    best_cost = math.inf
    for begin in range(len(facts) - 1):
        total, largest, youngest = facts[begin].size_bytes, facts[begin].size_bytes, facts[begin].age_seconds
        oldest = youngest
        for end in range(begin + 1, min(begin + max_parts, len(facts))):
            fact = facts[end]
            total += fact.size_bytes
            if total > max_bytes:
                break
            largest = max(largest, fact.size_bytes)
            youngest, oldest = min(youngest, fact.age_seconds), max(oldest, fact.age_seconds)
            count = end - begin + 1
            if total < PART_OVERHEAD_BYTES and count < SMALL_PARTS and oldest < SMALL_PARTS_SECONDS:
                continue
            if total + PART_OVERHEAD_BYTES < balance_base(youngest, crowd) * largest:
                continue
            # The exponent prefers longer windows among equal parts: one merge of 100 rather than 50 of two.
            cost = (total + count * PART_OVERHEAD_BYTES) / (count - 1) ** 1.1
            if cost < best_cost:
                best, best_cost = (begin, end + 1), cost
    return best, best_cost


def max_merge_bytes(free_slots: int, total_slots: int, *, at_most: int = 150 * 1024 * MIB, at_least: int = MIB) -> int:
    """How large a merge may be: sinks exponentially as slots run out, so that small merges always find one."""
    if free_slots <= 0 or total_slots <= 0:
        return 0
    if free_slots >= total_slots or total_slots == 1:
        return at_most
    share = (free_slots - 1) / (total_slots - 1)
    return int(at_least * (at_most / at_least) ** share)
