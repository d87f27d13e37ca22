"""DROP PARTITION and TRUNCATE: remove all blocks that have a number by now, keep all later ones.

The drop takes a block number n and logs DROP_RANGE of 0 … n-1. In the same multi it:

- changes the log's version, so that a merge chosen before the drop is not assigned after it;
- deletes the locks of running inserts below n: they find their lock deleted and take a number above n;
- forgets the last confirmed part of the partition (a sequential read must not wait for it);
- marks quorums that wait for parts in the range as failed: a waiter must not wait for ever;
- deletes the block ids of the dropped parts, so that the same rows can be inserted again;
- records the largest number it drops (``dropped_blocks``).

The multi contains as many quorums and block ids as a request to ZooKeeper holds. If some are left over, the entry says
so, and every replica clears them when it executes the drop, before the rows disappear there
(:func:`clear_drop_leftovers`). They are never cleared before the drop is logged, or rows that stay would be stored
twice. If a replica is interrupted, another one continues.

n's own lock keeps merges from reaching over n until the drop is in the log. TRUNCATE logs the drops of several
partitions at once, so that they share the reads of the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from coordination.inserts.block_ids import delete_block_ids, select_block_ids_of_partitions
from coordination.inserts.block_numbers import BlockLock, allocate_blocks, read_committing_numbers
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.partition_nodes import (
    PartitionNode,
    find_partition_node,
    partition_node_of_lock,
    read_partition_nodes,
)
from coordination.inserts.quorum import (
    QuorumStatus,
    forget_dropped_parts_ops,
    is_transaction_quorum,
    read_pending_quorums,
)
from coordination.inserts.quorum_failure import mark_part_failed_ops
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    RequestTooLarge,
    SetData,
    Stat,
)
from coordination.keeper.request_limits import MAX_MULTI_BYTES, operation_bytes, split_into_chunks
from coordination.log.log_entry import EntryType, LogEntry, drop_range_name
from coordination.nodes.gate import CommitKind
from coordination.nodes.paths import TablePaths, parse_sequence_number
from coordination.nodes.table_gate import TableGate
from coordination.reads.dropped_blocks import record_drop_ops
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName

LastBlocks = Callable[[Sequence[PartName]], Sequence[int | None]]
"""Returns for each dropped range the largest committed number, ``None`` if there is no block to drop. Called after the
numbers being committed were read: the drop gives those up, or it is tried again."""
_ATTEMPTS = 20
_TOGETHER = 32
"""Partitions whose drops TRUNCATE logs at once."""
_ATTEMPTS_TOGETHER = 3
"""Attempts of TRUNCATE before it drops the partitions one by one."""


def _all_of(ranges: Sequence[PartName]) -> Sequence[int | None]:
    return [gone.max_block for gone in ranges]


def drop_partition(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    partition_id: str,
    *,
    gate: TableGate,
    detach: bool = False,
    clock: Callable[[], float],
    last_blocks: LastBlocks = _all_of,
) -> int | None:
    """Logs the drop of every block of the partition so far. Returns the log index.

    Returns ``None`` if the partition never had a block number. Blocks may have lower numbers than the partition's node
    gives: a restored or converted table brings its parts along.
    """
    found = find_partition_node(keeper, table, partition_id)
    if found is None:
        return None
    try:
        indices = _drop_together(keeper, table, replica_name, gate, [found[0]], detach, clock, last_blocks)
    except MultiFailed as error:
        if not isinstance(error.cause, NoNode):
            raise
        return None  # it has just been forgotten
    return indices[0] if indices else None


def drop_all_partitions(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    *,
    gate: TableGate,
    detach: bool = False,
    clock: Callable[[], float],
    last_blocks: LastBlocks = _all_of,
) -> list[int]:
    """Logs the drops of all partitions (TRUNCATE TABLE). Returns the log indices.

    A failure after the first raises 341 (UNFINISHED).
    """
    indices: list[int] = []

    def drop_singly(nodes: Sequence[PartitionNode]) -> None:
        """Drops the partitions one by one."""
        for node in nodes:
            index = drop_partition(
                keeper, table, replica_name, node.partition_id,
                gate=gate, detach=detach, clock=clock, last_blocks=last_blocks,
            )  # fmt: skip
            indices.extend([index] if index is not None else [])

    for run in split_into_chunks(list(read_partition_nodes(keeper, table).values()), _TOGETHER):
        try:
            try:
                indices += _drop_together(keeper, table, replica_name, gate, run, detach, clock, last_blocks)
            except (ConflictError, RequestTooLarge):
                drop_singly(run)
        except (UnavailableError, ConflictError) as error:
            if not indices:
                raise
            names = ", ".join(node.partition_id for node in run)
            text = f"Other partitions are dropped, and of partitions {names} not all: {error}"
            raise UnknownOutcomeError("UNFINISHED", text) from error
    return indices


def _drop_together(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    gate: TableGate,
    nodes: Sequence[PartitionNode],
    detach: bool,
    clock: Callable[[], float],
    last_blocks: LastBlocks,
) -> list[int]:
    """Drops all of these partitions or none. Raises ``ConflictError`` if inserts or others get ahead."""
    taken: list[BlockLock] = []
    try:
        allocate_blocks(keeper, table, nodes, replica_name, taken)
        locks = [lock for lock in taken if lock.number > 0]  # none has blocks before 0
        indices = _log_drops(keeper, table, replica_name, gate, locks, detach, clock, last_blocks) if locks else []
        taken = [lock for lock in taken if lock not in locks]
        return indices
    finally:  # a multi that may still be on its way fails then
        for lock in taken:
            release_block_number_if_possible(keeper, lock)


def _log_drops(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    gate: TableGate,
    locks: Sequence[BlockLock],
    detach: bool,
    clock: Callable[[], float],
    last_blocks: LastBlocks,
) -> list[int]:
    """Logs the drops and returns the log indices, one for each lock."""
    ranges = [drop_range_name(lock.partition_id, lock.number) for lock in locks]
    entries = [LogEntry(EntryType.DROP_RANGE, gone, clock(), replica_name, detach=detach) for gone in ranges]
    for _ in range(_ATTEMPTS if len(locks) == 1 else _ATTEMPTS_TOGETHER):
        try:
            checks = gate.checks(keeper, CommitKind.OTHER)
            results = keeper.multi([*_drop_ops(keeper, table, locks, entries, last_blocks), *checks])
            return [parse_sequence_number(str(path)) for path in results[: len(locks)]]
        except MultiFailed as error:
            if gate.has_moved(keeper, error):
                continue
            if any(error.op.path == lock.path for lock in locks):
                raise UnavailableError(
                    "TABLE_IS_READ_ONLY", "The ZooKeeper session ended during the DROP; nothing was dropped, retry"
                ) from error
            if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
                raise error.cause from error
        except KeeperConnectionLoss:
            first = find_logged_entry(keeper, table, entries[0])
            if first is not None:  # then all are, one behind the other
                return list(range(first, first + len(entries)))
    raise ConflictError("KEEPER_EXCEPTION", f"Could not log the drop of {ranges[0]}: inserts keep getting ahead; retry")


@dataclass(frozen=True, slots=True)
class DropPlan:
    """The operations of the multi that drops some ranges, besides its log entries.

    All of ``required_ops`` are needed; of the groups of ``optional_ops`` as many as fit.
    """

    ranges: tuple[PartName, ...]
    required_ops: tuple[Op, ...]
    optional_ops: tuple[list[Op], ...]

    def ops(self, limit_bytes: int) -> tuple[list[Op], bool]:
        """Returns the operations within ``limit_bytes``, and whether something is left over.

        ``required_ops`` are included even if they take more.
        """
        fitting, is_all = _select_fitting(self.optional_ops, limit_bytes - sum(map(operation_bytes, self.required_ops)))
        return [*self.required_ops, *fitting], not is_all


def plan_drop(keeper: Keeper, table: TablePaths, locks: Sequence[BlockLock], last_blocks: LastBlocks) -> DropPlan:
    """Plans the drop of every block below each of the locks. The locks are deleted in the same multi."""
    ranges = tuple(drop_range_name(lock.partition_id, lock.number) for lock in locks)
    # Locks are read before ids: an insert that commits in between has deleted its lock, so the multi fails.
    numbers = read_committing_numbers(keeper, table, [lock.partition_id for lock in locks])
    ids = select_block_ids_of_partitions(keeper, table, {gone.partition_id: gone.covers for gone in ranges})
    lasts = zip(ranges, last_blocks(ranges), strict=True)
    must: list[Op] = [Delete(lock.path) for lock in locks]
    must.append(SetData(table.log, b""))
    for lock in locks:
        node = partition_node_of_lock(table, lock.path)
        must.append(ids[lock.partition_id].guard_op)
        must += [Delete(node.lock(n)) for n in numbers[lock.partition_id] if n < lock.number]
    must += record_drop_ops(keeper, table, {gone.partition_id: last for gone, last in lasts if last is not None})
    must += forget_dropped_parts_ops(keeper, table, *ranges)
    quorums = list_quorum_ops(keeper, table, ranges)
    singles: list[list[Op]] = [[op] for judged in ids.values() for op in judged.deletes]
    return DropPlan(ranges, tuple(must), (*quorums, *singles))


def list_quorum_ops(keeper: Keeper, table: TablePaths, ranges: Sequence[PartName]) -> list[list[Op]]:
    """Returns for each pending quorum in the ranges the operations that mark it as failed.

    The version of the log, which the drop changes anyway, is left out.
    """
    return [
        [op for op in mark_part_failed_ops(keeper, table, status, path, stat.version) if op.path != table.log]
        for status, stat, path in _pending(keeper, table, ranges)
    ]


def _drop_ops(
    keeper: Keeper, table: TablePaths, locks: Sequence[BlockLock], entries: Sequence[LogEntry], last_blocks: LastBlocks
) -> list[Op]:
    room = MAX_MULTI_BYTES - sum(operation_bytes(op) for op in _logged(table, entries, has_leftovers=True))
    ops, has_leftovers = plan_drop(keeper, table, locks, last_blocks).ops(room)
    return [*_logged(table, entries, has_leftovers=has_leftovers), *ops]


def _logged(table: TablePaths, entries: Sequence[LogEntry], *, has_leftovers: bool) -> list[Op]:
    marked = [replace(entry, has_leftovers=has_leftovers) for entry in entries]
    return [Create(table.log_prefix, entry.to_bytes(), sequential=True) for entry in marked]


def _select_fitting(groups: Sequence[list[Op]], limit_bytes: int) -> tuple[list[Op], bool]:
    """Returns the first groups that fit together, and whether these are all."""
    fitting: list[Op] = []
    for group in groups:
        limit_bytes -= sum(map(operation_bytes, group))
        if limit_bytes < 0:
            return fitting, False
        fitting += group
    return fitting, True


def _pending(keeper: Keeper, table: TablePaths, ranges: Sequence[PartName]) -> list[tuple[QuorumStatus, Stat, str]]:
    """Returns the pending quorums of single parts in the ranges.

    ``forget_dropped_parts_ops`` handles those of transactions.
    """
    return [
        (status, stat, path)
        for status, stat, path in read_pending_quorums(keeper, table)
        if not is_transaction_quorum(table, status, path)
        and any(gone.covers(PartName.parse(status.part)) for gone in ranges)
    ]


def clear_drop_leftovers(keeper: Keeper, table: TablePaths, gone: PartName) -> None:
    """Clears the quorums and block ids that did not fit into the multi of the drop.

    Called by a replica that executes a drop whose entry ``has_leftovers``. Repeatable; several replicas may do it at a
    time.
    """
    for status, stat, path in _pending(keeper, table, [gone]):
        try:
            keeper.multi(mark_part_failed_ops(keeper, table, status, path, stat.version))
        except MultiFailed as error:  # somebody else has just resolved it
            if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
                raise error.cause from error
    delete_block_ids(keeper, table, gone.partition_id, gone.covers)


def find_logged_entry(keeper: Keeper, table: TablePaths, entry: LogEntry) -> int | None:
    """Returns the index of our entry after a lost answer; ``None`` if it was not logged.

    Raises 341 (UNFINISHED) if ZooKeeper cannot be asked.
    """
    ours = {replace(entry, has_leftovers=has_leftovers).to_bytes() for has_leftovers in (False, True)}
    try:
        keeper.sync(table.log)
        names = keeper.children(table.log)
        answers = keeper.get_many([f"{table.log}/{name}" for name in names])
    except UnavailableError as error:
        text = f"It is not known whether {entry.type.value} {entry.new_part} was logged: {error}"
        raise UnknownOutcomeError("UNFINISHED", text) from error
    for name, answer in zip(names, answers, strict=True):
        if answer is not None and answer[0] in ours:
            return parse_sequence_number(name)
    return None
