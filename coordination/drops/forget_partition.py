"""FORGET PARTITION: delete the nodes of an empty partition; its block numbers are never used again.

1. a block number n is taken there, as by any INSERT;
2. no lower number is held: whatever had one is in the log by now, or will never be committed;
3. log, queues and lists of parts are read in this order, in which entries move: no replica has a part of the partition,
   or will have one of a number below n; no quorum is open there;
4. the partition's block ids are deleted, and its *guard* (``block_ids``) is read while there are none;
5. multi{n + 1 is the next number; delete the lock and the partition's node, whose version is still that of 4;
   ``block_numbers``, whose version is still that of before 1, keeps a first number above n}.

So nobody took a number since 1, and a caller that reads partitions or ids meanwhile fails afterwards. A multi cannot
check a counter, but it can take a number and delete the node that should have it.

A later INSERT creates another node, which counts from the first number (``partition_nodes``). What the old partition
left in mutations, on disks of absent replicas, and in positions of streams has lower numbers. Its record in
``dropped_blocks`` is deleted too, unless streams read the table: they must notice rows that were dropped before they
had read them.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from coordination.inserts.block_ids import delete_block_ids, select_block_ids
from coordination.inserts.block_numbers import (
    BlockLock,
    allocate_block_number,
    read_committing_numbers,
    release_block_number,
)
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.partition_nodes import (
    PartitionNode,
    find_partition_node,
    partition_node_of_lock,
    read_next_first_number,
    set_next_first_number_op,
)
from coordination.inserts.quorum import forget_dropped_parts_ops, read_pending_quorums
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
)
from coordination.log.log_entry import LogEntry, drop_range_name
from coordination.nodes.gate import CommitKind
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import ReplicaPaths, TablePaths, parse_sequence_number
from coordination.nodes.replica_activation import FEATURE_FORGET_PARTITION, require_feature
from coordination.nodes.replica_positions import ReplicaPosition, read_replica_positions
from coordination.nodes.table_gate import TableGate
from coordination.reads.dropped_blocks import forget_drop_ops
from parts.common.errors import UnknownOutcomeError, UserError
from parts.common.part_name import PartName


def forget_partition(
    keeper: Keeper,
    replica: ReplicaPaths,
    partition_id: str,
    *,
    is_streamed: bool,
    known: MutableMapping[str, PartitionNode],
    gate: TableGate | None = None,
) -> str | None:
    """Forgets the partition. Returns ``None`` when done, else what has to end first: try again.

    ``is_streamed``: whether streams may read the table. ``known``: see ``allocate_block_number``. Raises 716
    (CANNOT_FORGET_PARTITION) for an unknown partition, 48 beside replicas of an older version, 341 when the outcome is
    unknown. After a ``KeeperError`` an unused number may be left.
    """
    table = replica.table
    require_feature(keeper, table, FEATURE_FORGET_PARTITION, "FORGET PARTITION")
    if find_partition_node(keeper, table, partition_id) is None:
        raise UserError("CANNOT_FORGET_PARTITION", f"Partition {partition_id} is unknown")
    first, stat = read_next_first_number(keeper, table)
    lock = allocate_block_number(keeper, table, partition_id, owner=replica.name, known=known)
    assert isinstance(lock, BlockLock)
    node = partition_node_of_lock(table, lock.path)
    try:
        if reason := _find_obstacle(keeper, table, lock):
            return reason
        delete_block_ids(keeper, table, partition_id, lambda part: part.max_block < lock.number)
        ids = select_block_ids(keeper, table, partition_id, lambda _: True)
        if ids.deletes:
            return "blocks are being inserted"
        ops: list[Op] = [
            *_next_number_ops(node, lock.number + 1),
            Delete(lock.path),
            Delete(node.path, ids.version),
            set_next_first_number_op(table, max(first, lock.number + 1), stat.version),
            *forget_dropped_parts_ops(keeper, table, drop_range_name(partition_id, lock.number)),
            *(() if is_streamed else forget_drop_ops(keeper, table, partition_id)),
            *(gate.checks(keeper, CommitKind.OTHER) if gate is not None else ()),
        ]
        keeper.multi(ops)
        return None
    except MultiFailed as error:
        has_moved = gate is not None and gate.has_moved(keeper, error)
        if not has_moved and not isinstance(error.cause, BadVersion | NoNode | NodeExists | NotEmpty):
            raise error.cause from error
        return "others change the table"
    except KeeperConnectionLoss as error:
        return _settle(keeper, node, lock, error)
    finally:
        release_block_number_if_possible(keeper, lock)


def _next_number_ops(node: PartitionNode, number: int) -> list[Op]:
    """Returns operations that fail unless ``number`` is the next that would be given."""
    return [Create(node.lock_prefix, ephemeral=True, sequential=True), Delete(node.lock(number))]


def _settle(keeper: Keeper, node: PartitionNode, lock: BlockLock, lost: KeeperConnectionLoss) -> str | None:
    """Finds out the outcome after a lost answer.

    A multi that may still be on its way fails without the lock.
    """
    try:
        keeper.sync(node.table.root)
        release_block_number(keeper, lock)
        return "the connection to ZooKeeper broke" if keeper.exists(node.path) is not None else None
    except (KeeperError, KeeperConnectionLoss):
        raise UnknownOutcomeError(
            "UNFINISHED", f"ZooKeeper went away while partition {node.partition_id} was forgotten; repeat it ({lost})"
        ) from lost


def _find_obstacle(keeper: Keeper, table: TablePaths, lock: BlockLock) -> str:
    """Returns who has, or may get, something of the partition below the lock; "" for nobody.

    Lost replicas are ignored: they will clone another, and what they have lies below all later numbers.
    """
    partition_id = lock.partition_id
    if any(number < lock.number for number in read_committing_numbers(keeper, table, [partition_id])[partition_id]):
        return "blocks are being inserted"
    replicas = [replica for replica in read_replica_positions(keeper, table) if replica.holds_log]
    if unpulled := _not_pulled(keeper, table, partition_id, replicas):
        return f"replica {unpulled} has not read all of its log"
    queues = [table.replica(replica.name).queue for replica in replicas]
    for replica, names in zip(replicas, keeper.children_many(queues), strict=True):
        paths = [table.replica(replica.name).queue_entry(name) for name in names or ()]
        if any(partition_id in entry.partition_ids for _, entry in _entries(keeper, table, paths)):
            return f"replica {replica.name} has something in its queue"
    listings = keeper.children_many([table.replica(replica.name).parts for replica in replicas])
    for replica, names in zip(replicas, listings, strict=True):
        if any(PartName.parse(name).partition_id == partition_id for name in names or ()):
            return f"replica {replica.name} has parts"
    is_open = (
        partition_id in {part.partition_id for part in status.parts}
        for status, _, _ in read_pending_quorums(keeper, table)
    )
    return "a quorum is open" if any(is_open) else ""


def _not_pulled(keeper: Keeper, table: TablePaths, partition_id: str, replicas: Sequence[ReplicaPosition]) -> str:
    """Returns a replica that has not pulled an entry of the partition; "" for none."""
    first = min((replica.pointer for replica in replicas if replica.pointer is not None), default=0)
    paths = [f"{table.log}/{name}" for name in keeper.children(table.log) if parse_sequence_number(name) >= first]
    indices = [
        parse_sequence_number(path)
        for path, entry in _entries(keeper, table, paths)
        if partition_id in entry.partition_ids
    ]
    last = max(indices, default=-1)
    return next((replica.name for replica in replicas if (replica.pointer or 0) <= last), "")


def _entries(keeper: Keeper, table: TablePaths, paths: Sequence[str]) -> list[tuple[str, LogEntry]]:
    answers = keeper.get_many(paths)
    read = [(path, answer[0]) for path, answer in zip(paths, answers, strict=True) if answer is not None]
    return list(zip((path for path, _ in read), parse_entries(keeper, table, (data for _, data in read)), strict=True))
