"""How far each replica of a table has followed the log, read together for one decision."""

from __future__ import annotations

from dataclasses import dataclass

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import TablePaths


@dataclass(frozen=True, slots=True)
class ReplicaPosition:
    """A replica's log pointer and state. ``pointer`` is ``None`` before its first clone."""

    name: str
    pointer: int | None
    is_active: bool
    is_lost: bool
    host_version: int

    @property
    def holds_log(self) -> bool:
        """Whether the log must keep the entries that this replica has not copied yet."""
        return self.pointer is not None and (self.is_active or not self.is_lost)


def read_replica_positions(keeper: Keeper, table: TablePaths) -> list[ReplicaPosition]:
    """Reads the position of every registered replica.

    Host versions are read first. So a replica that becomes active later fails a check of its version.
    """
    names = keeper.children(table.replicas)
    hosts = keeper.exists_many([table.replica(name).host for name in names])
    active = keeper.exists_many([table.replica(name).is_active for name in names])
    lost = keeper.get_many([table.replica(name).is_lost for name in names])
    pointers = keeper.get_many([table.replica(name).log_pointer for name in names])
    return [
        ReplicaPosition(
            name=name,
            pointer=int(pointer[0]) if pointer is not None and pointer[0] else None,
            is_active=is_active is not None,
            is_lost=is_lost is not None and is_lost[0] == b"1",
            host_version=host.version,
        )
        for name, host, is_active, is_lost, pointer in zip(names, hosts, active, lost, pointers, strict=True)
        if host is not None
    ]
