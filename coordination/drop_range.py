"""DROP PARTITION and TRUNCATE: everything that has a block number by now goes, everything later stays.

The drop takes a block number n and logs DROP_RANGE of 0 … n-1. In the same multi it

- moves the log's version, so that a merge chosen before the drop is not assigned after it,
- deletes the locks of inserts in flight below n: they find their lock gone and take a number above n,
- forgets the last confirmed part of the partition (a sequential read must not wait for it),
- resolves quorums that wait for parts in the range, as failed: a waiter must not wait for ever,
- deletes the block ids of the parts it drops, so that the same rows can be inserted again,
- remembers the largest number that it takes away (``dropped_blocks``).

Of quorums and block ids as many as a request to ZooKeeper holds. If more are left the entry says so, and every replica
clears them when it executes the drop, before the rows disappear there (:func:`clear_leftovers`): never before the drop
is logged, or rows that stay would be stored twice; and whoever is interrupted, another goes on.

n's own lock keeps merges from reaching over n until the drop is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from coordination.block_ids import free_block_ids, judge_block_ids
from coordination.block_numbers import BlockLock, allocate_block, committing_blocks, partitions
from coordination.dropped_blocks import drop_ops
from coordination.insert_commit import release_quietly
from coordination.keeper import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
    Stat,
)
from coordination.log_entry import EntryType, LogEntry, drop_range
from coordination.packets import MAX_BYTES, op_bytes
from coordination.partition_nodes import find_partition, node_of_lock
from coordination.paths import TablePaths, sequence_number
from coordination.quorum import QuorumStatus, forget_confirmed_ops, is_of_transaction, pending_parts
from coordination.quorum_failure import marking_ops
from parts.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.part_name import PartName

LastBlock = Callable[[str, int], int | None]
"""Of a partition the largest number below this one that was committed, ``None`` if there is no block to drop. Asked
when the numbers being committed have been read: those are given up by the drop, or it is tried again."""
_ATTEMPTS = 20


def drop_partition(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    partition_id: str,
    *,
    detach: bool = False,
    clock: Callable[[], float],
    last_block: LastBlock = lambda _, number: number - 1,
) -> int | None:
    """Logs the drop of every block of the partition so far. Returns the log index, ``None`` if it never had one."""
    if find_partition(keeper, table, partition_id) is None:
        return None
    lock = allocate_block(keeper, table, partition_id, owner=replica_name)
    assert isinstance(lock, BlockLock)
    if lock.number == node_of_lock(table, lock.path).first:
        release_quietly(keeper, lock)
        return None
    try:
        return _log_drop(keeper, table, replica_name, lock, detach, clock, last_block)
    finally:
        release_quietly(keeper, lock)


def drop_all_partitions(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    *,
    detach: bool = False,
    clock: Callable[[], float],
    last_block: LastBlock = lambda _, number: number - 1,
) -> list[int]:
    """TRUNCATE TABLE. Returns the log indices. What fails behind the first raises 341 (UNFINISHED)."""
    indices: list[int] = []
    for partition_id in partitions(keeper, table):
        try:
            index = drop_partition(
                keeper, table, replica_name, partition_id, detach=detach, clock=clock, last_block=last_block
            )
        except (UnavailableError, ConflictError) as error:
            if not indices:
                raise
            text = f"Other partitions are dropped, and partition {partition_id} not yet: {error}"
            raise UnknownOutcomeError("UNFINISHED", text) from error
        indices += [index] if index is not None else []
    return indices


def _log_drop(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    lock: BlockLock,
    detach: bool,
    clock: Callable[[], float],
    last_block: LastBlock,
) -> int:
    gone = drop_range(lock.partition_id, lock.number)
    entry = LogEntry(EntryType.DROP_RANGE, gone, clock(), replica_name, detach=detach)
    for _ in range(_ATTEMPTS):
        try:
            ops = _drop_ops(keeper, table, lock, entry, last_block)
            return sequence_number(str(keeper.multi(ops)[0]))
        except MultiFailed as error:
            if error.op.path == lock.path:
                raise UnavailableError(
                    "TABLE_IS_READ_ONLY", "The ZooKeeper session ended during the DROP; nothing was dropped, retry"
                ) from error
            if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
                raise error.cause from error
        except KeeperConnectionLoss:
            index = find_logged(keeper, table, entry)
            if index is not None:
                return index
    raise ConflictError("KEEPER_EXCEPTION", f"Could not log the drop of {gone}: inserts keep getting ahead; retry")


@dataclass(frozen=True, slots=True)
class RangeDrop:
    """What the multi that drops some ranges does beside logging them: all of ``must``, and of the groups of ``rest`` as
    many as fit."""

    ranges: tuple[PartName, ...]
    must: tuple[Op, ...]
    rest: tuple[list[Op], ...]

    def ops(self, limit_bytes: int) -> tuple[list[Op], bool]:
        """The operations, in ``limit_bytes`` unless ``must`` takes more; whether something is left over."""
        fitting, is_all = _fit(self.rest, limit_bytes - sum(map(op_bytes, self.must)))
        return [*self.must, *fitting], not is_all


def plan_drop(keeper: Keeper, table: TablePaths, locks: Sequence[BlockLock], last_block: LastBlock) -> RangeDrop:
    """Of every block below each of the locks, which go in the same multi."""
    ranges = tuple(drop_range(lock.partition_id, lock.number) for lock in locks)
    # Locks are read before ids: an insert that commits in between has deleted its lock, so the multi fails.
    numbers = committing_blocks(keeper, table, [lock.partition_id for lock in locks])
    ids = [judge_block_ids(keeper, table, gone.partition_id, gone.covers) for gone in ranges]
    must: list[Op] = [Delete(lock.path) for lock in locks]
    must.append(SetData(table.log, b""))
    for lock, judged in zip(locks, ids, strict=True):
        node = node_of_lock(table, lock.path)
        must.append(judged.guard_op)
        must += [Delete(node.lock(n)) for n in numbers[lock.partition_id] if n < lock.number]
        last = last_block(lock.partition_id, lock.number)
        must += drop_ops(keeper, table, lock.partition_id, last) if last is not None else ()
    must += forget_confirmed_ops(keeper, table, *ranges)
    quorums = [
        [op for op in marking_ops(keeper, table, status, path, stat.version) if op.path != table.log]
        for gone in ranges
        for status, stat, path in _pending(keeper, table, gone)
    ]
    singles: list[list[Op]] = [[op] for judged in ids for op in judged.deletes]
    return RangeDrop(ranges, tuple(must), (*quorums, *singles))


def _drop_ops(keeper: Keeper, table: TablePaths, lock: BlockLock, entry: LogEntry, last_block: LastBlock) -> list[Op]:
    ops, has_leftovers = plan_drop(keeper, table, [lock], last_block).ops(MAX_BYTES)
    logged = Create(table.log_prefix, replace(entry, has_leftovers=has_leftovers).to_bytes(), sequential=True)
    return [logged, *ops]


def _fit(groups: Sequence[list[Op]], limit_bytes: int) -> tuple[list[Op], bool]:
    """The first groups that fit together, and whether these are all."""
    fitting: list[Op] = []
    for group in groups:
        limit_bytes -= sum(map(op_bytes, group))
        if limit_bytes < 0:
            return fitting, False
        fitting += group
    return fitting, True


def _pending(keeper: Keeper, table: TablePaths, gone: PartName) -> list[tuple[QuorumStatus, Stat, str]]:
    """Of single parts: a transaction's are told by ``forget_confirmed_ops``."""
    return [
        (status, stat, path)
        for status, stat, path in pending_parts(keeper, table)
        if gone.covers(PartName.parse(status.part)) and not is_of_transaction(table, status, path)
    ]


def clear_leftovers(keeper: Keeper, table: TablePaths, gone: PartName) -> None:
    """For who executes a drop whose entry ``has_leftovers``: quorums and block ids that did not fit into its multi.

    Repeatable, and several may do it at a time.
    """
    for status, stat, path in _pending(keeper, table, gone):
        try:
            keeper.multi(marking_ops(keeper, table, status, path, stat.version))
        except MultiFailed as error:  # somebody else has just resolved it
            if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
                raise error.cause from error
    free_block_ids(keeper, table, gone.partition_id, gone.covers)


def find_logged(keeper: Keeper, table: TablePaths, entry: LogEntry) -> int | None:
    """After a lost answer: the index of our entry if it was logged. Raises 341 (UNFINISHED) if that cannot be asked."""
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
            return sequence_number(name)
    return None
