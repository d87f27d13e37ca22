"""The links of a server, as statements and system tables see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.remote.linked_cluster import LinkedCluster
from engine.tables.capabilities.link_status import LinkProgress
from parts.common.errors import UserError


@dataclass(frozen=True, slots=True)
class LinkFreshness:
    """The settings of a query that say how fresh the target of a link must be."""

    min_position: str = ""
    wait_seconds: float = 0.0
    """The longest wait for the position."""
    max_lag_seconds: int = 0
    """0: any."""


class ServerLinks(Protocol):
    """The links that a server runs, and the clusters that it can ask."""

    @property
    def can_copy(self) -> bool:
        """Whether this server can copy a table to a link's target."""

    def connect(self, cluster: str) -> LinkedCluster:
        """Returns a cluster of ``linked_clusters``. Raises 36 (BAD_ARGUMENTS) for another name."""

    def wake(self) -> None:
        """Looks at once for links that were made, changed or dropped."""

    def find_progress(self, name: str) -> LinkProgress | None:
        """Returns how far a link is, if this server runs it."""


class UnlinkedServer:
    """The links of an engine without a server around it: none."""

    can_copy = False

    def connect(self, cluster: str) -> LinkedCluster:
        """Raises 36 (BAD_ARGUMENTS)."""
        raise UserError("BAD_ARGUMENTS", f"There is no cluster {cluster!r}: links need a server")

    def wake(self) -> None:
        """Ignores it: there are none."""

    def find_progress(self, name: str) -> LinkProgress | None:
        """Returns nothing."""
        return None
