"""How far a server is behind one source: it shows what the source had at a moment that is known.

A sample is the newest position of every table of the source that links bring here, and the moment before they were
asked for. When all of them are visible in this server's own active parts, that moment is how fresh the server is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from coordination.keeper.interface import KeeperConnectionLoss, KeeperError
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Position
from engine.links.linkable_tables import require_linkable
from engine.remote.linked_cluster import LinkedCluster
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus

_PAUSE_SECONDS = 0.1
_FAILED_SECONDS = 0.5
_VISIBLE_SECONDS = 1.0


@dataclass
class _Sample:
    """The positions that are not visible yet, and the moment at which the source had them."""

    asked_at: float
    wanted: list[tuple[OwnedTable, LinkDefinition, Position]] = field(default_factory=list)


class CatchingUp:
    """One source. ``step`` is called by one thread at a time, everything else by any thread."""

    def __init__(self, cluster: str, connect: Callable[[str], LinkedCluster], monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._connect = connect
        self._monotonic = monotonic
        self._sample: _Sample | None = None
        self._shown_at = -math.inf
        self.links: tuple[tuple[OwnedTable, LinkDefinition], ...] = ()
        """The links from this source, with their targets."""
        self.problem = "it has not been asked yet"
        """What is missing, for people."""

    def is_current(self, lag_seconds: float) -> bool:
        """Tells whether this server shows what the source had at most so many seconds ago."""
        return self._monotonic() - self._shown_at <= lag_seconds

    def step(self, lag_seconds: float) -> float:
        """Takes a sample, or looks what of the last one is visible; returns the seconds until the next step."""
        try:
            sample = self._sample
            if sample is None or self._monotonic() - sample.asked_at > lag_seconds:
                sample = self._sample = self._ask()
            while sample.wanted and self._is_visible(*sample.wanted[-1]):
                sample.wanted.pop()
        except (PandoError, KeeperError, KeeperConnectionLoss) as error:
            self._sample, self.problem = None, error.message if isinstance(error, PandoError) else str(error)
            return _FAILED_SECONDS
        if not sample.wanted:
            self._shown_at, self._sample = sample.asked_at, None
            self.problem = ""
        return _PAUSE_SECONDS

    def _ask(self) -> _Sample:
        cluster, sample = self._connect(self._cluster), _Sample(self._monotonic())
        for table, link in self.links:
            source = cluster.describe_source(link)
            sample.wanted.append((table, link, Position(source.origin, source.newest)))
        return sample

    def _is_visible(self, table: OwnedTable, link: LinkDefinition, position: Position) -> bool:
        target = require_linkable(table).target
        if not target.read_target().vector.covers(position):
            self.problem = f"link {link.name} has not brought everything up to {position}"
            return False
        try:
            target.wait_until_visible(_VISIBLE_SECONDS, QueryStatus(), is_own_replica_enough=True)
        except PandoError as error:
            if error.name != "TIMEOUT_EXCEEDED":
                raise
            self.problem = f"what link {link.name} brought is not visible here yet"
            return False
        return True
