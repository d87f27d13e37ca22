"""The ids of inserted blocks, and how they are deleted safely.

``blocks/<id>`` holds the name of the part as it was inserted (see ``block_views``). An id may be deleted only if it is
still the node that was examined. A node that was deleted and made again since belongs to rows that stay, and without it
their repeated INSERT would be stored twice. So every deletion changes the version of the partition's *guard*, and
expects the version from before the ids were read.

The guard is the partition's node (``read_partition_nodes``). It exists before the first id, is removed with the last,
and neither inserts nor merges change it. Ids are deleted by drops, failed quorums, lost parts, the cleanup of the
deduplication window, and FORGET PARTITION.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from coordination.inserts.block_views import BlockNode
from coordination.inserts.partition_nodes import find_partitions, read_partition_nodes
from coordination.keeper.interface import (
    BadVersion,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NoNode,
    Op,
    SetData,
    Stat,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError
from parts.common.part_name import PartName

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class GuardedBlockIds:
    """Block ids of one partition, and the version of its guard before they were read."""

    guard: str
    version: int
    deletes: tuple[Delete, ...]

    @property
    def guard_op(self) -> SetData:
        """The operation that belongs into every multi with some of ``deletes``."""
        return SetData(self.guard, b"", self.version)


def select_block_ids(
    keeper: Keeper, table: TablePaths, partition_id: str, is_gone: Callable[[PartName], bool]
) -> GuardedBlockIds:
    """Selects the ids of the partition's parts for which ``is_gone``. Raises ``NoNode``."""
    return select_block_ids_of_partitions(keeper, table, {partition_id: is_gone})[partition_id]


def select_block_ids_of_partitions(
    keeper: Keeper, table: TablePaths, is_gone: Mapping[str, Callable[[PartName], bool]]
) -> dict[str, GuardedBlockIds]:
    """Selects ids as :func:`select_block_ids`, of several partitions with one listing of the ids.

    An id begins with its partition, so only those of these partitions are read.
    """
    found = find_partitions(keeper, table, list(is_gone))
    if missing := [partition_id for partition_id in is_gone if partition_id not in found]:
        raise NoNode("no node", table.partition(missing[0]))
    names = [name for name in keeper.children(table.blocks) if _may_be_of(name, is_gone)]
    deletes: dict[str, list[Delete]] = {partition_id: [] for partition_id in is_gone}
    for path, part, _ in _read(keeper, [table.block(name) for name in names]):
        if part is not None and part.partition_id in is_gone and is_gone[part.partition_id](part):
            deletes[part.partition_id].append(Delete(path))
    return {
        partition_id: GuardedBlockIds(found[partition_id][0].path, found[partition_id][1].version, tuple(ids))
        for partition_id, ids in deletes.items()
    }


def read_block_ids(keeper: Keeper, table: TablePaths, partition_ids: Container[str]) -> dict[str, PartName]:
    """Returns the ids of the partitions' blocks, with the parts as they were inserted."""
    names = [name for name in keeper.children(table.blocks) if _may_be_of(name, partition_ids)]
    read = zip(names, _read(keeper, [table.block(name) for name in names]), strict=True)
    return {name: part for name, (_, part, _) in read if part is not None and part.partition_id in partition_ids}


def read_block_nodes(
    keeper: Keeper, table: TablePaths, partition_ids: Container[str]
) -> list[tuple[str, PartName, Stat]]:
    """Returns the ids of the partitions' blocks, each with its part and the stat of its node."""
    names = [name for name in keeper.children(table.blocks) if _may_be_of(name, partition_ids)]
    read = zip(names, _read(keeper, [table.block(name) for name in names]), strict=True)
    return [
        (name, part, stat)
        for name, (_, part, stat) in read
        if part is not None and stat is not None and part.partition_id in partition_ids
    ]


def _may_be_of(block_id: str, partition_ids: Container[str]) -> bool:
    """Tells whether the id may belong to one of the partitions.

    An id is the partition id, which has no underscore, then one, then a hash or a token. An id without an underscore
    may belong to any partition.
    """
    partition_id, underscore, _ = block_id.partition("_")
    return not underscore or partition_id in partition_ids


def delete_block_ids(
    keeper: Keeper,
    table: TablePaths,
    partition_id: str,
    is_gone: Callable[[PartName], bool],
    conditions: Sequence[Op] = (),
) -> None:
    """Deletes the ids of the partition's parts for which ``is_gone``: their rows can be inserted again.

    Repeatable. ``conditions`` are in every multi; raises ``MultiFailed`` when one of them fails. Does nothing for a
    forgotten partition.
    """
    for _ in range(_ATTEMPTS):
        try:
            ids = select_block_ids(keeper, table, partition_id, is_gone)
        except NoNode:
            return
        version = ids.version
        try:
            for packet in split_into_multis(ids.deletes, operation_bytes):
                results = keeper.multi([SetData(ids.guard, b"", version), *packet, *conditions])
                assert isinstance(results[0], Stat)
                version = results[0].version
            return
        except KeeperConnectionLoss:
            continue
        except MultiFailed as error:
            if error.index > len(packet) or not isinstance(error.cause, BadVersion | NoNode):
                raise
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep deleting block ids of partition {partition_id}; retry")


def delete_unchanged_ids(keeper: Keeper, table: TablePaths, surplus: Sequence[tuple[str, Stat]]) -> int:
    """Deletes those ids that are still the same nodes. Returns how many.

    ``surplus``: names with their stats when they were examined. Stops early when others delete ids at the same time:
    the next round tries again.
    """
    created = {table.block(name): stat.created_zxid for name, stat in surplus}
    deleted = 0
    for packet in split_into_multis([Delete(path) for path in created], operation_bytes):
        paths = [op.path for op in packet]
        nodes = read_partition_nodes(keeper, table)
        guards = sorted({nodes[id_].path for id_ in _partition_ids(keeper, paths) if id_ in nodes})
        versions = keeper.exists_many(guards)
        # A node that is unchanged after the guards were read stays the same until a guard's version changes.
        same = [
            Delete(path)
            for path, part, stat in _read(keeper, paths)
            if part is not None and stat is not None and stat.created_zxid == created[path]
        ]
        moves = [SetData(g, b"", stat.version) for g, stat in zip(guards, versions, strict=True) if stat is not None]
        try:
            keeper.multi([*moves, *same] if same else [])
        except (MultiFailed, KeeperConnectionLoss):
            break
        deleted += len(same)
    return deleted


def _partition_ids(keeper: Keeper, paths: Sequence[str]) -> set[str]:
    return {part.partition_id for _, part, _ in _read(keeper, paths) if part is not None}


def _read(keeper: Keeper, paths: Sequence[str]) -> list[tuple[str, PartName | None, Stat | None]]:
    answers = keeper.get_many(paths)
    return [
        (path, None, None)
        if answer is None
        else (path, PartName.try_parse(BlockNode.parse_part_name(answer[0])), answer[1])
        for path, answer in zip(paths, answers, strict=True)
    ]
