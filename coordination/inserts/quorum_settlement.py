"""Lower pending quorums when a replica is dropped: none requires more replicas than are registered.

For every pending part (or transaction), in one multi each: the dropped replica no longer counts as a holder, and no
more replicas are required than are registered. If that meets the quorum, the part is confirmed. Each cleanup does the
same, because a drop may be interrupted, and an INSERT may have begun before it.

**Why the part is kept.** Its INSERT was not acknowledged, so its rows may exist or not, but alike everywhere. Giving
the part up would remove rows that every replica has or will have. Waiting on would block merges, mutations and other
quorums of the partition for ever. Confirming it loses nothing. A part that no replica has any more is given up as
before (:mod:`coordination.inserts.quorum_failure`).

**The INSERT does not succeed**: it asked for more copies than there are. Lowering a requirement changes the version of
``quorum`` in the same multi, and the waiter (:mod:`coordination.inserts.quorum_wait`) knows the version from before its
INSERT. In ClickHouse such a part waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from coordination.inserts.quorum import QuorumStatus, progress_ops, read_pending_quorums
from coordination.keeper.interface import Check, Keeper, KeeperConnectionLoss, MultiFailed, Op, SetData, Stat
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import list_registered_replicas

_ATTEMPTS = 20


def lower_requirement(status: QuorumStatus, registered: Collection[str]) -> QuorumStatus:
    """Returns the status as it should be if ``registered`` are all replicas of the table."""
    replicas = tuple(name for name in status.replicas if name in registered)
    return replace(status, replicas=replicas, required=min(status.required, len(registered)))


def settle_quorums(keeper: Keeper, table: TablePaths) -> bool:
    """Lowers every quorum that waits for an unregistered replica. Repeatable.

    Returns ``False`` if others keep changing quorums: call again. The table may be gone.
    """
    return any(_settle_once(keeper, table) for _ in range(_ATTEMPTS))


def _settle_once(keeper: Keeper, table: TablePaths) -> bool:
    """Tries once; ``False``: something changed meanwhile."""
    replicas = keeper.exists(table.replicas)
    if replicas is None:
        return True
    pending = read_pending_quorums(keeper, table)
    registered = list_registered_replicas(keeper, table) if pending else []
    try:
        for status, stat, path in pending if registered else []:
            if (less := lower_requirement(status, registered)) != status:
                # Whoever registers moves the version of ``replicas``.
                keeper.multi([*_ops(keeper, table, path, status, less, stat), Check(table.replicas, replicas.version)])
    except (MultiFailed, KeeperConnectionLoss):
        return False
    return True


def _ops(
    keeper: Keeper, table: TablePaths, path: str, former: QuorumStatus, status: QuorumStatus, stat: Stat
) -> list[Op]:
    is_lowered = status.required < former.required
    return progress_ops(keeper, table, path, status, stat.version) + [SetData(table.quorum, b"")] * is_lowered
