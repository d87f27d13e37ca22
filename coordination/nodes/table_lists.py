"""The lists below a table's root that are made when something first stands in them.

A table that was created by an older version has none of them. Whoever needs one makes it only while the table is there:
the nodes of a table may be deleted while its servers run, and half a table would stand in the way of a new one.
"""

from __future__ import annotations

from coordination.keeper.interface import (
    Check,
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
)
from coordination.nodes.paths import TablePaths
from parts.common.errors import UserError

_ATTEMPTS = 5


def late_lists(table: TablePaths) -> list[str]:
    """All of them."""
    return [
        table.scans,
        table.transactions,
        table.open_transactions,
        table.applications,
        table.dropped_blocks,
        table.lost_blocks,
    ]


def make_lists(keeper: Keeper, table: TablePaths, *lists: str) -> None:
    """Makes those that are missing. A drop of the table begins with its ``replicas``: nothing is made after that.

    Raises 225 (NO_ZOOKEEPER) when the table is not there.
    """
    for path in lists:
        for attempt in range(_ATTEMPTS):
            try:
                keeper.multi([Check(table.replicas), Create(path)])
                break
            except KeeperConnectionLoss:  # asked once more, it says what became of it
                if attempt == _ATTEMPTS - 1:
                    raise
            except MultiFailed as error:
                if isinstance(error.cause, NodeExists):
                    break
                if isinstance(error.cause, NoNode):
                    raise metadata_missing(table) from error
                raise error.cause from error


def metadata_missing(table: TablePaths) -> UserError:
    """225 (NO_ZOOKEEPER)."""
    return UserError("NO_ZOOKEEPER", f"The table's metadata is missing in ZooKeeper: {table.root}")
