"""What DROP and TRUNCATE took away, and what was lost with the disks of all replicas, for who reads a table in the
order of its blocks: rows that are gone look like rows that never were.

``dropped_blocks/<partition>`` holds the largest block number that was ever dropped, ``lost_blocks/<part>``
names a part that was given up. Both are written in the multi that does it: who takes a snapshot of parts first and
reads this then learns of all that the snapshot may lack.

Of many lost parts the oldest are told by their last block number alone, as if all up to it were dropped: a reader that
has not come so far gets an error that it would get for the part, or for the blocks before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from coordination.keeper.interface import Create, Delete, Keeper, KeeperConnectionLoss, MultiFailed, Op, SetData
from coordination.keeper.request_limits import MAX_MULTI_OPERATIONS, split_into_chunks
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import make_lists
from parts.common.part_name import PartName


def read_dropped_blocks(keeper: Keeper, table: TablePaths) -> dict[str, int]:
    """Partition → the largest number that was dropped."""
    names = keeper.children_many([table.dropped_blocks])[0] or []
    answers = keeper.get_many([table.dropped_block(name) for name in names])
    return {name: int(answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None}


def read_lost_parts(keeper: Keeper, table: TablePaths) -> list[PartName]:
    """The parts that were given up; perhaps there is something left of them."""
    return [PartName.parse(name) for name in keeper.children_many([table.lost_blocks])[0] or ()]


def record_lost_part_ops(keeper: Keeper, table: TablePaths, part: PartName) -> list[Op]:
    """For the multi that gives the part up."""
    path = table.lost_block(str(part))
    if keeper.exists(path) is not None:
        return []
    make_lists(keeper, table, table.lost_blocks)
    return [Create(path)]


def record_drop_ops(keeper: Keeper, table: TablePaths, lasts: Mapping[str, int]) -> list[Op]:
    """For the multi that drops the partitions' blocks up to these; it fails when somebody else's comes first."""
    ops: list[Op] = []
    answers = keeper.get_many([table.dropped_block(partition_id) for partition_id in lasts])
    if None in answers:
        make_lists(keeper, table, table.dropped_blocks)
    for (partition_id, last), answer in zip(lasts.items(), answers, strict=True):
        path, data = table.dropped_block(partition_id), str(last).encode()
        if answer is None:
            ops.append(Create(path, data))
        elif int(answer[0]) < last:
            ops.append(SetData(path, data, answer[1].version))
    return ops


def forget_drop_ops(keeper: Keeper, table: TablePaths, partition_id: str) -> list[Op]:
    """For the multi that forgets the partition."""
    path = table.dropped_block(partition_id)
    stat = keeper.exists(path)
    lost = [table.lost_block(str(part)) for part in read_lost_parts(keeper, table) if part.partition_id == partition_id]
    return [*([Delete(path, stat.version)] if stat is not None else []), *map(Delete, lost)]


def clean_lost_blocks(keeper: Keeper, table: TablePaths, *, most: int) -> None:
    """Makes the oldest of more than ``most`` lost parts blocks that were dropped. What others change meanwhile is left
    to the next round."""
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
