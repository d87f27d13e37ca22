"""What DROP and TRUNCATE took away, for who reads a table in the order of its blocks: rows that are gone look like rows
that never were.

``dropped_blocks/<partition>`` holds the largest block number that was ever dropped, written in the multi of the drop:
who takes a snapshot of parts first and reads this then learns of every drop that the snapshot may lack rows of.
"""

from __future__ import annotations

from coordination.keeper import Create, Keeper, Op, SetData
from coordination.paths import TablePaths


def dropped_blocks(keeper: Keeper, table: TablePaths) -> dict[str, int]:
    """Partition → the largest number that was dropped."""
    names = keeper.children_many([table.dropped_blocks])[0] or []
    answers = keeper.get_many([table.dropped_block(name) for name in names])
    return {name: int(answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None}


def drop_ops(keeper: Keeper, table: TablePaths, partition_id: str, last: int) -> list[Op]:
    """For the multi that drops the partition's blocks up to ``last``; it fails when somebody else's comes first."""
    path, data = table.dropped_block(partition_id), str(last).encode()
    answer = keeper.get_many([path])[0]
    if answer is None:
        keeper.create_parents(table.dropped_blocks)
        return [Create(path, data)]
    return [SetData(path, data, answer[1].version)] if int(answer[0]) < last else []
