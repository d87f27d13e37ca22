"""The start of a server with links: linked tables wait until it has caught up with enough sources.

A source is a cluster from which links bring changes to tables of this server. The server has caught up with it when
its own active parts show what the source had committed ``replication_sync_lag`` seconds ago. It asks the source for
its newest position, then ZooKeeper whether the table has reached it, then itself whether it has carried that out. So
the answer holds whichever server runs the link.

Invariants:

- Without ``replication_connect_quorum`` nothing is refused, and nothing is asked.
- What was opened is never closed again.
- Links are answered whatever the state is: two clusters that start together do not wait for each other.

Source: Tarantool documentation, "replication_connect_quorum", "replication_connect_timeout", "replication_sync_lag",
"Orphan status".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Protocol

from coordination.keeper.interface import KeeperConnectionLoss, KeeperError
from coordination.links.link_definition import LinkDefinition
from coordination.nodes.paths import TablePaths
from engine.catalog.catalog import Catalog
from engine.interserver.replication import Replication
from engine.links.caught_up import CatchingUp
from engine.links.linkable_tables import explain_unlinkable
from engine.queries.server_links import ServerLinks
from engine.remote.linked_clusters import LinkedClusters
from engine.server.background_pool import BackgroundTask
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError, UnavailableError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_OPEN_SECONDS = 3600.0


class StartState(IntEnum):
    """The use of a server's linked tables."""

    OPEN = 0
    """It reads and writes them."""
    READS = 1
    """It reads them, and refuses what its clients would write."""
    REFUSES = 2
    """It refuses both."""


class StartingServer(Protocol):
    """The server, as its start sees it."""

    catalog: Catalog
    services: TableServices
    replication: Replication
    links: ServerLinks
    linked_clusters: LinkedClusters


