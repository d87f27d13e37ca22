"""The context of one statement, and the part of the server that handlers and system tables may use.

The engine implements ``Server``; nothing below it knows the engine itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from engine.catalog.catalog import Catalog
from engine.catalog.databases import Databases
from engine.interserver.replication import Replication
from engine.queries.process_list import Process
from engine.queries.server_links import LinkFreshness, LinkReadiness, ServerLinks
from engine.queries.session import QueryStatistics, Session
from engine.remote.cluster_membership import ClusterMembership
from engine.remote.linked_clusters import LinkedClusters
from engine.remote.remote_servers import RemoteServers
from engine.remote.replica_delays import Delays
from engine.server.config import Config
from engine.tables.capabilities.group_view import GroupView
from engine.tables.capabilities.link_status import LinkStatus
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.services import TableServices
from engine.tables.table import Table
from parts.common.query_status import QueryStatus
from parts.table.table_description import TableSchema
from sql.run.query_engine import QueryEngine
from sql.settings.supported_settings import (
    Settings,
)

Row = tuple[object, ...]


class SystemTableRows(Protocol):
    """A ``system`` table, as far as a server must know it."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def rows(self) -> Callable[[Context, Sequence[str]], Iterable[Row]]:
        """The function that returns the rows: one tuple per row, of the named columns."""


class QueryTotals(Protocol):
    """The counts of queries; see :class:`engine.front.query_counts.Totals`."""

    def __getitem__(self, name: str) -> float: ...

    @property
    def errors(self) -> Mapping[str, float]:
        """The number of errors by name."""


class EmptyQueryTotals:
    """Query totals of an engine without a network front: all zero."""

    errors: Mapping[str, float] = {}

    def __getitem__(self, name: str) -> float:
        return 0.0


class Server(Protocol):
    """The part of a server that handlers may use."""

    config: Config
    path: Path
    """The data directory."""
    uuid: str
    services: TableServices
    replication: Replication
    remote: RemoteServers
    linked_clusters: LinkedClusters
    query_engine: QueryEngine
    system_schemas: Mapping[str, Mapping[str, TableSchema]]
    """The tables of the built-in databases, such as ``system``."""

    @property
    def catalog(self) -> Databases[Table]:
        """The tables of the server."""

    @property
    def link_start(self) -> LinkReadiness:
        """Whether the server has caught up with the sources of its links since it started."""

    def database_names(self) -> list[str]:
        """Returns the names of all databases."""

    def processes(self) -> Iterator[Process]:
        """Yields the running statements with current counts."""

    def replicas_status(self) -> list[ReplicaStatus]:
        """Returns the status of every replicated table."""

    def replica_delays(self) -> Delays:
        """Returns by how many seconds each replicated table is behind, links included."""

    def system_rows(self, table: SystemTableRows, context: Context, columns: Sequence[str]) -> list[Row]:
        """Returns a system table's rows as the statement of ``context`` sees them, with the named columns."""

    @property
    def list_worker_rows(self) -> Callable[[], list[Row]]:
        """The function that returns the rows of ``system.workers``."""

    @property
    def query_totals(self) -> Callable[[], QueryTotals]:
        """The function that returns the counts of queries over all processes."""

    def zookeeper_rows(self, paths: Sequence[str]) -> list[Row]:
        """Returns the rows of ``system.zookeeper``: the children of those nodes."""

    def current_position(self, database: str, table: str) -> str:
        """Returns the position behind the newest commit of a replicated table. Raises 36, 48, 60, 225, 999."""

    def in_sync_clusters(self, database: str, table: str, position: str) -> list[str]:
        """Returns the clusters whose links have brought a table's changes up to a position.

        Raises 36, 48, 60, 225, 999.
        """

    def open_group_view(self, group: str, wanted: str, wait_seconds: float) -> GroupView:
        """Returns the tables of a group at the cut that is shown, which is at or behind the ``wanted`` one.

        Raises 36 for an unknown group, 159 if the cut is not shown in time, 369 if none is.
        """

    def require_link_freshness(self, database: str, table: str, demand: LinkFreshness) -> None:
        """Returns when a target of links is as fresh as demanded. Raises 36, 159, 369."""


class OwnerServer(Server, Protocol):
    """A server in the process that owns the tables."""

    links: ServerLinks
    cluster_membership: ClusterMembership

    def link_statuses(self) -> list[LinkStatus]:
        """Returns the cluster's links; none if ZooKeeper is away."""

    @property
    def catalog(self) -> Catalog:
        """The tables of the server."""


@dataclass
class Context:
    """One statement in execution. ``settings`` combine those of server, session and statement."""

    server: Server
    session: Session
    settings: Settings
    query_id: str
    body: BinaryIO | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    statistics: QueryStatistics = field(default_factory=QueryStatistics)
    status: QueryStatus = field(default_factory=QueryStatus)
    group_views: dict[str, GroupView] = field(default_factory=dict)
    """By group of links, the cut at which the whole statement reads its tables."""

    def take_group_view(self, group: str) -> GroupView:
        """Returns the cut at which the statement reads the tables of a group. Raises 159, 369."""
        found = self.group_views.get(group)
        if found is None:
            wanted, seconds = self.settings.link_read_cut, self.settings.link_wait_timeout_ms / 1000
            with self.status.waiting():
                found = self.group_views[group] = self.server.open_group_view(group, wanted, seconds)
        return found

    def database(self, name: str | None) -> str:
        """Returns the named database, or the session's current one."""
        return name if name is not None else self.session.database


@dataclass
class OwnerContext(Context):
    """One statement in execution in the process that owns the tables."""

    server: OwnerServer


def require_owner(context: Context) -> OwnerContext:
    """Returns the context of a statement that runs in the process that owns the tables."""
    assert isinstance(context, OwnerContext), "a worker sends the statement to the process that owns the tables"
    return context
