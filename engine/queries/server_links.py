"""The links of a server, as statements and system tables see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.remote.linked_cluster import LinkedCluster
from engine.tables.capabilities.link_status import LinkProgress
from parts.common.errors import UserError
from sql.settings.supported_settings import Settings


@dataclass(frozen=True, slots=True)
class LinkFreshness:
    """The settings of a query that say how fresh the target of a link must be."""

    min_position: str = ""
    wait_seconds: float = 0.0
    """The longest wait for the position."""
    max_lag_seconds: int = 0
    """0: any."""

    @classmethod
    def of(cls, settings: Settings) -> LinkFreshness:
        """Takes them from the settings of a query."""
        return cls(settings.link_min_position, settings.link_wait_timeout_ms / 1000, settings.max_link_lag_seconds)

    @property
    def is_demanded(self) -> bool:
        """Whether a target must be looked at."""
        return bool(self.min_position or self.max_lag_seconds)


class LinkReadiness(Protocol):
    """Whether a server that was started has caught up with the sources of its links."""

    @property
    def is_refusing(self) -> bool:
        """Whether it does not read linked tables yet. Costs nothing."""

    def require_readable(self, database: str, table: str) -> None:
        """Raises 369 (ALL_REPLICAS_ARE_STALE) for a linked table that is not read yet."""


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

    def measure_lags(self) -> Mapping[str, float]:
        """Returns by how many seconds tables may be behind the sources of their links, by ``database.table``.

        Infinity: nobody has told yet.
        """


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

    def measure_lags(self) -> Mapping[str, float]:
        """Returns nothing."""
        return {}
