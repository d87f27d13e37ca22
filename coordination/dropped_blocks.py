"""What DROP and TRUNCATE took away, and what was lost with the disks of all replicas, for who reads a table in the
order of its blocks: rows that are gone look like rows that never were.

``dropped_blocks/<partition>`` holds the largest block number that was ever dropped, ``lost_blocks/<part>`` names a part
that was given up. Both are written in the multi that does it: who takes a snapshot of parts first and reads this then
learns of all that the snapshot may lack.
"""

from __future__ import annotations

from coordination.keeper import Create, Delete, Keeper, Op, SetData
from coordination.paths import TablePaths
from parts.part_name import PartName


def dropped_blocks(keeper: Keeper, table: TablePaths) -> dict[str, int]:
    """Partition → the largest number that was dropped."""
    names = keeper.children_many([table.dropped_blocks])[0] or []
    answers = keeper.get_many([table.dropped_block(name) for name in names])
    return {name: int(answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None}


def lost_blocks(keeper: Keeper, table: TablePaths) -> list[PartName]:
    """The parts that were given up; perhaps there is something left of them."""
    return [PartName.parse(name) for name in keeper.children_many([table.lost_blocks])[0] or ()]


def loss_ops(keeper: Keeper, table: TablePaths, part: PartName) -> list[Op]:
    """For the multi that gives the part up."""
    path = table.lost_block(str(part))
    if keeper.exists(path) is not None:
        return []
    keeper.create_parents(table.lost_blocks)
    return [Create(path)]


def drop_ops(keeper: Keeper, table: TablePaths, partition_id: str, last: int) -> list[Op]:
    """For the multi that drops the partition's blocks up to ``last``; it fails when somebody else's comes first."""
    path, data = table.dropped_block(partition_id), str(last).encode()
    answer = keeper.get_many([path])[0]
    if answer is None:
        keeper.create_parents(table.dropped_blocks)
        return [Create(path, data)]
    return [SetData(path, data, answer[1].version)] if int(answer[0]) < last else []


def forget_ops(keeper: Keeper, table: TablePaths, partition_id: str) -> list[Op]:
    """For the multi that forgets the partition."""
    path = table.dropped_block(partition_id)
    stat = keeper.exists(path)
    return [Delete(path, stat.version)] if stat is not None else []
