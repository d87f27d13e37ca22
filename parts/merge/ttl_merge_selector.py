"""Select merges that apply TTL, by the parts' expiry times. No I/O.

The part that has waited longest is merged, together with neighbours in which something has expired too. Parts without
known times are left to ordinary merges, which apply TTL to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from parts.common.part_name import PartName
from parts.table.ttl_rules import PartTtl, TableTtl

TTL_DELETE, TTL_RECOMPRESS = "TTLDelete", "TTLRecompress"
"""Values of ``merge_type`` in system.merges."""


@dataclass(frozen=True, slots=True)
class TtlMergeCandidate:
    """The times, rows and size of a part that may be merged."""

    ttl: PartTtl
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TtlMerge:
    """A selected merge."""

    sources: list[PartName]
    merge_type: str


def find_fully_expired_parts(
    ttl: TableTtl, parts: Sequence[tuple[PartName, TtlMergeCandidate]], now: int
) -> list[PartName]:
    """Returns parts all of whose rows have expired, or that have none: they need not be read."""
    return [name for name, facts in parts if not facts.rows or ttl.has_every_row_expired(facts.ttl, now)]


def select_ttl_merge(
    ttl: TableTtl,
    runs: Sequence[Sequence[PartName]],
    facts: Callable[[PartName], TtlMergeCandidate],
    now: int,
    *,
    max_bytes: int,
    max_parts: int,
    only_whole: bool,
    resting: Callable[[str], Collection[str]],
) -> TtlMerge | None:
    """Selects a merge that applies TTL, or ``None``.

    ``runs``: neighbours that may be merged. ``only_whole``: only parts in which everything that can expire has.
    ``resting(merge_type)``: partitions that had such a merge recently.
    """

    def delete_since(name: PartName) -> int | None:
        """Returns since when the part has rows to delete."""
        return ttl.get_due_time(facts(name).ttl, is_whole=only_whole)

    def recompress_since(name: PartName) -> int | None:
        """Returns 0 if the part needs another codec, otherwise ``None``."""
        known = facts(name).ttl
        wanted = ttl.choose_codec(known, now)
        return 0 if wanted and wanted != known.codec else None

    for merge_type, since in ((TTL_DELETE, delete_since), (TTL_RECOMPRESS, recompress_since)):
        rests = resting(merge_type)
        free = [run for run in runs if run and run[0].partition_id not in rests]
        found = _longest_waiting(free, since, facts, now, max_bytes, max_parts)
        if found:
            return TtlMerge(found, merge_type)
    return None


def _longest_waiting(
    runs: Sequence[Sequence[PartName]],
    since: Callable[[PartName], int | None],
    facts: Callable[[PartName], TtlMergeCandidate],
    now: int,
    max_bytes: int,
    max_parts: int,
) -> list[PartName]:
    best: tuple[int, Sequence[PartName], int] | None = None
    for run in runs:
        for position, name in enumerate(run):
            time = since(name)
            if time is None or time > now or facts(name).size_bytes > max_bytes:
                continue
            if best is None or time < best[0]:
                best = time, run, position
    if best is None:
        return []
    _, run, begin = best
    end, size = begin + 1, facts(run[begin]).size_bytes
    for step, neighbours in ((-1, range(begin - 1, -1, -1)), (1, range(end, len(run)))):
        for position in neighbours:
            time = since(run[position])
            size += facts(run[position]).size_bytes
            if time is None or time > now or size > max_bytes or end - begin >= max_parts:
                size -= facts(run[position]).size_bytes
                break
            begin, end = (position, end) if step < 0 else (begin, position + 1)
    return list(run[begin:end])
