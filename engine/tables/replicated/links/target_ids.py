"""Block ids and quorums of partitions that a link's commit drops."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordination.inserts.block_views import BlockNode
from coordination.inserts.quorum import is_transaction_quorum, read_pending_quorums
from coordination.inserts.quorum_failure import mark_part_failed_ops
from coordination.keeper.interface import Keeper, Op
from coordination.nodes.paths import TablePaths
from parts.common.part_name import PartName


def read_block_ids(keeper: Keeper, table: TablePaths, partition_ids: Collection[str]) -> dict[str, PartName]:
    """Returns the ids of the partitions' blocks, with the parts as they were inserted."""
    names = keeper.children(table.blocks)
    answers = keeper.get_many([table.block(name) for name in names])
    found = {
        name: PartName.try_parse(BlockNode.parse_part_name(answer[0]))
        for name, answer in zip(names, answers, strict=True)
        if answer is not None
    }
    return {name: part for name, part in found.items() if part is not None and part.partition_id in partition_ids}


def list_quorum_failure_ops(keeper: Keeper, table: TablePaths, ranges: Sequence[PartName]) -> list[Op]:
    """Returns the operations that mark the pending quorums of single parts in the ranges as failed."""
    return [
        op
        for status, stat, path in read_pending_quorums(keeper, table)
        if not is_transaction_quorum(table, status, path)
        and any(gone.covers(PartName.parse(status.part)) for gone in ranges)
        for op in mark_part_failed_ops(keeper, table, status, path, stat.version)
        if op.path != table.log
    ]
