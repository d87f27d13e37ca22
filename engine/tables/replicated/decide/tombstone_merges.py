"""Selects merges that remove tombstones, and says up to which commit time a merge removes them.

Such a merge takes all parts of a partition, since an older row of a tombstone's key may be in any of them. No older row
can be in a part that is logged later: the time is stable (``coordination.links.stream.stable_times``). It travels with
the merge, so that all replicas remove the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper.interface import Keeper
from coordination.merges_mutations.merge_predicate import MergePredicate
from coordination.nodes.replica_activation import FEATURE_TOMBSTONES, find_replica_without
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError
from parts.common.part_name import PartName
from parts.merge.last_writer import LastWriter, find_tombstone_times


class TombstoneMerges:
    """The tombstones of one replica's parts."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._next: dict[str, float] = {}
        """By partition the monotonic time of the next merge: a partition is not rewritten for every few rows."""

    def list_partitions(self) -> list[str]:
        """Returns the partitions with tombstones that may go. Reads memory alone."""
        if not self.stable_time:
            return []
        now = self._state.services.monotonic()
        found = {part.name.partition_id for part in self._state.store.list_active() if self._has_tombstones(part.name)}
        return sorted(id_ for id_ in found if self._next.get(id_, now) <= now)

    def choose(self, predicate: MergePredicate, partition_ids: Sequence[str], max_bytes: int) -> list[list[PartName]]:
        """Returns the parts of those partitions that may be merged now and are not too large."""
        chosen = []
        for partition_id in partition_ids:
            try:
                parts = predicate.list_whole_partition(partition_id, self._has_tombstones)
            except ConflictError:
                continue
            here = [self._state.store.get_active(name) for name in parts]
            if parts and sum(part.bytes_on_disk if part is not None else max_bytes + 1 for part in here) <= max_bytes:
                chosen.append(parts)
        return chosen

    def note(self, partition_ids: Sequence[str]) -> None:
        """Notes that merges of these partitions are logged."""
        seconds = self._state.definition.settings.link_tombstone_seconds
        self._next |= dict.fromkeys(partition_ids, self._state.services.monotonic() + seconds)

    def find_time(self, keeper: Keeper, predicate: MergePredicate, sources: Sequence[PartName]) -> int:
        """Returns the commit time up to which a merge of these parts removes tombstones; 0 for none."""
        time = predicate.stable_time
        if not time or not any(map(self._has_tombstones, sources)):
            return 0
        if set(predicate.current.parts(sources[0].partition_id)) != set(sources):
            return 0
        return time if find_replica_without(keeper, self._state.paths, FEATURE_TOMBSTONES) is None else 0

    @property
    def stable_time(self) -> int:
        """The commit time up to which tombstones may go now; 0 for none."""
        mode = self._state.description.merge_mode
        return self._state.stable_time.ripe if isinstance(mode, LastWriter) and mode.may_remove_tombstones else 0

    def _has_tombstones(self, name: PartName) -> bool:
        part = self._state.store.get_active(name)
        return part is not None and 0 < find_tombstone_times(part)[0] <= self.stable_time
