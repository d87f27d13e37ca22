"""The multi that commits a planned batch.

Its operations, in groups:

- The log entry.
- The vector, of the version from which the plan was made.
- The batch's own locks, and the locks below its commands.
- The block ids, and the guards of their partitions.
- The mutations.
- The operations that the caller adds (activation, gate, …).

The vector's version fences a former leader of the link, and two links that bring one change. If the outcome is unknown,
the vector tells. The answer to its operation names the zxid of the batch.

A lock, a guard and an id each occur once, whatever the batch holds of them. A drop always moves its partition's guard,
which MOVE PARTITION expects. Ids of dropped parts are deleted as far as the request has room; replicas clear the rest
before they carry the entry out (``has_leftovers``). What a drop does to quorums and to the records of dropped blocks
(``drops.drop_partition``) the caller adds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coordination.inserts.block_numbers import BlockLock
from coordination.inserts.block_views import BlockNode
from coordination.inserts.partition_nodes import PartitionNode
from coordination.keeper.interface import Check, Create, Delete, Op, SetData
from coordination.keeper.request_limits import MAX_REQUEST_BYTES, operation_bytes
from coordination.links.batches.batch_plan import BatchPlan
from coordination.links.groups.cut_mark import CutMark
from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.paths import TablePaths
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class TargetReads:
    """The state of the target, read in this order: versions, own locks (taken), other locks, guards, ids.

    So a mutation that others create has lower numbers or moves the version, and an insert that commits before the ids
    are read has deleted its lock.
    """

    vector_version: int
    locks: tuple[BlockLock, ...] = ()
    """The numbers of the batch."""
    committing: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Partition → the locks there, own ones too."""
    guards: Mapping[str, tuple[PartitionNode, int]] = field(default_factory=dict)
    """Partition → its node and that node's version, of all partitions of the batch."""
    block_ids: Mapping[str, PartName] = field(default_factory=dict)
    """The existing ids of the batch's blocks, and those of the parts that it drops."""
    mutations_version: int = 0
    columns_version: int = 0
    metadata_version: int = 0
    """The version of the definition that ``columns_version`` holds: replicas carry the mutations out under it."""


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """The multi, and the log entry in it."""

    ops: tuple[Op, ...]
    entry: LogEntry | None

    @property
    def size_bytes(self) -> int:
        """An upper bound of the request's size."""
        return sum(map(operation_bytes, self.ops))


def make_batch_commit(
    plan: BatchPlan,
    table: TablePaths,
    reads: TargetReads,
    *,
    along: Sequence[Op] = (),
    sets_ids: bool = True,
    limit_bytes: int = MAX_REQUEST_BYTES,
) -> BatchCommit:
    """Returns the multi.

    ``sets_ids`` is false where block ids do not travel. It is false for a list too, whose ids are set after its commit
    (``batch_list``).
    """
    moved: list[Op] = [SetData(table.linked.vector, plan.vector.to_bytes(), reads.vector_version)]
    if plan.entry is None:
        return BatchCommit((*moved, *along), None)
    ids = _IdChanges.of(plan, reads, sets_ids=sets_ids)
    guards = _guard_ops({*plan.drops, *(part.partition_id for part in ids.moved.values())}, reads)
    needed = [*moved, *_lock_ops(plan, reads), *ids.required(table), *guards, *_command_ops(plan, table, reads), *along]
    with_leftovers = replace(plan.entry, has_leftovers=True)
    room = limit_bytes - sum(map(operation_bytes, [_logged(table, with_leftovers), *needed]))
    deletes, is_all = ids.fitting_deletes(table, room)
    entry = plan.entry if is_all else with_leftovers
    return BatchCommit((_logged(table, entry), *needed, *deletes), entry)


def _logged(table: TablePaths, entry: LogEntry) -> Create:
    return Create(table.log_prefix, entry.to_bytes(), sequential=True)


def _guard_ops(partition_ids: Collection[str], reads: TargetReads) -> list[Op]:
    """Returns the operations that move the guards: whoever looked at their ids before deletes none of them."""
    nodes = [reads.guards[partition_id] for partition_id in sorted(partition_ids)]
    return [SetData(node.path, b"", version) for node, version in nodes]


def _lock_ops(plan: BatchPlan, reads: TargetReads) -> Iterator[Op]:
    """Yields the deletions of the batch's own locks, and of those that its commands give up."""
    own = {(lock.partition_id, lock.number) for lock in reads.locks}
    yield from (Delete(lock.path) for lock in reads.locks)
    for partition_id, below in plan.commands.items():
        node, _ = reads.guards[partition_id]
        for number in reads.committing.get(partition_id, ()):
            if number < below and (partition_id, number) not in own:
                yield Delete(node.lock(number))


def _command_ops(plan: BatchPlan, table: TablePaths, reads: TargetReads) -> Iterator[Op]:
    if plan.drops:
        yield SetData(table.log, b"")
    if not plan.mutations:
        return
    entry = plan.entry
    assert entry is not None
    mark = CutMark.of(entry)
    for mutation in plan.mutations:  # of the partitions that it had at its origin, not of those that are here
        content = MutationEntry(
            "", entry.create_time, entry.source_replica, mutation.text, dict(mutation.numbers), reads.metadata_version
        )
        marked = content if mark is None else mark.put_into(content)
        yield Create(table.mutation_prefix, marked.to_bytes(), sequential=True)
    yield SetData(table.mutations, b"", reads.mutations_version)
    yield Check(table.columns, reads.columns_version)


@dataclass(frozen=True, slots=True)
class _IdChanges:
    """The ids that the batch creates, sets to another part, and deletes."""

    created: Mapping[str, PartName]
    moved: Mapping[str, PartName]
    deleted: Mapping[str, PartName]

    @classmethod
    def of(cls, plan: BatchPlan, reads: TargetReads, *, sets_ids: bool) -> _IdChanges:
        """Compares the batch's ids with the existing ones."""
        wanted = plan.block_ids if sets_ids else {}
        return cls(
            {id_: part for id_, part in wanted.items() if id_ not in reads.block_ids},
            {id_: part for id_, part in wanted.items() if id_ in reads.block_ids},
            {
                id_: part
                for id_, part in reads.block_ids.items()
                if id_ not in wanted and part.max_block < plan.drops.get(part.partition_id, 0)
            },
        )

    def required(self, table: TablePaths) -> Iterator[Op]:
        """Yields the operations that the multi must have."""
        for id_, part in self.created.items():
            yield Create(table.block(id_), BlockNode(str(part)).to_bytes())
        for id_, part in self.moved.items():
            yield SetData(table.block(id_), BlockNode(str(part)).to_bytes())

    def fitting_deletes(self, table: TablePaths, room_bytes: int) -> tuple[list[Op], bool]:
        """Returns the deletions that fit, and whether these are all."""
        fitting: list[Op] = []
        for id_ in self.deleted:
            op = Delete(table.block(id_))
            room_bytes -= operation_bytes(op)
            if room_bytes < 0:
                return fitting, False
            fitting.append(op)
        return fitting, True
