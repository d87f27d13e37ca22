"""The links that this server takes part in.

It finds them, runs those that it leads, and ends those that are gone.

Invariants:

- Each link of a table of this server has one runner here; of all servers with the table one leads and brings changes.
- A runner's step runs on the threads of links, so that waiting for other clusters delays nothing else.
- After :meth:`LinkManager.stop` no step runs, and no connection to another cluster is open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkStopped
from coordination.links.switching.lineage import EpochFork
from engine.catalog.catalog import Catalog
from engine.environment import ServerEnvironment
from engine.interserver.replication import Replication
from engine.links.bootstrap.link_copy import copy_table
from engine.links.exchange.cluster_client import ClusterClient, ClusterConfigs
from engine.links.exchange.link_service import LinkService
from engine.links.found_links import FoundLinks
from engine.links.groups.grouped_runner import GroupedRunner
from engine.links.link_beginning import BootstrapLink, CopyWaits
from engine.links.link_freshness import measure_lags
from engine.links.link_runner import LinkRunner
from engine.links.link_upstream import LinkUpstream
from engine.links.own_cluster import OwnCluster, OwnTransport
from engine.links.resting_links import RestingLink, RestingLinks
from engine.links.runner_world import RunnerWorld
from engine.links.switching.following import follow_fork
from engine.links.switching.local_tables import find_link_here
from engine.links.switching.telling import has_to_tell, tell_again
from engine.links.sync.mode_keeper import ModeKeeper, is_changing
from engine.links.sync.target_client import TargetClient
from engine.links.target_views import RunTargetViews
from engine.queries.server_links import ServerLinks
from engine.remote.cluster_membership import ClusterMembership
from engine.remote.linked_clusters import LinkedClusters
from engine.server.background_pool import BackgroundPool, BackgroundTask
from engine.server.config import Config
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""What is in memory is looked at so often; watches tell what changes in ZooKeeper."""
_MOST_COPIES = 8
"""Each holds a thread of links for as long as it takes; the other threads bring changes meanwhile."""


def _is_another(former: LinkDefinition, definition: LinkDefinition) -> bool:
    """Tells whether a link was made anew, or has another cluster to ask."""
    return (former.uuid, former.source_cluster) != (definition.uuid, definition.source_cluster)


class LinkingServer(Protocol):
    """The server of a :class:`LinkManager`."""

    catalog: Catalog
    world: ServerEnvironment
    services: TableServices
    replication: Replication
    cluster_membership: ClusterMembership
    linked_clusters: LinkedClusters
    link_answers: LinkService
    links: ServerLinks
    config: Config
    uuid: str


