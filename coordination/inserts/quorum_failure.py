"""A quorum that can never be reached: the part is given up, and whoever has it takes it back.

Giving up is one multi: it removes the status as it was read first, leaves ``quorum/failed_parts/<part>`` and frees the
block's ids for a retry; and fails if meanwhile a replica came alive (its host's version) or committed the part (it
lists it, and another fetcher's commit changes the status). The marker outlives everything that names the part
(``cleanup`` removes it). A living replica that holds a failed part nevertheless takes it back as soon as it sees the
marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordination.inserts.block_ids import select_block_ids
from coordination.inserts.quorum import QuorumStatus, read_failed_parts, read_quorum_status
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    NoNode,
    Op,
    SetData,
    Watch,
    check_not_exists,
)
from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import ReplicaPaths, TablePaths
from parts.common.part_name import PartName


def fail_unreachable_part(keeper: Keeper, replica: ReplicaPaths, entry: LogEntry) -> bool:
    """For a replica that must fetch a quorum part: gives the part up if no living replica has it.

    ``True``: the part has failed (by us or before), its entry can go. Raises ``MultiFailed`` when somebody moved
    meanwhile; retry later.
    """
    table, part = replica.table, str(entry.new_part)
    path = table.quorum_parallel_part(part) if entry.quorum_parallel else table.quorum_status
    keeper.sync(table.root)
    found = read_quorum_status(keeper, path)
    if found is None or found[0].part != part:
        return keeper.exists(table.quorum_failed_part(part)) is not None
    if replica.name in found[0].replicas:
        return False
    nobody_has_it = _nobody_living_has(keeper, table, part)
    if nobody_has_it is None:
        return False
    keeper.multi([*nobody_has_it, *fail_part_ops(keeper, table, found[0], path, found[1].version)])
    return True


def _nobody_living_has(keeper: Keeper, table: TablePaths, part: str) -> list[Op] | None:
    """Operations that fail when a replica has come alive, or has committed the part, since; ``None``: one has it now.

    To be asked after the status was read: whoever commits later changes the status, or appears here. A replica without
    ``host`` is a drop that was cut short.
    """
    names = keeper.children(table.replicas)
    hosts = keeper.exists_many([table.replica(name).host for name in names])
    active = keeper.exists_many([table.replica(name).is_active for name in names])
    held = keeper.exists_many([table.replica(name).part(part) for name in names])
    ops: list[Op] = []
    for name, host, is_active, holds in zip(names, hosts, active, held, strict=True):
        if is_active is not None and holds is not None:
            return None
        if host is not None:
            ops.append(Check(table.replica(name).host, host.version))
            ops += () if holds is not None else check_not_exists(table.replica(name).part(part))
    return ops


def fail_part_ops(keeper: Keeper, table: TablePaths, status: QuorumStatus, path: str, version: int) -> list[Op]:
    """Removes the status, marks the part as failed, frees the ids that name it (and no other part's: the window may
    have let one go, and another INSERT made it anew)."""
    part = PartName.parse(status.part)
    ids = select_block_ids(keeper, table, part.partition_id, lambda inserted: inserted == part)
    return [*mark_part_failed_ops(keeper, table, status, path, version), ids.guard_op, *ids.deletes]


def mark_part_failed_ops(keeper: Keeper, table: TablePaths, status: QuorumStatus, path: str, version: int) -> list[Op]:
    """Removes the status, marks the part as failed.

    Moves the log's version too: a merge that was chosen while the part looked healthy must not be assigned any more.
    The marker stays until no log entry, queue or list of parts names the part (``cleanup``).
    """
    ops: list[Op] = [Delete(path, version), SetData(table.log, b"")]
    marker = table.quorum_failed_part(status.part)
    if keeper.exists(marker) is None:
        ops.append(Create(marker, status.owner.encode()))
    return ops


def list_own_failed_parts(keeper: Keeper, replica: ReplicaPaths, watch: Watch | None = None) -> list[str]:
    """The replica's own parts that failed their quorum, which it must detach as ``noquorum_``.

    Call it before ``activate`` (so that nobody fetches them from here), again after (a peer may have given one up in
    between), and when a marker comes, of which ``watch`` tells. After detaching, call :func:`unlist_failed_parts`.
    """
    names = read_failed_parts(keeper, replica.table, watch)
    held = keeper.exists_many([replica.part(name) for name in names])
    owners = keeper.get_many([replica.table.quorum_failed_part(name) for name in names])
    return [
        name
        for name, stat, owner in zip(names, held, owners, strict=True)
        if stat is not None or (owner is not None and owner[0].decode() == replica.name)
    ]


def unlist_failed_parts(keeper: Keeper, replica: ReplicaPaths, names: Iterable[str]) -> None:
    """Removes the parts from the replica's list. Their failure markers stay for the others; cleanup removes them."""
    for name in names:
        _delete_if_there(keeper, replica.part(name))


def _delete_if_there(keeper: Keeper, path: str) -> None:
    try:
        keeper.delete(path)
    except NoNode:
        return
