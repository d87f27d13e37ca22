"""Give up a part whose quorum can never be reached.

Giving up is one multi. It removes the status as it was read first, leaves ``quorum/failed_parts/<part>``, and deletes
the block's ids so that the INSERT can be repeated. It fails if meanwhile a replica came alive (its host's version
changed) or committed the part (it lists the part, or the status changed). The marker stays as long as anything names
the part (``cleanup`` removes it). A living replica that holds a failed part detaches it as soon as it sees the marker.
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
    Op,
    SetData,
    Watch,
    check_not_exists,
)
from coordination.log.log_entry import LogEntry
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.paths import ReplicaPaths, TablePaths
from parts.common.part_name import PartName


def fail_unreachable_part(keeper: Keeper, replica: ReplicaPaths, entry: LogEntry) -> bool:
    """Gives up a quorum part that this replica must fetch, if no living replica has it.

    Returns ``True`` if the part has failed, now or before: its entry can be removed. Raises ``MultiFailed`` when
    something changed meanwhile; retry later.
    """
    table, part = replica.table, str(entry.new_part)
    path = table.quorum_parallel_part(part) if entry.quorum_parallel else table.quorum_status
    keeper.sync(table.root)
    found = read_quorum_status(keeper, path)
    if found is None or found[0].part != part:
        return keeper.exists(table.quorum_failed_part(part)) is not None
    if replica.name in found[0].replicas:
        return False
    nobody_has_it = _check_no_living_holder(keeper, table, part)
    if nobody_has_it is None:
        return False
    keeper.multi([*nobody_has_it, *fail_part_ops(keeper, table, found[0], path, found[1].version)])
    return True


def _check_no_living_holder(keeper: Keeper, table: TablePaths, part: str) -> list[Op] | None:
    """Returns checks that no living replica has the part, or ``None`` if one has it.

    They fail when a replica has come alive, or has committed the part, since. Call this after the status was read:
    whoever commits later changes the status, or appears here. A replica without ``host`` is an interrupted drop.
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
    """Returns operations that remove the status, mark the part as failed and delete the ids that name it.

    Ids of other parts stay: the window may have deleted an id, and another INSERT created it again.
    """
    part = PartName.parse(status.part)
    ids = select_block_ids(keeper, table, part.partition_id, lambda inserted: inserted == part)
    return [*mark_part_failed_ops(keeper, table, status, path, version), ids.guard_op, *ids.deletes]


def mark_part_failed_ops(keeper: Keeper, table: TablePaths, status: QuorumStatus, path: str, version: int) -> list[Op]:
    """Returns operations that remove the status and mark the part as failed.

    They change the log's version too: a merge that was chosen before the failure must not be assigned. The marker stays
    until no log entry, queue or list of parts names the part (``cleanup``).
    """
    ops: list[Op] = [Delete(path, version), SetData(table.log, b"")]
    marker = table.quorum_failed_part(status.part)
    if keeper.exists(marker) is None:
        ops.append(Create(marker, status.owner.encode()))
    return ops


def list_own_failed_parts(keeper: Keeper, replica: ReplicaPaths, watch: Watch | None = None) -> list[str]:
    """Lists the replica's own parts that failed their quorum, which it must detach as ``noquorum_``.

    Call it before ``activate``, so that nobody fetches them from here. Call it again afterwards, because a peer may
    have given one up meanwhile, and whenever ``watch`` reports a new marker. After detaching, call
    :func:`unlist_failed_parts`.
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
    """Removes the parts from the replica's list. Their failure markers stay; cleanup removes them."""
    for name in names:
        delete_if_present(keeper, replica.part(name))
