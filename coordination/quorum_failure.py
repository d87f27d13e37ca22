"""A quorum that can never be reached: the part is given up, and whoever has it takes it back.

Giving up is one multi: every replica's host version as it was read, so that nobody who came alive meanwhile is
overruled, removes the status, leaves ``quorum/failed_parts/<part>`` and frees the block id for a retry. The marker
outlives everything that names the part (``cleanup`` removes it).
"""

from __future__ import annotations

from collections.abc import Iterable

from coordination.keeper import Check, Create, Delete, Keeper, NoNode, Op, SetData
from coordination.log_entry import LogEntry
from coordination.paths import ReplicaPaths, TablePaths
from coordination.quorum import QuorumStatus, failed_parts, read_status


def fail_unreachable_part(keeper: Keeper, replica: ReplicaPaths, entry: LogEntry) -> bool:
    """For a replica that must fetch a quorum part: gives the part up if no living replica has it.

    One multi checks every replica's host version, so that nobody who came alive meanwhile is overruled, removes the
    status, leaves the failure marker and frees the block id for a retry. ``True``: the part has failed (by us or
    before), its entry can go. Raises ``MultiFailed`` when somebody moved meanwhile; retry later.
    """
    table, part = replica.table, str(entry.new_part)
    path = table.quorum_parallel_part(part) if entry.quorum_parallel else table.quorum_status
    keeper.sync(table.root)
    names = keeper.children(table.replicas)
    hosts = keeper.exists_many([table.replica(name).host for name in names])
    active = keeper.exists_many([table.replica(name).is_active for name in names])
    holds = keeper.exists_many([table.replica(name).part(part) for name in names])
    if any(a is not None and h is not None for a, h in zip(active, holds, strict=True)):
        return False
    found = read_status(keeper, path)
    if found is None or found[0].part != part:
        return keeper.exists(table.quorum_failed_part(part)) is not None
    if replica.name in found[0].replicas:
        return False
    ops: list[Op] = [
        Check(table.replica(name).host, stat.version)
        for name, stat in zip(names, hosts, strict=True)
        if stat is not None
    ]
    keeper.multi([*ops, *failure_ops(keeper, table, found[0], path, found[1].version)])
    return True


def failure_ops(keeper: Keeper, table: TablePaths, status: QuorumStatus, path: str, version: int) -> list[Op]:
    """Removes the status, marks the part as failed, frees its block id.

    Moves the log's version too: a merge that was chosen while the part looked healthy must not be assigned any more.
    The marker stays until no log entry, queue or list of parts names the part (``cleanup``).
    """
    ops: list[Op] = [Delete(path, version), SetData(table.log, b"")]
    marker = table.quorum_failed_part(status.part)
    if keeper.exists(marker) is None:
        ops.append(Create(marker, status.owner.encode()))
    if status.block_id and keeper.exists(table.block(status.block_id)) is not None:
        ops.append(Delete(table.block(status.block_id)))
    return ops


def take_back_failed_parts(keeper: Keeper, replica: ReplicaPaths) -> list[str]:
    """For a replica that comes back: its own parts that failed their quorum, which it must detach as ``noquorum_``.

    Call it before ``activate`` (so that nobody fetches them from here) and again after (a peer may have given one up in
    between; once this replica is active, none can). After detaching, call :func:`forget_failed_parts`.
    """
    names = failed_parts(keeper, replica.table)
    held = keeper.exists_many([replica.part(name) for name in names])
    owners = keeper.get_many([replica.table.quorum_failed_part(name) for name in names])
    return [
        name
        for name, stat, owner in zip(names, held, owners, strict=True)
        if stat is not None or (owner is not None and owner[0].decode() == replica.name)
    ]


def forget_failed_parts(keeper: Keeper, replica: ReplicaPaths, names: Iterable[str]) -> None:
    """Removes the parts from the replica's list. Their failure markers stay for the others; cleanup removes them."""
    for name in names:
        _delete_if_there(keeper, replica.part(name))


def _delete_if_there(keeper: Keeper, path: str) -> None:
    try:
        keeper.delete(path)
    except NoNode:
        return
