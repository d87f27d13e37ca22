"""The links that this server takes part in: it finds them, runs those that it leads, and ends those that are gone.

Invariants:

- Each link of a table of this server has one runner here; of all servers with the table one leads and brings changes.
- A runner's step runs on the threads of links, so that waiting for other clusters delays nothing else.
- After :meth:`LinkManager.stop` no step runs, and no connection to another cluster is open.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_definition import LinkDefinition
from engine.catalog.catalog import Catalog
from engine.environment import ServerEnvironment
from engine.interserver.replication import Replication
from engine.links.cluster_client import ClusterClient
from engine.links.found_links import FoundLinks
from engine.links.link_beginning import BootstrapLink
from engine.links.link_runner import LinkRunner, RunnerWorld
from engine.remote.cluster_membership import ClusterMembership
from engine.remote.linked_clusters import LinkedClusters
from engine.server.background_pool import BackgroundPool, BackgroundTask
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""What is in memory is looked at so often; watches tell what changes in ZooKeeper."""
_WAITING_LINKS = 12
"""More links than these do not wait at their sources, but ask again after a while: each wait holds a thread."""
_ASK_SECONDS = (0.2, 0.4)


class LinkingServer(Protocol):
    """The server of a :class:`LinkManager`."""

    catalog: Catalog
    world: ServerEnvironment
    services: TableServices
    replication: Replication
    cluster_membership: ClusterMembership
    linked_clusters: LinkedClusters
    uuid: str


class LinkManager:
    """The links of one server. Implements ``engine.queries.server_links.ServerLinks``."""

    def __init__(self, server: LinkingServer) -> None:
        self._server = server
        self._services = server.services
        self.bootstrap: BootstrapLink | None = None
        """Copies a table to a link's target; set by who can."""
        self._clients: dict[str, ClusterClient] = {}
        self._runners: dict[tuple[OwnedTable, str], tuple[LinkRunner, BackgroundTask]] = {}
        self._lock = threading.Lock()
        self._pool: BackgroundPool | None = None
        self._task = BackgroundTask("find links", self._look)
        self._found = FoundLinks(server.catalog.tables, self._task.wake)
        self._is_stopping = False

    def start(self) -> None:
        """Begins to look for links."""
        self._services.housekeeping.add(self._task)

    def stop(self) -> None:
        """Ends every link's work on this server, and gives their leads up."""
        self._is_stopping = True
        self._services.housekeeping.remove(self._task)
        for key in list(self._runners):
            self._runners[key][0].stop()
        for key in list(self._runners):
            self._end(key)
        if self._pool is not None:
            self._pool.stop()
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    # -- for statements and system tables -----------------------------------------------------------------------------

    def connect(self, cluster: str) -> ClusterClient:
        """Returns a cluster of ``linked_clusters``. Raises 36 (BAD_ARGUMENTS) for another name."""
        self._server.linked_clusters.get(cluster)
        with self._lock:
            if cluster not in self._clients:
                self._clients[cluster] = ClusterClient(
                    cluster,
                    self._server.linked_clusters,
                    self._server.world.make_transport,
                    self._get_own,
                    self._server.replication.require_keeper,
                    self._services.monotonic,
                )
            return self._clients[cluster]

    def wake(self) -> None:
        """Looks at once for links that were made, changed or dropped."""
        self._task.wake()

    def find_progress(self, name: str) -> LinkProgress | None:
        """Returns how far a link is, if this server runs it."""
        for (_, link), (runner, _) in list(self._runners.items()):
            if link == name and (progress := runner.progress) is not None:
                return progress
        return None

    def _get_own(self) -> ClusterIdentity:
        return self._server.cluster_membership.get_identity(self._server.replication.require_keeper())

    # -- finding ------------------------------------------------------------------------------------------------------

    def _look(self) -> float:
        if self._is_stopping:
            return _LOOK_SECONDS
        links = self._found.look()
        for key in self._runners.keys() - links.keys():
            self._end(key)
        for key, definition in links.items():
            found = self._runners.get(key)
            if found is not None and found[0].definition.uuid != definition.uuid:
                self._end(key)
                found = None
            try:
                if found is None:
                    self._begin(key, definition)
                elif found[0].definition != definition:
                    found[0].redefine(definition)
                    found[1].wake()
            except PandoError as error:
                logger.warning("link %s does not run yet: %s", definition.name, error.message)
        return _LOOK_SECONDS

    def _begin(self, key: tuple[OwnedTable, str], definition: LinkDefinition) -> None:
        own = self._get_own()
        client = self.connect(definition.source_cluster)
        world = RunnerWorld(
            self._services,
            self._server.replication.macros.get("replica", self._server.uuid),
            (own.name, own.uuid),
            self._count_running,
            self._find_wait,
            self._find_pause,
            lambda: self.bootstrap,
        )
        task = BackgroundTask(f"link {definition.name}", lambda: runner.step())
        runner = LinkRunner(definition, key[0], client, world, task.wake)
        if self._pool is None:
            self._pool = self._server.world.make_link_pool()
        self._runners[key] = runner, task
        self._pool.add(task)
        logger.info("link %s from cluster %s is found", definition.name, definition.source_cluster)

    def _end(self, key: tuple[OwnedTable, str]) -> None:
        runner, task = self._runners.pop(key)
        runner.stop()
        assert self._pool is not None
        self._pool.remove(task)
        runner.resign()
        logger.info("link %s is not here any more", key[1])

    def _count_running(self) -> int:
        return sum(runner.is_leader for runner, _ in list(self._runners.values()))

    def _find_wait(self) -> float:
        return self._server.world.max_poll_seconds if self._count_running() <= _WAITING_LINKS else 0.0

    def _find_pause(self) -> float:
        """Returns the pause between two requests that do not wait, so that all links together ask at a steady rate."""
        return self._services.random.uniform(*_ASK_SECONDS) * max(1.0, self._count_running() / _WAITING_LINKS)
