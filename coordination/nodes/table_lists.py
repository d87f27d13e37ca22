"""Create the lists below a table's root that are made only when they get a first entry.

A table created by an older version has none of them. A list is created only while the table exists: the nodes of a
table may be deleted while its servers run, and half a table would prevent creating a new one.
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


def list_late_lists(table: TablePaths) -> list[str]:
    """Returns the paths of all lists that are created late."""
    return [
        table.scans,
        table.transactions,
        table.open_transactions,
        table.applications,
        table.dropped_blocks,
        table.lost_blocks,
    ]


def create_lists(keeper: Keeper, table: TablePaths, *lists: str) -> None:
    """Creates the missing lists. Raises 225 (NO_ZOOKEEPER) when the table does not exist.

    A drop of the table begins with its ``replicas``: nothing is created after that.
    """
    for path in lists:
        for attempt in range(_ATTEMPTS):
            try:
                keeper.multi([Check(table.replicas), Create(path)])
                break
            except KeeperConnectionLoss:  # the next attempt finds out whether the node was created
                if attempt == _ATTEMPTS - 1:
                    raise
            except MultiFailed as error:
                if isinstance(error.cause, NodeExists):
                    break
                if isinstance(error.cause, NoNode):
                    raise missing_metadata_error(table) from error
                raise error.cause from error


def missing_metadata_error(table: TablePaths) -> UserError:
    """Returns the error 225 (NO_ZOOKEEPER)."""
    return UserError("NO_ZOOKEEPER", f"The table's metadata is missing in ZooKeeper: {table.root}")
