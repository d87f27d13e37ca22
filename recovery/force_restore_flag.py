"""``force_restore_data``: the operator's word that a suspicious difference is to be repaired from other replicas.

It can be said in two places, each read once and then removed: the znode
``<table>/replicas/<replica>/flags/force_restore_data`` (one table), and the file ``<path>/flags/force_restore_data``
(every table of a server; removed when the server has read it at its start).
Source: ClickHouse documentation, "Data Replication: Recovery After Failures".
"""

from __future__ import annotations

from pathlib import Path

from coordination.keeper.interface import Keeper, NodeExists, NoNode
from coordination.nodes.paths import ReplicaPaths
from parts.format.hashed_file import sync_directory


def set_flag(keeper: Keeper, replica: ReplicaPaths) -> None:
    """Makes the znode; one that is there already is fine."""
    try:
        keeper.create(replica.force_restore_data)
    except NodeExists:
        return


def is_flag_set(keeper: Keeper, replica: ReplicaPaths) -> bool:
    return keeper.exists(replica.force_restore_data) is not None


def clear_flag(keeper: Keeper, replica: ReplicaPaths) -> None:
    """Removes the znode after the restore was carried out."""
    try:
        keeper.delete(replica.force_restore_data)
    except NoNode:
        return


def consume_flag_file(file: Path) -> bool:
    """True when the file was there; it is gone afterwards, and its directory is made for the next one. Called once, at
    the start of a server."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    sync_directory(file.parent)  # a flag that comes back with a power cut would force a restore nobody asked for
    return True
