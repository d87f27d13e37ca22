"""Remove the nodes of a dropped table or replica, but never one that was created again in its place.

A drop first deletes a *guard* (a table's ``replicas``, a replica's ``host``), so nobody uses the nodes any more. The
session that removes the rest then holds the ephemeral node ``dropped`` under the root, which is created only while the
guard is missing. Every deletion checks that node, so a session that ended or was overtaken stops. Whoever wants to
create the table or replica again removes the old nodes first, or waits for the session that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    check_not_exists,
)
from coordination.keeper.request_limits import MAX_MULTI_OPERATIONS
from parts.common.errors import ConflictError

_ATTEMPTS = 20


class RemovalOutcome(Enum):
    """The result of removing dropped nodes."""

    GONE = "nothing is left of it"
    ALIVE = "somebody has made it anew"
    BUSY = "another session sweeps it"


def remove_dropped_nodes(keeper: Keeper, root: str, guard: str, lock: str) -> RemovalOutcome:
    """Deletes ``root`` and all below it unless ``guard`` exists. Repeatable.

    ``lock`` is the path of the ephemeral node, directly under ``root``. Raises ``ConflictError`` after too many
    attempts.
    """
    for _ in range(_ATTEMPTS):
        try:
            outcome = _claim(keeper, guard, lock)
            if outcome is not None:
                return outcome
            for level in reversed(_levels(keeper, root, lock)):
                _delete(keeper, level, lock)
            keeper.multi([Delete(lock), Delete(root)])
            return RemovalOutcome.GONE
        except KeeperConnectionLoss:
            continue
        except MultiFailed as error:  # others still add or remove something: look again
            if not isinstance(error.cause, NodeExists | NoNode | NotEmpty):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", f"Could not sweep {root}: the connection breaks, or others use it; retry")


def _claim(keeper: Keeper, guard: str, lock: str) -> RemovalOutcome | None:
    """Creates the lock. Returns ``None`` if this session holds it now, otherwise the outcome."""
    try:
        keeper.multi([*check_not_exists(guard), Create(lock, ephemeral=True)])
    except MultiFailed as error:
        if isinstance(error.cause, NoNode):
            return RemovalOutcome.GONE
        if not isinstance(error.cause, NodeExists):
            raise
        if error.op.path == guard:
            return RemovalOutcome.ALIVE
        holder = keeper.exists(lock)
        if holder is None:
            raise  # it has just gone
        return None if holder.ephemeral_owner == keeper.session_id else RemovalOutcome.BUSY
    return None


def _levels(keeper: Keeper, root: str, lock: str) -> list[list[str]]:
    """Lists the paths below ``root`` by depth, without ``lock``."""
    levels: list[list[str]] = []
    level = [root]
    while level:
        listings = keeper.children_many(level)
        level = [
            f"{parent}/{name}"
            for parent, names in zip(level, listings, strict=True)
            for name in names or ()
            if f"{parent}/{name}" != lock
        ]
        levels.append(level)
    return levels


def _delete(keeper: Keeper, paths: list[str], lock: str) -> None:
    for packet in _packets(paths):
        keeper.multi([Check(lock), *(Delete(path) for path in packet)])


def _packets(paths: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(paths), MAX_MULTI_OPERATIONS):
        yield paths[start : start + MAX_MULTI_OPERATIONS]