class LinkStart:
    """The refusals of one server until it has caught up. Implements ``LinkReadiness``. Thread-safe."""

    def __init__(self, server: StartingServer, *, has_links: bool) -> None:
        """``has_links``: the server can have links at all."""
        self._server = server
        self._links: Mapping[OwnedTable, tuple[LinkDefinition, ...]] = {}
        """The enabled links of each table that was looked at."""
        self._sources: dict[str, CatchingUp] = {}
        self._tasks: dict[str, BackgroundTask] = {}
        self._task = BackgroundTask("start of links", self._look)
        self._looking = threading.Lock()
        self._began_at = server.services.monotonic()
        self._is_over = self._was_told = False
        self._tell_state: Callable[[StartState], None] = lambda _: None
        self.state = StartState.OPEN
        if has_links and server.linked_clusters.keys.replication_connect_quorum:
            self.state = self._choose_closed_state()

    def follow_state(self, tell: Callable[[StartState], None]) -> None:
        """Sets who tells the state, now and after each change, to the server's other processes."""
        self._tell_state = tell
        tell(self.state)

    def start(self) -> None:
        """Begins to look, if anything is refused."""
        self._began_at = self._server.services.monotonic()
        if self.state is not StartState.OPEN:
            self._server.services.housekeeping.add(self._task)

    def stop(self) -> None:
        """Ends the looks."""
        self._is_over = True
        self._server.services.housekeeping.remove(self._task)
        with self._looking:
            tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            self._server.services.workers.remove(task)

    def open(self) -> None:
        """Refuses nothing from now on."""
        self._set_state(StartState.OPEN)

    # -- for queries and commits --------------------------------------------------------------------------------------

    def explain_refusal(self, table: OwnedTable) -> str:
        """Says why a table is not read now; "" if it is."""
        if self.state is not StartState.REFUSES or not self._is_linked(table):
            return ""
        left = self._server.linked_clusters.keys.replication_connect_timeout - self._get_age()
        return (
            f"Table {table.definition.full_name} is not read until this server has caught up with "
            f"{self._describe_quorum()}, for at most {max(0.0, left):.0f} more seconds: {self._describe_missing()}. "
            "Ask another server, or let this one answer: SYSTEM RELOAD CONFIG with a smaller replication_connect_quorum"
        )

    def warn(self, table: OwnedTable) -> str:
        """Says what is missing while the table is read although the server has not caught up; "" otherwise."""
        if self.state is not StartState.READS or not self._is_linked(table):
            return ""
        return f"Takes no writes: this server has not caught up with {self._describe_quorum()}: " + (
            self._describe_missing()
        )

    @property
    def is_refusing(self) -> bool:
        """Whether linked tables are not read yet."""
        return self.state is StartState.REFUSES

    def require_readable(self, database: str, table: str) -> None:
        """Raises 369 (ALL_REPLICAS_ARE_STALE) while the table is not read."""
        if self.is_refusing and (problem := self.explain_refusal(self._server.catalog.table(database, table))):
            raise UnavailableError("ALL_REPLICAS_ARE_STALE", problem)

    def check_clients_may_write(self, paths: TablePaths, name: str) -> None:
        """Raises 242 (TABLE_IS_READ_ONLY) while clients do not write to the table of this name."""
        if self.state is StartState.OPEN:
            return
        table = next((each for each in self._server.catalog.tables() if _is_table(each, paths, name)), None)
        if table is None or not self._is_linked(table):
            return
        raise UnavailableError(
            "TABLE_IS_READ_ONLY",
            f"Table {name} takes no writes here until this server has caught up with {self._describe_quorum()}: "
            f"{self._describe_missing()}. Write to another server, or let this one go on: SYSTEM RELOAD CONFIG with a "
            "smaller replication_connect_quorum",
        )

    def _is_linked(self, table: OwnedTable) -> bool:
        """Tells whether links bring changes to the table; a table of which nobody knows yet counts as one of them."""
        if explain_unlinkable(table):
            return False
        if table not in self._links:
            try:
                self._read_links()
            except (PandoError, KeeperError, KeeperConnectionLoss) as error:
                logger.debug("nobody knows yet whether %s has links: %s", table.definition.full_name, error)
        return bool(self._links.get(table, (None,)))

    def _describe_quorum(self) -> str:
        quorum = self._server.linked_clusters.keys.replication_connect_quorum
        return f"{quorum} source{'s' * (quorum != 1)} (replication_connect_quorum)"

    def _describe_missing(self) -> str:
        missing = [f"cluster {name}: {each.problem}" for name, each in sorted(self._sources.items()) if each.problem]
        return "; ".join(missing) or "ZooKeeper has not been asked for the links yet"

    # -- looking ------------------------------------------------------------------------------------------------------

    def _get_age(self) -> float:
        return self._server.services.monotonic() - self._began_at

    def _look(self) -> float:
        """Compares what was found with what the configuration wants; returns the seconds until the next look."""
        if self._is_over or self.state is StartState.OPEN:
            return _OPEN_SECONDS
        keys = self._server.linked_clusters.keys
        is_known = True
        try:
            self._read_links()
        except (PandoError, KeeperError, KeeperConnectionLoss) as error:
            is_known = False
            logger.debug("the links of this server are looked at later: %s", error)
        behind = self._list_behind(keys.replication_sync_lag)
        caught_up = len(self._sources) - len(behind)
        if not keys.replication_connect_quorum or (
            is_known and caught_up >= min(keys.replication_connect_quorum, len(self._sources))
        ):
            logger.info("linked tables are open: this server has caught up with %d sources", caught_up)
            self.open()
            return _OPEN_SECONDS
        if self._get_age() < keys.replication_connect_timeout:
            self._set_state(self._choose_closed_state())
        else:
            self._note_timeout(behind)
        return _LOOK_SECONDS

    def _choose_closed_state(self) -> StartState:
        mode = self._server.linked_clusters.keys.replication_orphan_mode
        return StartState.REFUSES if mode == "refuse" else StartState.READS

    def _list_behind(self, lag_seconds: float) -> list[str]:
        return sorted(name for name, each in list(self._sources.items()) if not each.is_current(lag_seconds))

    def _note_timeout(self, behind: Iterable[str]) -> None:
        self._set_state(StartState.READS)
        if not self._was_told:
            self._was_told = True
            logger.warning(
                "linked tables are read from now on, and not written: after %.0f s (replication_connect_timeout) this "
                "server has not caught up with %s: %s",
                self._get_age(),
                ", ".join(behind) or "any source",
                self._describe_missing(),
            )

    def _set_state(self, state: StartState) -> None:
        if self.state is not state:
            self.state = state
            self._tell_state(state)

    def _read_links(self) -> None:
        """Reads the links of all tables of this server, and looks after a task for each source."""
        keeper = self._server.replication.require_keeper()
        tables = [table for table in self._server.catalog.tables() if not explain_unlinkable(table)]
        paths = [table.replication.paths for table in tables if table.replication is not None]
        incoming = keeper.children_many([each.linked.incoming for each in paths])
        places = [
            (table, path.linked.incoming_link(name))
            for table, path, names in zip(tables, paths, incoming, strict=True)
            for name in names or ()
        ]
        links: dict[OwnedTable, tuple[LinkDefinition, ...]] = dict.fromkeys(tables, ())
        for (table, _), found in zip(places, keeper.get_many([place for _, place in places]), strict=True):
            if found is not None and (link := LinkDefinition.parse(found[0])).is_enabled:
                links[table] = (*links[table], link)
        with self._looking:
            self._links = links
            self._give_to_sources(links)

    def _give_to_sources(self, links: Mapping[OwnedTable, tuple[LinkDefinition, ...]]) -> None:
        by_source: dict[str, list[tuple[OwnedTable, LinkDefinition]]] = {}
        for table, found in links.items():
            for link in found:
                by_source.setdefault(link.source_cluster, []).append((table, link))
        for gone in self._sources.keys() - by_source.keys():
            del self._sources[gone]
        for name, of_source in by_source.items():
            if name not in self._sources:
                self._sources[name] = CatchingUp(name, self._server.links.connect, self._server.services.monotonic)
            self._sources[name].links = tuple(of_source)
            if name not in self._tasks and not self._is_over:
                task = BackgroundTask(f"start of links of {name}", lambda name=name: self._follow(name))  # type: ignore[misc]
                self._tasks[name] = self._server.services.workers.add(task)

    def _follow(self, name: str) -> float:
        source = self._sources.get(name)
        if source is None or self._is_over or self.state is StartState.OPEN:
            return _OPEN_SECONDS
        return source.step(self._server.linked_clusters.keys.replication_sync_lag)


def _is_table(table: OwnedTable, paths: TablePaths, name: str) -> bool:
    replica = table.replication
    return replica is not None and table.definition.full_name == name and replica.paths.root == paths.root
