"""Block numbers, which order the inserts of a partition.

A number is the sequence number of an ephemeral node ``block_numbers/<partition>/block-N``, the *block lock*. The lock's
removal and the block's log entry are one multi. So while a lock exists its block may still be committed, and merges do
not reach over it. Once the lock is gone the block will never be committed: deleting a lock fences its insert. Gaps are
normal: sessions end, inserts fail.

The first number of a partition is 0, or that of its node (``read_partition_nodes``). A counter must never give numbers
of surviving parts, of a table that was dropped and created again or of attached data: ``minimum`` moves it past them.

A lock holds ``<owner>/<kind>``: the replica that took it, and whether a block or a command will be committed with it.
Replicas of older versions write the owner alone, and release no number of another content than their name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum

from coordination.inserts.block_views import NOTHING_MISSING, BlockNode, MissingViews
from coordination.inserts.partition_nodes import (
    PartitionNode,
    create_partition_node,
    partition_node_of_lock,
    read_partition_nodes,
)
from coordination.keeper.interface import (
    Create,
    Delete,
    Keeper,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    check_not_exists,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, UnavailableError

_ATTEMPTS = 10
_SKIPS_IN_ONE_MULTI = 500


class LockKind(Enum):
    """The purpose for which a block number was taken."""

    BLOCK = "block"
    COMMAND = "command"


def _lock_content(owner: str, kind: LockKind) -> bytes:
    return f"{owner}/{kind.value}".encode()


def _parse_lock(content: bytes) -> tuple[str, LockKind | None]:
    """Returns the owner and the kind; ``None`` if the owner did not say. No replica's name has a slash."""
    owner, _, kind = content.decode(errors="replace").partition("/")
    return owner, next((each for each in LockKind if each.value == kind), None)


@dataclass(frozen=True, slots=True)
class BlockLock:
    """A block number, or ``count`` of them, taken and not yet used. The lock ends with ``session_id``."""

    path: str
    partition_id: str
    number: int
    session_id: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class DuplicateBlock:
    """A known block id. ``part`` is the inserted part that holds the rows, perhaps merged since."""

    block_id: str
    part: str
    missing: MissingViews = NOTHING_MISSING


def allocate_block_number(
    keeper: Keeper,
    table: TablePaths,
    partition_id: str,
    block_id: str = "",
    *,
    owner: str = "",
    kind: LockKind = LockKind.COMMAND,
    minimum: int = 0,
    count: int = 1,
    known: MutableMapping[str, PartitionNode] | None = None,
) -> BlockLock | DuplicateBlock:
    """Takes the next block number, unless ``block_id`` (not "") was inserted before. Usually one request.

    ``owner`` (the replica) and ``kind`` are written into the lock. A lost answer leaves at most an unused number,
    which the session's end frees: the caller may simply try again. ``count`` consecutive numbers share one lock, that
    of the first; later numbers are above the last. ``known`` caches the nodes of partitions whose node has another name
    than the partition.
    """
    node = (known or {}).get(partition_id) or PartitionNode(table, partition_id)
    for _ in range(_ATTEMPTS):
        session = keeper.session_id
        ops: list[Op] = list(check_not_exists(table.block(block_id))) if block_id else []
        lock_op = Create(node.lock_prefix, _lock_content(owner, kind), ephemeral=True, sequential=True)
        try:
            path = keeper.multi([*ops, lock_op, *_skip_ops(node, count - 1)])[len(ops)]
        except MultiFailed as error:
            if error.op is not lock_op and isinstance(error.cause, NodeExists):
                duplicate = _duplicate(keeper, table, block_id)
                if duplicate is not None:
                    return duplicate
            elif error.op is lock_op and isinstance(error.cause, NoNode):
                node = create_partition_node(keeper, table, partition_id)
                if node.first and known is not None:
                    known[partition_id] = node
            elif isinstance(error.cause, NoNode):
                raise UnavailableError("TABLE_IS_DROPPED", f"The table is not in ZooKeeper: {table.root}") from error
            else:
                raise error.cause from error
            continue
        assert isinstance(path, str)
        lock = BlockLock(path, partition_id, node.number(path), session, count)
        if lock.number >= minimum:
            return lock
        _advance_counter(keeper, node, lock, minimum)
    raise ConflictError(
        "KEEPER_EXCEPTION", f"Could not take a block number in partition {partition_id} of {table.root}"
    )