class LinkManager:
    """The links of one server. Implements ``engine.queries.server_links.ServerLinks``."""

    def __init__(self, server: LinkingServer) -> None:
        self._server = server
        self._services = server.services
        self.bootstrap: BootstrapLink | None = copy_table
        """Copies a table to a link's target."""
        self.run_views: RunTargetViews | None = None
        """Runs the views of a link's target."""
        self._copies = threading.BoundedSemaphore(_MOST_COPIES)
        self._clients: dict[str, ClusterClient] = {}
        self._resting: dict[str, RestingLinks] = {}
        self._runners: dict[tuple[OwnedTable, str], tuple[LinkRunner, BackgroundTask]] = {}
        self._lock = threading.Lock()
        self._pool: BackgroundPool | None = None
        self._task = BackgroundTask("find links", self._look)
        self._found = FoundLinks(server.catalog.tables, self._task.wake)
        self._modes: dict[OwnedTable, tuple[ModeKeeper, BackgroundTask]] = {}
        never = threading.Event()
        services = server.services
        services.sync_peers = TargetClient(
            self.connect, services.monotonic, lambda seconds: services.wait(never, seconds)
        )
        self._telling = BackgroundTask("tell forks", self._tell_forks)
        self._is_telling = False
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
        for resting in self._resting.values():
            assert self._pool is not None
            self._pool.remove(resting.task)
        if self._is_telling:
            self._require_pool().remove(self._telling)
        for key in list(self._runners):
            self._end(key)
        for table in list(self._modes):
            self._end_modes(table)
        if self._pool is not None:
            self._pool.stop()
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    @property
    def can_copy(self) -> bool:
        """Whether this server can copy a table to a link's target."""
        return self.bootstrap is not None

    # -- for statements and system tables -----------------------------------------------------------------------------

    def connect(self, cluster: str) -> ClusterClient:
        """Returns a cluster of ``linked_clusters``, or this server's own.

        Raises 36 (BAD_ARGUMENTS) for another name.
        """
        client = self._get_client(cluster)
        client.require_configured()
        return client

    def _get_client(self, cluster: str) -> ClusterClient:
        server = self._server
        is_own = cluster == server.config.cluster_name and cluster not in server.linked_clusters.names()
        configs: ClusterConfigs = OwnCluster() if is_own else server.linked_clusters
        with self._lock:
            if cluster not in self._clients:
                self._clients[cluster] = ClusterClient(
                    cluster,
                    configs,
                    (lambda *_: OwnTransport(server.link_answers)) if is_own else server.world.make_transport,
                    self._get_own,
                    server.replication.require_keeper,
                    self._services.monotonic,
                    lambda: server.cluster_membership.shard,
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

    def measure_lags(self) -> Mapping[str, float]:
        """Returns by how many seconds tables may be behind the sources of their links, by ``database.table``.

        Infinity: nobody has told yet. Links that other servers run are left out while ZooKeeper is away.
        """
        running = [(table, name, runner.progress) for (table, name), (runner, _) in list(self._runners.items())]
        return measure_lags(running, self._server.replication.keeper, self._services.clock())

    def _get_own(self) -> ClusterIdentity:
        return self._server.cluster_membership.get_identity(self._server.replication.require_keeper())

    # -- finding ------------------------------------------------------------------------------------------------------

    def _look(self) -> float:
        if self._is_stopping:
            return _LOOK_SECONDS
        links = self._found.look()
        if not self._is_telling and has_to_tell(self._server):
            self._is_telling = True
            self._require_pool().add(self._telling)
        groups = set[str]()
        """Those of which a link changed: the others of the group may rest."""
        for key in [key for key in self._runners if key not in links]:
            self._end(key)
        for key, definition in links.items():
            found = self._runners.get(key)
            if found is not None and _is_another(found[0].definition, definition):
                self._end(key)
                found = None
            try:
                if found is None:
                    self._begin(key, definition)
                elif found[0].definition != definition:
                    groups |= {found[0].definition.group, definition.group} - {""}
                    found[0].redefine(definition)
                    found[1].wake()
            except PandoError as error:
                logger.warning("link %s does not run yet: %s", definition.name, error.message)
        for runner, task in self._runners.values():
            if runner.definition.group in groups:
                task.wake()
        self._look_for_modes()
        return _LOOK_SECONDS

    def _look_for_modes(self) -> None:
        """Begins to keep the modes of tables that are sources, and ends it for those that are gone."""
        changing = [
            table
            for table in self._server.catalog.tables()
            if table.links is not None
            and table.replication is not None
            and not table.is_stopping.is_set()
            and any(map(is_changing, table.links.source.list_gate_links()))
        ]
        for table in [table for table in self._modes if table not in changing]:
            self._end_modes(table)
        for table in changing:
            if table in self._modes:
                self._modes[table][1].wake()
            else:
                self._begin_modes(table)

    def _begin_modes(self, table: OwnedTable) -> None:
        task = BackgroundTask(f"modes of links of {table.definition.full_name}", lambda: keeper.step())
        name = self._server.replication.macros.get("replica", self._server.uuid)
        keeper = ModeKeeper(table, self._services, name, lambda: self._get_own().uuid, task.wake)
        self._modes[table] = keeper, task
        if self._pool is None:
            self._pool = self._server.world.make_link_pool()
        self._pool.add(task)

    def _end_modes(self, table: OwnedTable) -> None:
        keeper, task = self._modes.pop(table)
        keeper.stop()
        assert self._pool is not None
        self._pool.remove(task)
        keeper.resign()

    def _begin(self, key: tuple[OwnedTable, str], definition: LinkDefinition) -> None:
        own = self._get_own()
        client = self._get_client(definition.source_cluster)
        world = RunnerWorld(
            self._services,
            self._server.replication.macros.get("replica", self._server.uuid),
            (own.name, own.uuid),
            self._count_running,
            self._find_wait,
            partial(self._rest, client),
            lambda: self._copy if self.bootstrap is not None else None,
            self.run_views,
            self._follow_fork,
            lambda: [runner for runner, _ in list(self._runners.values())],
        )
        task = BackgroundTask(f"link {definition.name}", lambda: runner.step())
        runner = GroupedRunner(definition, key[0], client, world, task.wake)
        pool = self._require_pool()
        self._runners[key] = runner, task
        pool.add(task)
        logger.info("link %s from cluster %s is found", definition.name, definition.source_cluster)

    def _require_pool(self) -> BackgroundPool:
        if self._pool is None:
            self._pool = self._server.world.make_link_pool()
        return self._pool

    def _end(self, key: tuple[OwnedTable, str]) -> None:
        runner, task = self._runners.pop(key)
        if (resting := self._resting.get(runner.definition.source_cluster)) is not None:
            resting.forget(key[1])
        runner.stop()
        assert self._pool is not None
        self._pool.remove(task)
        runner.resign()
        logger.info("link %s is not here any more", key[1])

    def _copy(
        self,
        definition: LinkDefinition,
        table: OwnedTable,
        upstream: LinkUpstream,
        status: QueryStatus,
        tell: Callable[[str], object],
    ) -> None:
        """Copies a table when it is its turn."""
        assert self.bootstrap is not None
        if not self._copies.acquire(blocking=False):
            raise CopyWaits(f"{_MOST_COPIES} tables are being copied by this server already; this one waits")
        try:
            self.bootstrap(definition, table, upstream, status, tell)
        finally:
            self._copies.release()

    def _follow_fork(self, definition: LinkDefinition, fork: EpochFork) -> None:
        """Makes a link follow the table that was promoted."""
        found = find_link_here(self._server, definition.name, definition.uuid)
        if found is None:
            return
        try:
            follow_fork(self._server, *found, fork)
        except UserError as error:
            raise LinkStopped(error.message) from error

    def _tell_forks(self) -> float:
        return tell_again(self._server)

    def _count_running(self) -> int:
        return sum(runner.is_leader for runner, _ in list(self._runners.values()))

    def _find_wait(self) -> float:
        world = self._server.world
        return world.max_poll_seconds if self._count_running() <= world.max_waiting_links else 0.0

    def _rest(self, client: ClusterClient, name: str, link: RestingLink) -> None:
        """Lets a link rest until its cluster has news of it."""
        with self._lock:
            found = self._resting.get(client.name)
            if found is None:
                found = self._resting[client.name] = RestingLinks(
                    client, self._services.monotonic, self._server.world.max_poll_seconds
                )
                assert self._pool is not None
                self._pool.add(found.task)
        found.rest(name, link)
