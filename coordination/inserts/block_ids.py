"""The ids of inserted blocks (``blocks/<id>`` holds the name of the part as it was inserted, see ``block_views``):
who may delete them.

An id may be deleted only as the very node that was judged: one that was deleted and made anew since belongs to rows
that stay, and without it their repeat would be stored twice. So every deletion moves the version of the partition's
*guard*, and expects it as it was before the ids were judged. The guard is the partition's node
(``read_partition_nodes``): it is there before the first id, goes with the last, and neither inserts nor merges move it.
Ids are deleted by drops, failed quorums, parts that are lost, the clean-up of the deduplication window, and when the
partition is forgotten.
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
    """Block ids of one partition, and the version of its guard before they were looked at."""

    guard: str
    version: int
    deletes: tuple[Delete, ...]

    @property
    def guard_op(self) -> SetData:
        """Belongs into every multi with some of ``deletes``."""
        return SetData(self.guard, b"", self.version)


def select_block_ids(
    keeper: Keeper, table: TablePaths, partition_id: str, is_gone: Callable[[PartName], bool]
) -> GuardedBlockIds:
    """The ids of the partition's parts for which ``is_gone``. Raises ``NoNode`` if there is no such partition."""
    return judge_ids_of_many(keeper, table, {partition_id: is_gone})[partition_id]


def judge_ids_of_many(
    keeper: Keeper, table: TablePaths, is_gone: Mapping[str, Callable[[PartName], bool]]
) -> dict[str, GuardedBlockIds]:
    """As :func:`select_block_ids`, of several partitions with one list of the ids. An id begins with its partition, so
    only those of these partitions are read."""
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


def _may_be_of(block_id: str, partition_ids: Container[str]) -> bool:
    """A block's id is that of its partition, in which there is no underscore, then one, then a hash or a token. Of an
    id of another form nothing is known."""
    partition_id, underscore, _ = block_id.partition("_")
    return not underscore or partition_id in partition_ids


def delete_block_ids(
    keeper: Keeper,
    table: TablePaths,
    partition_id: str,
    is_gone: Callable[[PartName], bool],
    conditions: Sequence[Op] = (),
) -> None:
    """Deletes the ids of the partition's parts for which ``is_gone``, so that their rows can be inserted again.

    Repeatable. ``conditions`` stand in every multi; raises ``MultiFailed`` when one of them does not hold. A partition
    that is forgotten has none.
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
    """Deletes ids (names with their stats when they were judged) that are still the same nodes; returns how many.

    Stops early when somebody else deletes ids too: the next round looks again.
    """
    created = {table.block(name): stat.created_zxid for name, stat in surplus}
    deleted = 0
    for packet in split_into_multis([Delete(path) for path in created], operation_bytes):
        paths = [op.path for op in packet]
        nodes = read_partition_nodes(keeper, table)
        guards = sorted({nodes[id_].path for id_ in _partition_ids(keeper, paths) if id_ in nodes})
        versions = keeper.exists_many(guards)
        # Whatever is the same node after the guards were read stays it until the guards move.
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
        (path, None, None) if answer is None else (path, PartName.try_parse(BlockNode.part_of(answer[0])), answer[1])
        for path, answer in zip(paths, answers, strict=True)
    ]
