"""Frees the block ids of rows that a drop by their places removes, so that they can be inserted again.

Such a drop is a mutation (``coordination.links.commands``). Unlike DROP_RANGE it leaves rows below its number that were
committed after its reach, and their ids must stay. An id's node is made in the commit of its block, so its created zxid
tells. Replicas free the ids before they carry the drop out, each may do so, and a repeat later frees no other ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordination.inserts.block_ids import delete_unchanged_ids, read_block_nodes
from coordination.keeper.interface import Keeper
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError

_ATTEMPTS = 20


def free_reached_ids(keeper: Keeper, table: TablePaths, numbers: Mapping[str, int], last: int) -> None:
    """Deletes the ids of the table's own blocks that a drop removes.

    ``numbers``: by partition the drop's number. ``last``: the zxid of the last own commit that it reaches. Raises 999
    if others keep deleting ids.
    """
    for _ in range(_ATTEMPTS):
        reached = [
            (name, stat)
            for name, part, stat in read_block_nodes(keeper, table, numbers)
            if part.max_block < numbers[part.partition_id] and stat.created_zxid <= last
        ]
        if not reached or delete_unchanged_ids(keeper, table, reached) == len(reached):
            return
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep deleting block ids of {table.root}; retry")
