"""What statements' handlers and ``system`` tables may use: the statement, and of the server what ``Server`` names.

The engine is such a server; nothing below it knows the engine itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from engine.catalog.catalog import Catalog
from engine.interserver.replication import Replication
from engine.queries.process_list import Process
from engine.queries.session import QueryStatistics, Session
from engine.remote.remote_servers import RemoteServers
from engine.server.config import Config
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.services import TableServices
from parts.common.query_status import QueryStatus
from parts.table.table_description import TableSchema
from sql.run.query_engine import QueryEngine
from sql.settings.supported_settings import (
    Settings,
)

Row = tuple[object, ...]


class SystemTableRows(Protocol):
    """What a server must know of one of its ``system`` tables."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> Callable[[Context, Sequence[str]], Iterable[Row]]:
        """One tuple a row, of the named columns."""


class QueryTotals(Protocol):
    """See :class:`engine.front.query_counts.Totals`."""

    def __getitem__(self, name: str) -> float: ...

    @property
    def errors(self) -> Mapping[str, float]: ...


class EmptyQueryTotals:
    """The query totals of an engine that nothing asks over a network: all zero."""

    errors: Mapping[str, float] = {}

    def __getitem__(self, name: str) -> float:
        return 0.0


class Server(Protocol):
    config: Config
    path: Path
    """Where metadata and data lie."""
    uuid: str
    catalog: Catalog
    services: TableServices
    replication: Replication
    remote: RemoteServers
    query_engine: QueryEngine
    system_schemas: Mapping[str, Mapping[str, TableSchema]]
    """The tables of the databases that are no directories."""

    def database_names(self) -> list[str]: ...

    def processes(self) -> Iterator[Process]:
        """The running statements, their counts as of now."""

    def replicas_status(self) -> list[ReplicaStatus]:
        """The status of every replicated table."""

    def system_rows(self, table: SystemTableRows, context: Context, columns: Sequence[str]) -> list[Row]:
        """The rows of a system table, as the statement of ``context`` sees them: of each the named columns."""

    @property
    def worker_rows(self) -> Callable[[], list[Row]]:
        """The rows of ``system.workers``."""

    @property
    def query_totals(self) -> Callable[[], QueryTotals]:
        """What all processes have counted of queries."""

    def zookeeper_rows(self, paths: Sequence[str]) -> list[Row]:
        """The rows of ``system.zookeeper``: the children of those nodes."""


@dataclass
class Context:
    """One statement in execution. ``settings`` are those of server, session and statement."""

    server: Server
    session: Session
    settings: Settings
    query_id: str
    body: BinaryIO | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    statistics: QueryStatistics = field(default_factory=QueryStatistics)
    status: QueryStatus = field(default_factory=QueryStatus)

    def database(self, name: str | None) -> str:
        return name if name is not None else self.session.database
