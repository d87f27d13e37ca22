"""DROP PARTITION and TRUNCATE: everything that has a block number by now goes, everything later stays.

The drop takes a block number n and logs DROP_RANGE of 0 … n-1. In the same multi it

- moves the log's version, so that a merge chosen before the drop is not assigned after it,
- deletes the locks of inserts in flight below n: they find their lock gone and take a number above n,
- deletes the block ids of the parts it drops, so that the same rows can be inserted again,
- forgets the last confirmed part of the partition (a sequential read must not wait for it),
- resolves quorums that wait for parts in the range, as failed: a waiter must not wait for ever.

n's own lock keeps merges from reaching over n until the drop is in the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from coordination.block_numbers import BlockLock, allocate_block, committing_blocks, partitions
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
)
from coordination.log_entry import EntryType, LogEntry, drop_range
from coordination.paths import TablePaths, sequence_number
from coordination.quorum import forget_confirmed_ops, pending_parts
from coordination.quorum_failure import failure_ops
from parts.errors import ConflictError, UnavailableError
from parts.part_name import PartName

_ATTEMPTS = 20
_MAX_BLOCK_IDS = 4000
"""A packet of ZooKeeper holds 1 MiB; ids beyond this many go first, in packets of their own."""


def drop_partition(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    partition_id: str,
    *,
    detach: bool = False,
    clock: Callable[[], float] = time.time,
) -> int | None:
    """Logs the drop of every block of the partition so far. Returns the log index, ``None`` if it never had one."""
    if keeper.exists(table.partition(partition_id)) is None:
        return None
    lock = allocate_block(keeper, table, partition_id, owner=replica_name)
    assert isinstance(lock, BlockLock)
    if lock.number == 0:
        release_quietly(keeper, lock)
        return None
    try:
        return _log_drop(keeper, table, replica_name, lock, detach, clock)
    finally:
        release_quietly(keeper, lock)


def drop_all_partitions(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    *,
    detach: bool = False,
    clock: Callable[[], float] = time.time,
) -> list[int]:
    """TRUNCATE TABLE. Returns the log indices."""
    indices = [
        drop_partition(keeper, table, replica_name, partition_id, detach=detach, clock=clock)
        for partition_id in partitions(keeper, table)
    ]
    return [index for index in indices if index is not None]


def _log_drop(
    keeper: Keeper, table: TablePaths, replica_name: str, lock: BlockLock, detach: bool, clock: Callable[[], float]
) -> int:
    gone = drop_range(lock.partition_id, lock.number)
    entry = LogEntry(EntryType.DROP_RANGE, gone, clock(), replica_name, detach=detach)
    for _ in range(_ATTEMPTS):
        try:
            ops = _drop_ops(keeper, table, lock, gone, entry)
            return sequence_number(str(keeper.multi(ops)[0]))
        except MultiFailed as error:
            if error.op.path == lock.path:
                raise UnavailableError(
                    "TABLE_IS_READ_ONLY", "The ZooKeeper session ended during the DROP; nothing was dropped, retry"
                ) from error
            if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
                raise error.cause from error
        except KeeperConnectionLoss:
            index = _find_logged(keeper, table, entry)
            if index is not None:
                return index
    raise ConflictError("KEEPER_EXCEPTION", f"Could not log the drop of {gone}: inserts keep getting ahead; retry")


def _drop_ops(keeper: Keeper, table: TablePaths, lock: BlockLock, gone: PartName, entry: LogEntry) -> list[Op]:
    ops: list[Op] = [
        Create(table.log_prefix, entry.to_bytes(), sequential=True),
        Delete(lock.path),
        SetData(table.log, b""),
    ]
    # Locks are read before ids: an insert that commits in between has deleted its lock, so the multi fails.
    numbers = committing_blocks(keeper, table, [lock.partition_id])[lock.partition_id]
    prefix = table.block_number_prefix(lock.partition_id)
    ops += [Delete(f"{prefix}{number:010d}") for number in numbers if number < lock.number]
    freed: set[str] = set()
    for status, stat, path in pending_parts(keeper, table):
        if gone.covers(PartName.parse(status.part)):
            resolved = failure_ops(keeper, table, status, path, stat.version)
            freed |= {op.path for op in resolved}
            ops += [op for op in resolved if op.path != table.log]
    ops += forget_confirmed_ops(keeper, table, gone)
    ids = [path for path in _block_ids(keeper, table, gone) if path not in freed]
    for start in range(_MAX_BLOCK_IDS, len(ids), _MAX_BLOCK_IDS):
        # The log's version moves, so that a cleaner does not delete an id that an INSERT makes anew after this.
        keeper.multi([SetData(table.log, b""), *(Delete(path) for path in ids[start : start + _MAX_BLOCK_IDS])])
    return ops + [Delete(path) for path in ids[:_MAX_BLOCK_IDS]]


def _block_ids(keeper: Keeper, table: TablePaths, gone: PartName) -> list[str]:
    paths = [table.block(name) for name in keeper.children(table.blocks)]
    found: list[str] = []
    for path, answer in zip(paths, keeper.get_many(paths), strict=True):
        part = PartName.try_parse(answer[0].decode()) if answer is not None else None
        if part is not None and gone.covers(part):
            found.append(path)
    return found


def _find_logged(keeper: Keeper, table: TablePaths, entry: LogEntry) -> int | None:
    """After a lost answer: the index of our entry if it was logged."""
    keeper.sync(table.log)
    names = keeper.children(table.log)
    for name, answer in zip(names, keeper.get_many([f"{table.log}/{n}" for n in names]), strict=True):
        if answer is not None and answer[0] == entry.to_bytes():
            return sequence_number(name)
    return None
