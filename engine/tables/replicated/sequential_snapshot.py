"""Snapshots of the store without the parts that no quorum has confirmed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordination.keeper.interface import Keeper
from coordination.reads.sequential_reads import read_confirmed
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot

_POLL_SECONDS = 0.01
_SETTLE_SECONDS = 2.0


class FilteredSnapshot:
    """A snapshot that holds all parts and shows all but the hidden ones."""

    def __init__(self, snapshot: Snapshot, hidden: Collection[PartName]) -> None:
        self._snapshot = snapshot
        self.parts: Sequence[Part] = tuple(part for part in snapshot.parts if part.name not in hidden)

    def release(self) -> None:
        """Releases all parts."""
        self._snapshot.release()

    def __enter__(self) -> FilteredSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take_sequential_snapshot(state: ReplicaState) -> FilteredSnapshot:
    """Returns the parts that a quorum has confirmed. Raises 242, 289 (REPLICA_IS_NOT_IN_QUORUM), 999."""
    with state.hold_write_access() as (
        keeper,
        activation,
    ):  # keeps a new session from beginning, which may move parts back to the queue
        return FilteredSnapshot(*read_confirmed(keeper, activation, lambda: _settled_snapshot(state, keeper)))


def _settled_snapshot(state: ReplicaState, keeper: Keeper) -> Snapshot:
    """Returns a snapshot of every part that ZooKeeper lists for this replica.

    A part that was committed there and is not active here yet may be one that an acknowledged quorum counts, and is in
    no queue any more. Raises 289 if that lasts.
    """
    deadline = state.services.monotonic() + _SETTLE_SECONDS
    while True:
        with state.store.lock:
            unsettled = [state.replica.part(str(part.name)) for part in state.store.list_preactive()]
            snapshot = state.store.snapshot()
        if not unsettled:
            return snapshot
        try:
            keeper.sync(state.paths.root)
            if not any(keeper.exists_many(unsettled)):
                return snapshot
        except BaseException:
            snapshot.release()
            raise
        snapshot.release()
        if state.services.monotonic() >= deadline:
            raise UnavailableError(
                "REPLICA_IS_NOT_IN_QUORUM",
                f"Replica {state.replica.name} has not settled its last commits yet; read another replica or retry",
            )
        state.sleep(_POLL_SECONDS)
