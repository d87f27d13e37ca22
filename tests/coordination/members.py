"""Replicas of one table on an in-memory ZooKeeper, as far as the tests of this room need them."""

from __future__ import annotations

from collections.abc import Callable

from coordination.drops.drop_partition import clear_drop_leftovers
from coordination.inserts.block_numbers import BlockLock
from coordination.inserts.insert_commit import InsertRequest, InsertResult, InsertStatus, begin_insert
from coordination.inserts.quorum import QuorumPlan
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble, MemoryKeeper
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.merge_predicate import MergePredicate, read_merge_predicate
from coordination.merges_mutations.mutation_nodes import KnownMutations
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import Activation, ReplicaAddress
from coordination.nodes.table_gate import TableGate
from coordination.replicas import log_pull
from coordination.replicas.clone import finish_clone, needs_clone
from coordination.replicas.part_commit import PartCommitStatus
from coordination.replicas.table_nodes import SharedDefinition
from parts.common.part_name import PartName
from tests.coordination.holders import find_holder
from tests.coordination.real_time import (
    activate,
    clone_replica,
    commit_insert,
    commit_produced_part,
    create_table_or_replica,
)

TABLE = TablePaths("/clickhouse/tables/01/hits")
DEFINITION = SharedDefinition('{"sorting_key":"a","partition_key":"p"}', "a UInt8\nb String")
RECORD = PartRecord("hash", 1, 10)


class Member:
    """One replica as far as these tests need it."""

    def __init__(self, ensemble: MemoryEnsemble, name: str) -> None:
        self.ensemble, self.name = ensemble, name
        self.keeper: MemoryKeeper = ensemble.connect()
        self.paths: ReplicaPaths = TABLE.replica(name)
        self.outcome = create_table_or_replica(self.keeper, TABLE, name, DEFINITION)
        self.queue = ReplicationQueue(name, lambda: 100.0, lambda: 100.0)
        self.gate = TableGate(TABLE)
        self.mutations = KnownMutations(TABLE)
        self.active: set[PartName] = set()
        self.start()

    def start(self) -> None:
        self.gate.load(self.keeper)
        self.activation: Activation = activate(
            self.keeper, self.paths, ReplicaAddress(self.name, 1), self.name, wait_seconds=0
        )
        if needs_clone(self.keeper, self.paths):
            clone_replica(self.keeper, self.paths, dict.fromkeys(self.active, ""))
            finish_clone(self.keeper, self.paths)
        log_pull.load_queue(self.keeper, self.paths, self.queue, log_pull.read_listed_parts(self.keeper, self.paths))

    def covering_active(self, part: PartName) -> PartName | None:
        return next((p for p in self.active if p.covers(part)), None)

    def size_bytes(self, part: PartName) -> int:
        return 1

    def request(self, block_id: str = "id", quorum: QuorumPlan | None = None, partition: str = "all") -> InsertRequest:
        lock = begin_insert(self.keeper, TABLE, partition, block_id, owner=self.name, quorum=quorum)
        assert isinstance(lock, BlockLock)
        part = PartName(partition, lock.number, lock.number, 0)
        return InsertRequest(self.paths, part, lock, RECORD, 50.0, self.activation, self.gate, block_id, quorum)

    def insert(self, block_id: str = "id", quorum: QuorumPlan | None = None, partition: str = "all") -> PartName:
        request = self.request(block_id, quorum, partition)
        assert self.commit(request).status is InsertStatus.COMMITTED
        self.active.add(request.part)
        self.queue.add_active(request.part)
        return request.part

    def commit(self, request: InsertRequest) -> InsertResult:
        return commit_insert(self.keeper, request, resolve_seconds=0, sleep=lambda _: None)

    def pull(self) -> int:
        return log_pull.pull_log(self.keeper, self.paths, self.queue)

    def predicate(self) -> MergePredicate:
        asked = self.queue.copy_virtual_parts().partition_ids()
        return read_merge_predicate(self.keeper, TABLE, self.queue, self.pull, self.mutations.load, asked)

    def drain(self) -> list[ActionKind]:
        """Executes what can be executed; data are names only."""
        done = []
        while (action := self.queue.take_next_action(self, PoolLimits(9, 9, 1 << 40))) is not None:
            part = action.entry.new_part
            assert part is not None
            done.append(action.kind)
            if action.kind is ActionKind.SKIP:
                log_pull.remove_entry(self.keeper, self.paths, self.queue, action.name)
            elif action.kind is ActionKind.DROP_RANGE:
                if action.entry.has_leftovers:
                    clear_drop_leftovers(self.keeper, TABLE, part)
                self.active = {p for p in self.active if not part.covers(p)}
                listed = log_pull.read_listed_parts(self.keeper, self.paths)
                log_pull.unlist_parts(self.keeper, self.paths, [p for p in listed if part.covers(p)])
                names = [*self.queue.list_covered_entries(action.name), action.name]
                log_pull.remove_entries(self.keeper, self.paths, self.queue, names)
            else:
                if action.kind is ActionKind.FETCH:
                    holder = find_holder(self.keeper, self.paths, part, self.queue.copy_virtual_parts())
                    if holder is None:
                        self.queue.postpone(action.name, "nobody has it", pause_seconds=1e9)
                        continue
                    part = holder.part
                status = commit_produced_part(
                    self.keeper, self.paths, self.queue, action.name, action.entry, part, RECORD
                )
                assert status is PartCommitStatus.COMMITTED
                self.active = {p for p in self.active if not part.covers(p)} | {part}
                self.queue.finish(action.name)
        return done

    def expire(self) -> None:
        self.keeper.expire()

    def restart(self) -> None:
        if self.keeper.session_id:
            self.expire()
        self.keeper.reconnect()
        self.start()


def fault_once(ensemble: MemoryEnsemble, fault: Fault, kind: str = "multi") -> None:
    def faults(session: int, seen: str, path: str) -> Fault | None:
        if seen == kind:
            ensemble.faults = None
            return fault
        return None

    ensemble.faults = faults


def at_request(ensemble: MemoryEnsemble, member: Member, number: int, action: Callable[[], object]) -> list[int]:
    """Runs ``action`` once, before the member's request of this number. The list tells how many are left till then."""
    left = [number]

    def faults(session: int, kind: str, path: str) -> None:
        if session == member.keeper.session_id:
            left[0] -= 1
            if left[0] == 0:
                action()

    ensemble.faults = faults
    return left
