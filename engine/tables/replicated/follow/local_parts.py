"""The replica's active parts and free merge and fetch slots, as the queue sees them."""

from __future__ import annotations

from coordination.log.queue_rules import PoolLimits
from engine.tables.disk_reservations import RESERVED_TO_SOURCE_RATIO
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from parts.common.part_name import PartName
from parts.merge.merge_selector import compute_max_merge_bytes


class ReplicaLocalParts:
    """Implements ``coordination.log.queue_rules.LocalParts``. ``slots`` is how many entries run at a time."""

    def __init__(self, state: ReplicaState, slots: int) -> None:
        self._state = state
        self._slots = slots

    def covering_active(self, part: PartName) -> PartName | None:
        """Returns the active part that covers this one."""
        found = self._state.store.covering_active(part)
        return found.name if found is not None else None

    def size_bytes(self, part: PartName) -> int:
        """Returns the size of an active part on disk; 0 if it is not here."""
        found = self._state.store.get_active(part)
        return found.bytes_on_disk if found is not None else 0

    def limits(self) -> PoolLimits:
        """Returns the free slots and size limits of the pools."""
        settings, stopped = self._state.definition.settings, self._state.stopped
        merging = self._state.queue.count_merging()
        merge_slots = self._slots - 1  # one slot is always left for fetches
        free = max(0, min(merge_slots - merging, self._state.services.merging.free))
        fitting = int(self._state.services.disk.unreserved_bytes(self._state.store.path) / RESERVED_TO_SOURCE_RATIO)
        return PoolLimits(
            free_merge_slots=0 if StoppableAction.MERGES in stopped else free,
            free_fetch_slots=0 if StoppableAction.FETCHES in stopped else self._state.services.fetches.free,
            # An assigned merge must run one day, however large OPTIMIZE or another replica's settings made it. An idle
            # pool therefore takes anything that fits on the disk.
            max_merge_bytes=fitting
            if free >= merge_slots
            else min(
                fitting,
                compute_max_merge_bytes(
                    free,
                    merge_slots,
                    at_most=settings.max_bytes_to_merge_at_max_space_in_pool,
                    at_least=settings.max_bytes_to_merge_at_min_space_in_pool,
                ),
            ),
            always_fetch_merged_part=settings.always_fetch_merged_part,
            prefer_fetch_seconds=settings.prefer_fetch_merged_part_time_threshold,
            prefer_fetch_bytes=settings.prefer_fetch_merged_part_size_threshold,
            metadata_version=self._state.description.metadata_version,
        )
