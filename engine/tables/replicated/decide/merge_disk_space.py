"""Disk space for the merges of OPTIMIZE: required before one is logged, missed while one waits."""

from __future__ import annotations

from collections.abc import Sequence

from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName, make_merged_name


def require_disk_space(state: ReplicaState, sources: Sequence[PartName]) -> None:
    """Raises 243 (NOT_ENOUGH_SPACE) if the disk has no space for the merged part."""
    parts = [part for name in sources if (part := state.store.get_active(name)) is not None]
    size = sum(part.bytes_on_disk for part in parts)
    state.services.disk.require(state.store.path, size, f"merging to {make_merged_name(list(sources))}")


def raise_if_disk_full(state: ReplicaState, results: Sequence[PartName]) -> None:
    """Raises 243 (NOT_ENOUGH_SPACE) if the next attempt at one of the merges must fail as the last did."""
    for item in state.queue.list_entries():
        if item.entry.new_part not in results or item.is_executing:
            continue
        message = item.last_exception if "(NOT_ENOUGH_SPACE)" in item.last_exception else ""
        try:
            if item.entry.source_parts:
                require_disk_space(state, item.entry.source_parts)
        except UnavailableError as error:
            message = error.message
        if message:
            where = f"The merge to {item.entry.new_part} is in the log, and will be made when the disk has room"
            raise UnknownOutcomeError("NOT_ENOUGH_SPACE", f"{where}: {message}")