def allocate_blocks(
    keeper: Keeper, table: TablePaths, nodes: Sequence[PartitionNode], owner: str, locks: list[BlockLock]
) -> None:
    """Takes a command's number in each partition and appends it to ``locks``, a few hundred per request.

    Raises ``MultiFailed`` with ``NoNode`` when a partition was forgotten: ``locks`` then has the numbers taken before.
    """
    session = keeper.session_id
    content = _lock_content(owner, LockKind.COMMAND)
    creates: list[Op] = [Create(node.lock_prefix, content, ephemeral=True, sequential=True) for node in nodes]
    for packet in split_into_multis(creates, operation_bytes):
        for path in map(str, keeper.multi(packet)):
            node = partition_node_of_lock(table, path)
            locks.append(BlockLock(path, node.partition_id, node.number(path), session))


def _duplicate(keeper: Keeper, table: TablePaths, block_id: str) -> DuplicateBlock | None:
    """Returns the duplicate, or ``None`` if the id was deleted meanwhile: then the block is new."""
    try:
        data, _ = keeper.get(table.block(block_id))
    except NoNode:
        return None
    node = BlockNode.parse(data)
    return DuplicateBlock(block_id, node.part, node.missing)


def _advance_counter(keeper: Keeper, node: PartitionNode, lock: BlockLock, minimum: int) -> None:
    """Skips numbers.

    Every create below the partition's node moves its counter, so it creates and deletes a name.
    """
    left = minimum - lock.number - 1
    first: list[Op] = [Delete(lock.path)]
    while first or left > 0:
        count = min(left, _SKIPS_IN_ONE_MULTI)
        keeper.multi([*first, *_skip_ops(node, count)])
        first, left = [], left - count


def _skip_ops(node: PartitionNode, count: int) -> list[Op]:
    skip = f"{node.path}/skip"
    return [op for _ in range(count) for op in (Create(skip), Delete(skip))]


def release_block_number(keeper: Keeper, lock: BlockLock) -> bool:
    """Gives up an unused number. Returns ``True`` if the lock existed: its block will never be committed."""
    return delete_if_present(keeper, lock.path)


def release_orphaned_numbers(keeper: Keeper, table: TablePaths, owner: str) -> int:
    """Gives up every number that ``owner`` took and did not use. Returns how many.

    Call it while no INSERT and no DROP of the owner is running. Requests that former sessions sent and ZooKeeper has
    not carried out yet fail from now on, so merges need not wait for those sessions to end.
    """
    listed = _locks(keeper, list(read_partition_nodes(keeper, table).values()))
    paths = [f"{node.path}/{name}" for node, names in listed.items() for name in names]
    orphans = [
        path
        for path, answer in zip(paths, keeper.get_many(paths), strict=True)
        if answer is not None and _parse_lock(answer[0])[0] == owner
    ]
    for path in orphans:
        delete_if_present(keeper, path)
    return len(orphans)


def _locks(keeper: Keeper, nodes: list[PartitionNode]) -> dict[PartitionNode, list[str]]:
    """Lists the locks of the nodes that exist."""
    listings = keeper.children_many([node.path for node in nodes])
    return {
        node: [name for name in names if name.startswith("block-")]
        for node, names in zip(nodes, listings, strict=True)
        if names is not None
    }


def list_partition_ids(keeper: Keeper, table: TablePaths) -> list[str]:
    """Lists every partition that ever had an insert and is not forgotten."""
    return list(read_partition_nodes(keeper, table))


def read_committing_numbers(keeper: Keeper, table: TablePaths, partition_ids: list[str]) -> dict[str, list[int]]:
    """Returns for each partition the sorted block numbers taken and not yet committed or given up.

    A partition that is forgotten meanwhile has none: it was empty, and later numbers are higher.
    """
    listed = _locks(keeper, [PartitionNode(table, partition_id) for partition_id in partition_ids])
    if len(listed) < len(partition_ids):
        known, found = read_partition_nodes(keeper, table), {node.partition_id for node in listed}
        listed |= _locks(keeper, [known[id_] for id_ in partition_ids if id_ in known and id_ not in found])
    locks = {node.partition_id: sorted(map(node.number, names)) for node, names in listed.items()}
    return {partition_id: locks.get(partition_id, []) for partition_id in partition_ids}


def read_lock_kinds(
    keeper: Keeper, table: TablePaths, committing: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], LockKind | None]:
    """Returns what the numbers are for, of those (partition → numbers) that are still being committed.

    ``None``: the owner did not say.
    """
    named = sorted(partition_id for partition_id, numbers in committing.items() if numbers)
    known = read_partition_nodes(keeper, table) if named else {}
    wanted = [(known[p], number) for p in named if p in known for number in sorted(committing[p])]
    answers = keeper.get_many([node.lock(number) for node, number in wanted])
    return {
        (node.partition_id, number): _parse_lock(answer[0])[1]
        for (node, number), answer in zip(wanted, answers, strict=True)
        if answer is not None
    }
