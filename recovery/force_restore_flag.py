"""``force_restore_data``: the operator's flag to restore a replica in spite of suspicious differences.

There are two flags, each read once and then removed. The znode ``<table>/replicas/<replica>/flags/force_restore_data``
is for one table. The file ``<path>/flags/force_restore_data`` is for every table of a server, and removed when the
server has read it at its start. Source: ClickHouse documentation, "Data Replication: Recovery After Failures".
"""

from __future__ import annotations

from pathlib import Path

from coordination.keeper.interface import Keeper, NodeExists
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.paths import ReplicaPaths
from parts.format.hashed_file import sync_directory


def set_flag(keeper: Keeper, replica: ReplicaPaths) -> None:
    """Creates the znode. Does nothing if it exists."""
    try:
        keeper.create(replica.force_restore_data)
    except NodeExists:
        return


def is_flag_set(keeper: Keeper, replica: ReplicaPaths) -> bool:
    """Tells whether the znode exists."""
    return keeper.exists(replica.force_restore_data) is not None


def clear_flag(keeper: Keeper, replica: ReplicaPaths) -> None:
    """Removes the znode, after the restore."""
    delete_if_present(keeper, replica.force_restore_data)


def consume_flag_file(file: Path) -> bool:
    """Removes the file and returns whether it existed.

    It also creates the directory for the next file. Called once, at the start of a server.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    sync_directory(file.parent)  # a flag that reappears after a power cut would force a restore nobody asked for
    return True
