"""The targets of synchronous links with which one commit of rows is made.

Their set is looked at three times: when the rows are staged at the targets, when the commit is decided, and when the
client is answered. The commit checks the version of the gate that names the set, and its log entry notes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink
from parts.common.errors import ConflictError, UnavailableError


class SyncTargetsMoved(ConflictError):
    """The gate names other targets than those at which the rows are staged. Nothing was committed."""

    def __init__(self, root: str) -> None:
        super().__init__("KEEPER_EXCEPTION", f"The synchronous links of {root} changed during the INSERT; repeat it")
        self.root = root

    def __reduce__(self) -> tuple[object, ...]:
        return (SyncTargetsMoved, (self.root,))


@dataclass(frozen=True, slots=True)
class SyncTargets:
    """The targets at which the rows of a commit are staged."""

    links: frozenset[str] = frozenset()
    """The UUIDs of their links."""
    is_required: bool = True
    """Whether a table with synchronous links, none of which is enabled, takes no rows (``require_sync_replica``)."""

    def require_same(self, root: str, gate: Gate | None) -> None:
        """Raises ``SyncTargetsMoved`` if the gate names other targets.

        Raises 285 (TOO_FEW_LIVE_REPLICAS) if it names none, although there are synchronous links, and one is required.
        """
        targets = gate.sync_targets if gate is not None else ()
        if gate is not None and not targets and self.is_required and gate.sync_links:
            raise _make_required_error(root, gate.sync_links)
        if self.links != frozenset(link.uuid for link in targets):
            raise SyncTargetsMoved(root)


NO_SYNC_TARGETS = SyncTargets()


def _make_required_error(root: str, links: tuple[GateLink, ...]) -> UnavailableError:
    states = ", ".join(f"{link.name} is {link.state.value}" for link in links)
    return UnavailableError(
        "TOO_FEW_LIVE_REPLICAS",
        f"Table {root} takes no INSERTs while none of its synchronous links is enabled: {states}. Wait until one is "
        "(system.replication_links says what it waits for), make the links asynchronous (ALTER REPLICATION LINK … MODE "
        "async), or INSERT with require_sync_replica = 0, which stores the rows here alone at first",
    )
