"""Deletes nodes that may be gone already."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper.interface import Delete, Keeper, KeeperConnectionLoss, MultiFailed, NoNode
from coordination.keeper.request_limits import MAX_MULTI_OPERATIONS, split_into_chunks


def delete_if_present(keeper: Keeper, path: str) -> bool:
    """Deletes a node; returns whether it was there."""
    try:
        keeper.delete(path)
    except NoNode:
        return False
    return True


def delete_all_present(keeper: Keeper, paths: Sequence[str]) -> None:
    """Deletes nodes in order, as many as possible in one multi.

    A lost answer is no error: they are deleted again.
    """
    for batch in split_into_chunks(paths, MAX_MULTI_OPERATIONS):
        try:
            keeper.multi([Delete(path) for path in batch])
        except (MultiFailed, KeeperConnectionLoss):
            for path in batch:
                delete_if_present(keeper, path)
