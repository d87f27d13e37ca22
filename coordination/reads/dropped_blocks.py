"""Record dropped and lost blocks, so that streams notice missing rows.

A stream reads a table in the order of its blocks. Without a record it could not distinguish rows that were dropped, or
lost with the disks of all replicas, from rows that never existed. ``dropped_blocks/<partition>`` holds the largest
block number ever dropped. ``lost_blocks/<part>`` names a part that was given up. Both are written in the multi that
drops or gives up. A reader that takes its snapshot of parts first, and reads these records then, learns of everything
that the snapshot may lack.

When there are many lost parts, the oldest are replaced by their last block number, as if all blocks up to it were
dropped. A reader that is not past it gets an error, as it would for the part or for the blocks before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from coordination.keeper.interface import Create, Delete, Keeper, KeeperConnectionLoss, MultiFailed, Op, SetData
from coordination.keeper.request_limits import MAX_MULTI_OPERATIONS, split_into_chunks
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists
from parts.common.part_name import PartName


def read_dropped_blocks(keeper: Keeper, table: TablePaths) -> dict[str, int]:
    """Returns the largest dropped block number by partition."""
    names = keeper.children_many([table.dropped_blocks])[0] or []
    answers = keeper.get_many([table.dropped_block(name) for name in names])
    return {name: int(answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None}


def read_lost_parts(keeper: Keeper, table: TablePaths) -> list[PartName]:
    """Lists the parts that were given up. Some of their rows may survive."""
    return [PartName.parse(name) for name in keeper.children_many([table.lost_blocks])[0] or ()]


def record_lost_part_ops(keeper: Keeper, table: TablePaths, part: PartName) -> list[Op]:
    """Returns the operations that record a lost part, for the multi that gives it up."""
    path = table.lost_block(str(part))
    if keeper.exists(path) is not None:
        return []
    create_lists(keeper, table, table.lost_blocks)
    return [Create(path)]


def record_drop_ops(keeper: Keeper, table: TablePaths, lasts: Mapping[str, int]) -> list[Op]:
    """Returns the operations that record a drop of the partitions' blocks up to these numbers.

    They belong into the multi of the drop. It fails when somebody else's record comes first.
    """
    ops: list[Op] = []
    answers = keeper.get_many([table.dropped_block(partition_id) for partition_id in lasts])
    if None in answers:
        create_lists(keeper, table, table.dropped_blocks)
    for (partition_id, last), answer in zip(lasts.items(), answers, strict=True):
        path, data = table.dropped_block(partition_id), str(last).encode()
        if answer is None:
            ops.append(Create(path, data))
        elif int(answer[0]) < last:
            ops.append(SetData(path, data, answer[1].version))
    return ops


def forget_drop_ops(keeper: Keeper, table: TablePaths, partition_id: str) -> list[Op]:
    """Returns the operations that delete the partition's records, for the multi that forgets it."""
    path = table.dropped_block(partition_id)
    stat = keeper.exists(path)
    lost = [table.lost_block(str(part)) for part in read_lost_parts(keeper, table) if part.partition_id == partition_id]
    return [*([Delete(path, stat.version)] if stat is not None else []), *map(Delete, lost)]


def clean_lost_blocks(keeper: Keeper, table: TablePaths, *, most: int) -> None:
    """Replaces the oldest of more than ``most`` lost parts by dropped blocks.

    Leaves parts that others change meanwhile to the next round.
    """
    parts = read_lost_parts(keeper, table)
    if len(parts) <= most:
        return
    paths = [table.lost_block(str(part)) for part in parts]
    stats = zip(parts, keeper.exists_many(paths), strict=True)
    oldest = sorted((stat.created_zxid, part) for part, stat in stats if stat is not None)
    by_partition: dict[str, list[PartName]] = {}
    for _, part in oldest[: len(parts) - most]:
        by_partition.setdefault(part.partition_id, []).append(part)
    for partition_id, gone in by_partition.items():
        for packet in split_into_chunks(gone, MAX_MULTI_OPERATIONS):
            ops = record_drop_ops(keeper, table, {partition_id: max(part.max_block for part in packet)})
            with contextlib.suppress(MultiFailed, KeeperConnectionLoss):
                keeper.multi([*ops, *(Delete(table.lost_block(str(part))) for part in packet)])
