"""A replica of the simulation: what its disk holds and its process knows; and what all must agree on at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordination.inserts.insert_commit import InsertRequest
from coordination.keeper.interface import SessionState
from coordination.keeper.memory_keeper import MemoryKeeper
from coordination.log.log_entry import LogEntry
from coordination.log.part_set import PartSet
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import Activation
from coordination.nodes.table_gate import TableGate
from coordination.replicas import log_pull
from coordination.replicas.table_nodes import SharedDefinition
from parts.common.part_name import PartName

if TYPE_CHECKING:
    from tests.coordination.simulation import World

TABLE = TablePaths("/tables/t")
DEFINITION = SharedDefinition("metadata", "columns")
PARTITIONS = ("p1", "p2")
Rows = frozenset[str]


class Crash(BaseException):
    """The replica's process ends in the middle of a request."""


@dataclass
class History:
    """What clients were told. A block holds one row, named after it."""

    acknowledged: dict[str, set[PartName]] = field(default_factory=dict)
    maybe: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)

    def acknowledge(self, block: str, part: PartName) -> None:
        self.acknowledged.setdefault(block, set()).add(part)


@dataclass
class Waiter:
    block: str
    part: PartName
    activation: Activation
    is_parallel: bool


class Replica:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.paths: ReplicaPaths = TABLE.replica(name)
        self.disk: dict[PartName, Rows] = {}
        """Directories with final names: active, pre-active and outdated ones."""
        self.keeper: MemoryKeeper = world.ensemble.connect()
        self.forget()

    def forget(self) -> None:
        """What a new process knows: nothing."""
        self.active = PartSet()
        self.gate = TableGate(TABLE)
        self.queue = ReplicationQueue(self.name, world_clock(self.world), world_clock(self.world))
        self.activation: Activation | None = None
        self.busy: set[str] = set()
        self.unresolved: list[tuple[str, InsertRequest]] = []
        self.waiters: list[Waiter] = []
        self.unfinished: list[tuple[str, LogEntry, PartName]] = []
        self.is_crashed = False
        self.steps_away = 0
        self.loaded_disk = False

    def take(self, part: PartName) -> None:
        """Pre-active → active."""
        self.active.add(part)

    # LocalParts
    def covering_active(self, part: PartName) -> PartName | None:
        return self.active.find_covering(part)

    def size_bytes(self, part: PartName) -> int:
        return 1

    @property
    def is_ready(self) -> bool:
        return (
            not self.is_crashed
            and self.activation is not None
            and self.keeper.state is SessionState.CONNECTED
            and self.keeper.session_id == self.activation.session_id
        )

    def record(self, part: PartName) -> PartRecord:
        return PartRecord(",".join(sorted(self.disk[part])), len(self.disk[part]), 1)


def world_clock(world: World) -> Callable[[], float]:
    return world.clock


def check_agreement(world: World) -> None:
    """After healing: every replica alike, ZooKeeper and disk alike, every acknowledged row there once."""
    first = world.replicas[0]
    for replica in world.replicas:
        assert set(replica.active) == set(first.active), world.describe()
        listed = PartSet(log_pull.read_listed_parts(replica.keeper, replica.paths))
        assert set(listed) == set(replica.active), f"{replica.name}: ZooKeeper {set(listed)} disk {set(replica.active)}"
        assert set(replica.queue.copy_virtual_parts()) == set(replica.active)
        for part in replica.active:
            assert replica.disk[part] == first.disk[part], part
    rows = [row for part in first.active for row in sorted(first.disk[part])]
    assert len(rows) == len(set(rows)), f"doubled: {sorted(r for r in rows if rows.count(r) > 1)}"
    for block, parts in world.history.acknowledged.items():
        alive = any(not any(gone.covers(part) for gone in world.dropped) for part in parts)
        assert not alive or block in rows, f"acknowledged {block} of {parts} is lost"
    assert set(rows) <= world.history.maybe
