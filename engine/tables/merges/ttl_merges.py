"""Selects the parts and merges of a table whose rows have expired by TTL.

The clock is read here, once for each merge. Its value travels with the merge, so every replica that runs the merge gets
the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from engine.tables.stopped_actions import StoppableAction, StoppedActions
from engine.tables.table_data import TableData
from parts.common.part_name import PartName
from parts.merge.ttl_merge_selector import (
    TTL_DELETE,
    TTL_RECOMPRESS,
    TtlMerge,
    TtlMergeCandidate,
    find_fully_expired_parts,
    select_ttl_merge,
)
from parts.read.part_reader import Part
from parts.table.ttl_rules import NO_KNOWN_TIMES, TableTtl

TTL_MERGE_TYPES = (TTL_DELETE, TTL_RECOMPRESS)
_NOT_HERE = TtlMergeCandidate(NO_KNOWN_TIMES, 1, 0)


class TtlTable(TableData, Protocol):
    """A table whose rows may expire."""

    stopped: StoppedActions


class TtlMergeSelector:
    """Selects the TTL merges and expired parts of one table, for all its background tasks."""

    def __init__(self, table: TtlTable) -> None:
        self._table = table
        self._next: dict[tuple[str, str], float] = {}
        """By merge type and partition, the monotonic time from which the next merge may run."""

    @property
    def time(self) -> int:
        """The time of merges that are decided now; 0 if they must not expire rows and rows have no age."""
        description = self._table.description
        if description.merge_mode.needs_time and not description.ttl:
            return int(self._table.services.clock())
        return self._expiry_time

    @property
    def _expiry_time(self) -> int:
        """The time by which rows expire; 0 if nothing expires now."""
        if not self._table.description.ttl or StoppableAction.TTL_MERGES in self._table.stopped:
            return 0
        return int(self._table.services.clock())

    def gone(self) -> list[PartName]:
        """Returns the active parts of which every row has expired."""
        now = self._expiry_time
        if not now or not self._table.definition.settings.remove_empty_parts:
            return []
        ttl = self._table.description.ttl
        return find_fully_expired_parts(
            ttl, [(part.name, _facts(part, ttl)) for part in self._table.store.list_active()], now
        )

    def has_work(self) -> bool:
        """Tells whether a merge might be selected, although its parts may be in use."""
        return self.choose([[part.name] for part in self._table.store.list_active()]) is not None

    def choose(self, runs: Sequence[Sequence[PartName]]) -> TtlMerge | None:
        """Returns the TTL merge that is due, if any.

        ``runs`` are neighbouring parts that may be merged and are here.
        """
        now = self._expiry_time
        settings = self._table.definition.settings
        under_way = sum(merge.merge_type in TTL_MERGE_TYPES for merge in self._table.services.merges)
        if not now or under_way >= settings.max_number_of_merges_with_ttl_in_pool:
            return None
        return select_ttl_merge(
            self._table.description.ttl,
            runs,
            self._facts_of,
            now,
            max_bytes=settings.max_bytes_to_merge_at_max_space_in_pool,
            max_parts=settings.max_parts_to_merge_at_once,
            only_whole=settings.ttl_only_drop_parts,
            resting=self._resting,
        )

    def note(self, merge: TtlMerge) -> None:
        """Records that a merge was run or logged, so that the next of its type waits."""
        settings = self._table.definition.settings
        pause = settings.merge_with_ttl_timeout
        if merge.merge_type == TTL_RECOMPRESS:
            pause = settings.merge_with_recompression_ttl_timeout
        self._next[merge.merge_type, merge.sources[0].partition_id] = self._table.services.monotonic() + pause

    def _resting(self, merge_type: str) -> Collection[str]:
        """Returns the partitions in which a merge of this type has to wait."""
        now = self._table.services.monotonic()
        return {partition for (kind, partition), until in self._next.items() if kind == merge_type and until > now}

    def _facts_of(self, name: PartName) -> TtlMergeCandidate:
        part = self._table.store.get_active(name)
        return _facts(part, self._table.description.ttl) if part is not None else _NOT_HERE


def _facts(part: Part, ttl: TableTtl) -> TtlMergeCandidate:
    return TtlMergeCandidate(part.get_applicable_ttl(ttl), part.rows, part.bytes_on_disk)
