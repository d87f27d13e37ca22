"""Wait for a quorum, and report success only when it is certain.

A missing status node does not mean success (see :mod:`coordination.inserts.quorum`). So the waiter checks four things
in one synced view: the node is gone, there is no failure marker, its own activation is unchanged, and no requirement
was lowered since its INSERT began (:func:`decide_quorum_outcome`). A time-out deletes nothing: the part may still reach
its quorum.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from coordination.inserts.quorum import QuorumPlan, QuorumStatus, read_quorum_status
from coordination.keeper.interface import Keeper, KeeperError, Stat
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import Activation
from parts.common.errors import CancelledError, UnknownOutcomeError
from parts.common.part_name import PartName


class QuorumOutcome(Enum):
    """The state of a quorum, as its waiter sees it."""

    WAIT = "wait"
    MET = "met"
    FAILED = "failed"
    LOST_SESSION = "lost session"
    LOWERED = "lowered"


def decide_quorum_outcome(
    *, node_exists: bool, marked_failed: bool, is_still_active: bool, is_lowered: bool
) -> QuorumOutcome:
    """Decides from one synced view. Success needs all four facts."""
    if not is_still_active:
        return QuorumOutcome.LOST_SESSION
    if marked_failed:
        return QuorumOutcome.FAILED
    if is_lowered:
        return QuorumOutcome.LOWERED
    return QuorumOutcome.WAIT if node_exists else QuorumOutcome.MET


def wait_for_quorum(
    keeper: Keeper,
    table: TablePaths,
    part: PartName | str,
    activation: Activation,
    *,
    is_parallel: bool,
    plan: QuorumPlan | None = None,
    timeout_seconds: float,
    clock: Callable[[], float],
    wait: Callable[[threading.Event, float], object],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Returns when the part has its quorum. Raises ``UnknownOutcomeError`` 319 otherwise; deletes nothing.

    Used by the inserter, with its ``plan``, and by a repeated insert of a pending block, without a plan.
    """
    path = table.quorum_parallel_part(str(part)) if is_parallel else table.quorum_status
    deadline = clock() + timeout_seconds
    while True:
        changed = threading.Event()
        try:
            verdict = _read_outcome(keeper, table, str(part), path, activation, plan, changed)
        except KeeperError as error:
            raise _unknown(part, f"ZooKeeper went away while waiting for quorum: {error.message}") from error
        if verdict is QuorumOutcome.MET:
            return
        if verdict is QuorumOutcome.FAILED:
            raise _unknown(part, "the part was given up: no living replica had it")
        if verdict is QuorumOutcome.LOST_SESSION:
            raise _unknown(part, "this replica lost its ZooKeeper session while waiting for quorum")
        if verdict is QuorumOutcome.LOWERED:
            raise _unknown(
                part,
                "a replica was dropped meanwhile, and quorums ask for no more replicas than are left. The rows are "
                "kept on those, but perhaps on fewer than insert_quorum asks for",
            )
        left = deadline - clock()
        if left <= 0:
            raise _unknown(part, f"Timeout ({timeout_seconds:g} s) while waiting for quorum; it may still be reached")
        if is_cancelled():
            raise CancelledError(f"The wait for the quorum of part {part} was cancelled; the rows may still be stored")
        wait(changed, min(left, 1.0))


def _read_outcome(
    keeper: Keeper,
    table: TablePaths,
    part: str,
    path: str,
    activation: Activation,
    plan: QuorumPlan | None,
    changed: threading.Event,
) -> QuorumOutcome:
    keeper.sync(table.root)
    stat = keeper.exists(path, lambda _: changed.set())
    found = read_quorum_status(keeper, path) if stat is not None else None
    marker, active, host, lowered = keeper.exists_many(
        [table.quorum_failed_part(part), activation.replica.is_active, activation.replica.host, table.quorum]
    )
    status = found[0] if found is not None and found[0].part == part else None
    return decide_quorum_outcome(
        node_exists=status is not None,
        marked_failed=marker is not None,
        is_still_active=activation.holds(active, host),
        is_lowered=plan is not None and _is_lowered(plan, status, lowered),
    )


def _is_lowered(plan: QuorumPlan, status: QuorumStatus | None, lowered: Stat | None) -> bool:
    """Tells whether the requirement was lowered.

    If the status node is gone that is not known: any requirement may have been lowered.
    """
    if status is not None:
        return status.required < plan.required
    return lowered is None or lowered.version != plan.lowered_version


def _unknown(part: PartName | str, why: str) -> UnknownOutcomeError:
    return UnknownOutcomeError("UNKNOWN_STATUS_OF_INSERT", f"Unknown quorum status of part {part}: {why}")
