"""Block history of a replica: decided blocks from ZooKeeper, missing ones from its queue.

See ``engine.tables.capabilities.block_history``.
"""

from __future__ import annotations

from collections.abc import Callable

from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.log.part_set import PartSet
from coordination.reads.dropped_blocks import read_dropped_blocks, read_lost_parts
from coordination.reads.stream_positions import read_stream_positions
from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks, require_readable_blocks
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.sequential_snapshot import FilteredSnapshot
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from parts.store.part_states import Snapshot

_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02


class ReplicatedBlockHistory:
    """The block history of one replica.

    Implements ``engine.tables.capabilities.block_history.TableBlocks``.
    """

    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None], wake_execution: Callable[[], None]) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self._wake_execution = wake_execution

    def history(self) -> BlockHistory:
        """Returns the block history. Raises 242, 999."""
        state = self._state
        with state.hold_write_access() as (keeper, _):
            decided = read_stream_positions(
                keeper,
                state.paths,
                state.queue,
                lambda: self._pull(keeper),
                lambda part: self._has(part, state.store.covering_active),
            )
            return self._history(keeper, decided)

    def snapshot_of_blocks(self, wanted: WantedBlocks) -> FilteredSnapshot:
        """Returns a snapshot with all wanted blocks; waits for those still to be fetched.

        Raises 33, 242, 369, 999.
        """
        state = self._state
        deadline = state.services.monotonic() + _WAIT_SECONDS
        while True:
            with state.hold_write_access() as (keeper, _):
                keeper.sync(state.paths.root)
                self._pull(keeper)
                coming = [part for part in state.queue.copy_virtual_parts() if wanted.overlaps(part)]
                failed = read_unconfirmed_parts(
                    keeper, state.paths
                )  # parts that wait for a quorum lie behind every position
                snapshot = FilteredSnapshot(state.store.snapshot(), failed)
                try:
                    require_readable_blocks(state.definition, self._history(keeper), wanted)
                    held = PartSet(part.name for part in snapshot.parts)
                    missing = next(
                        (p for p in coming if p not in failed and not self._has(p, held.find_covering)), None
                    )
                    if missing is None:
                        return snapshot
                except BaseException:
                    snapshot.release()
                    raise
            snapshot.release()
            if state.services.monotonic() >= deadline or state.is_cancelled():
                raise UnavailableError(
                    "ALL_REPLICAS_ARE_STALE",
                    f"Replica {state.replica.name} of {state.definition.full_name} does not have part {missing} yet, "
                    "which the stream is to read; read another replica or wait until this one has caught up",
                )
            self._wake_execution()
            state.sleep(_POLL_SECONDS)

    def settled_snapshot(self) -> tuple[Snapshot | FilteredSnapshot, bool]:
        """Returns all rows that were inserted before, and whether all blocks before theirs are decided.

        Waits for both for a while. Raises 242, 999, and 369 (ALL_REPLICAS_ARE_STALE) if this replica lacks some.
        """
        state = self._state
        deadline = state.services.monotonic() + _WAIT_SECONDS
        while True:
            decided = self.history().decided
            snapshot = state.store.snapshot()
            known = list(state.queue.copy_virtual_parts())
            names = [*known, *(part.name for part in snapshot.parts)]
            is_settled = all(name.max_block <= decided.get(name.partition_id, -1) for name in names)
            if is_settled:
                return snapshot, True
            is_over = state.services.monotonic() >= deadline or state.is_cancelled()
            missing = next((part for part in known if not self._has(part, state.store.covering_active)), None)
            if is_over and missing is None:
                return snapshot, False
            snapshot.release()
            if is_over:
                raise UnavailableError(
                    "ALL_REPLICAS_ARE_STALE",
                    f"Replica {state.replica.name} of {state.definition.full_name} does not have part {missing} yet: "
                    "read another replica, or wait until this one has caught up",
                )
            self._wake_execution()
            state.sleep(_POLL_SECONDS)

    def _history(self, keeper: Keeper, decided: dict[str, int] | None = None) -> BlockHistory:
        paths = self._state.paths
        stat = keeper.exists(paths.block_numbers)
        identity = f"{stat.created_zxid:x}" if stat is not None else ""
        return BlockHistory(identity, decided or {}, read_dropped_blocks(keeper, paths), read_lost_parts(keeper, paths))

    def _has(self, part: PartName, covering: Callable[[PartName], object]) -> bool:
        """Tells whether the part's rows are here: in the part, a cover, or the parts it is to be made of."""
        if covering(part) is not None:
            return True
        queued = (item.entry for item in self._state.queue.list_entries())
        sources = next((entry.source_parts for entry in queued if entry.new_part == part), ())
        return bool(sources) and all(self._has(source, covering) for source in sources)
