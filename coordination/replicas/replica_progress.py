"""How far the other replicas have executed the log as it is now (``alter_sync = 2``)."""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import ReplicaPaths, parse_sequence_number


class OtherReplicasProgress:
    """The other active replicas, and what each still has to execute of the log as it was at the start."""

    def __init__(self, keeper: Keeper, replica: ReplicaPaths) -> None:
        keeper.sync(replica.table.root)
        table = replica.table
        self._end = max(map(parse_sequence_number, keeper.children(table.log)), default=-1) + 1
        names = [name for name in keeper.children(table.replicas) if name != replica.name]
        self._pulling = [table.replica(name) for name in names]
        self._queued: dict[ReplicaPaths, frozenset[str]] = {}
        """Replicas that have pulled the whole log, and the entries of their queues at that time not yet executed."""

    def unfinished_replicas(self, keeper: Keeper) -> list[str]:
        """Lists the active replicas that have something left to do. Inactive ones follow later."""
        for replica, pointer in zip(
            self._pulling, keeper.get_many([replica.log_pointer for replica in self._pulling]), strict=True
        ):
            if pointer is not None and pointer[0] and int(pointer[0]) >= self._end:
                self._queued[replica] = frozenset(_queue(keeper, replica))
        self._pulling = [replica for replica in self._pulling if replica not in self._queued]
        for replica, names in list(self._queued.items()):
            if names:
                self._queued[replica] = names.intersection(_queue(keeper, replica))
        waiting = [*self._pulling, *(replica for replica, names in self._queued.items() if names)]
        active = keeper.exists_many([replica.is_active for replica in waiting])
        return [replica.name for replica, stat in zip(waiting, active, strict=True) if stat is not None]


def _queue(keeper: Keeper, replica: ReplicaPaths) -> list[str]:
    """Lists the queue; empty for a dropped replica."""
    return keeper.children_many([replica.queue])[0] or []
