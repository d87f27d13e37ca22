"""A worker process: serves HTTP, plans, runs SELECT over the files, writes the parts of INSERTs.

It owns nothing that another process could not make anew. The replica process carries out what changes the server: whole
statements (``StatementKind.runs_in_owner``), commits of the parts that the worker wrote, and rows of ``system`` tables
about more than this process. When the replica process is gone, queries get 210 and the worker ends.
"""

from __future__ import annotations

import logging
import os
import resource
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.engine import make_spill_directory
from engine.environment import make_system_services
from engine.front.http.http_server import HttpServer
from engine.front.http.status_pages import OK_PAGE, StatusPage
from engine.front.login_throttle import FailedLogins, LoginThrottle
from engine.front.prometheus_metrics import Metrics
from engine.front.query_counts import QueryCounts
from engine.interpreter.dispatch import STATEMENTS, execute_statement
from engine.queries.context import Context, Row, SystemTableRows
from engine.queries.server_links import LinkFreshness
from engine.queries.session import QueryResult, Session
from engine.remote.replica_delays import Delays
from engine.server.config import Config
from engine.statement_runner import StatementRunner
from engine.system_tables import SYSTEM_DATABASES, built_in_objects, processes, settings
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.services import TableServices
from engine.workers.catalog_mirror import WorkerCatalog
from engine.workers.catalog_publication import PublishedChanges
from engine.workers.channel import CallClient, Channel, serve_calls
from engine.workers.connections.connection_states import ConnectionStates
from engine.workers.connections.receiver import make_worker_http_server
from engine.workers.fork_server import set_process_name
from engine.workers.link_calls import ReplicaProcessLinks, ReplicaProcessLinkStart
from engine.workers.other_workers import OtherWorkers
from engine.workers.replica_client import ReplicaProcessClient
from engine.workers.shared_page import SharedPage
from engine.workers.worker_group_view import WorkerGroupView
from engine.workers.worker_leases import WorkerLeases
from parts.common.errors import UnavailableError
from parts.common.process_memory import configure_allocators, freeze_heap, get_bytes_below_data_limit, release_memory
from sql.grammar.statements.statement import ParsedStatement
from sql.run.duckdb import database
from sql.run.query_engine import QueryEngine

logger = logging.getLogger(__name__)

REPLICA_PROCESS_GONE_MESSAGE = "The replica process of this server is gone; retry later or on another replica"
_BEAT_SECONDS = 0.5
_WALL_SHARE = 1.25
_WALL_SLACK_BYTES = 2 << 30
_LEAST_ROOM_BYTES = 32 << 20
"""Below the wall: some threads' stacks. A worker that has had less for some beats retires: it leaks."""
_MOST_BEATS_AT_WALL = 4

_TOLD_HERE = frozenset(
    id(table)
    for table in (*built_in_objects.TABLES, *settings.TABLES, *processes.TABLES)
    if table.name not in ("processes", "workers")
)
"""The ``system`` tables, not others of their names, that say the same in every process or speak of this session."""


@dataclass(frozen=True)
class InheritedResources:
    """The resources that all processes of a server have from before the first fork."""

    config: Config
    page: SharedPage
    publication: int
    """The file of memory with what the replica process publishes."""
    connections: ConnectionStates
    counts: QueryCounts
    """A row for each worker, and one for the replica process; so have the following."""
    failed_logins: FailedLogins


class WorkerServer(StatementRunner):
    """Implements ``engine.queries.context.Server`` with the tables of the replica process."""

    def __init__(self, number: int, common: InheritedResources, replica: ReplicaProcessClient) -> None:
        other_processes = OtherWorkers(common.page, number, common.config.worker_count, list(common.config.users))
        super().__init__(common.config, _services(common.config), other_processes)
        self.path = common.config.path.absolute()
        self.replica = replica
        self.system_schemas = {
            database: {name: table.schema for name, table in tables.items()}
            for database, tables in SYSTEM_DATABASES.items()
        }
        self.query_engine = QueryEngine()
        self.link_answers = ReplicaProcessLinks(replica)
        self.link_start = ReplicaProcessLinkStart(replica, common.page)
        published = PublishedChanges(common.page, common.publication)
        self.mirror = self.catalog = WorkerCatalog(
            common.config,
            self.services,
            number,
            common.page,
            published,
            replica,
        )

    @cached_property
    def uuid(self) -> str:  # type: ignore[override]
        return self.replica.uuid()

    def start(self) -> None:
        configure_allocators()
        spill = make_spill_directory(self.config, str(os.getpid()))
        database.configure_spill(database.SpillSettings(spill, self.config.max_temporary_data_on_disk_size))
        self._watchdog.start()

    def stop(self) -> None:
        self.stop_statements()
        self._watchdog.stop()
        self.services.housekeeping.stop()
        self.services.writers.shutdown(wait=True)

    def warm_up(self) -> None:
        """The first query of a process opens DuckDB, which takes a while."""
        list(self.execute("SELECT sum(number) FROM numbers(10)", Session()).batches)

    def database_names(self) -> list[str]:
        return sorted([*self.catalog.databases(), *self.system_schemas])

    def replicas_status(self) -> list[ReplicaStatus]:
        return self.replica.replicas_status()

    def replica_delays(self) -> Delays:
        return self.replica.replica_delays()

    def system_rows(self, table: SystemTableRows, context: Context, columns: Sequence[str]) -> list[Row]:
        if id(table) in _TOLD_HERE:
            return super().system_rows(table, context, columns)
        home = next(name for name, tables in SYSTEM_DATABASES.items() if tables.get(table.name) is table)
        return self.replica.system_rows(home, table.name, context, columns)

    def zookeeper_rows(self, paths: Sequence[str]) -> list[Row]:
        return self.replica.zookeeper_rows(paths)

    def current_position(self, database: str, table: str) -> str:
        return self.replica.current_position(database, table)

    def in_sync_clusters(self, database: str, table: str, position: str) -> list[str]:
        return self.replica.in_sync_clusters(database, table, position)

    def open_group_view(self, group: str, wanted: str, wait_seconds: float) -> WorkerGroupView:
        view = WorkerGroupView(self.replica, *self.replica.open_group_view(group, wanted, wait_seconds))
        self.mirror.mirror.catch_up()
        return view

    def require_link_freshness(self, database: str, table: str, demand: LinkFreshness) -> None:
        self.replica.require_link_freshness(database, table, demand)
        self.mirror.mirror.catch_up()

    def _is_current(self) -> bool:
        return self.mirror.mirror.is_current() and super()._is_current()

    def _carry_out(self, parsed: ParsedStatement, text: str, context: Context) -> QueryResult:
        self.mirror.mirror.catch_up()  # also for statements that look for no table: short ones need it done
        if STATEMENTS[type(parsed.statement)].runs_in_owner or parsed.on_cluster is not None:
            return self.replica.execute(parsed, text, context)
        return execute_statement(parsed, context)

    def process_rows(self) -> list[dict[str, Any]]:
        """The running statements, as ``pool`` shows them in the replica process."""
        return [process.facts() for process in self.processes()]


class WorkerStatusPages:
    """Implements ``engine.front.http.status_pages.StatusPages``: the replica process knows."""

    def __init__(self, replica: ReplicaProcessClient) -> None:
        self._replica = replica

    def ping(self) -> StatusPage:
        return OK_PAGE

    def replicas_status(self, *, verbose: bool) -> StatusPage:
        return self._replica.page("replicas_status", verbose=verbose)

    def replica_delays(self) -> StatusPage:
        return self._replica.page("replica_delays")

    def ready(self) -> StatusPage:
        return self._replica.page("ready")

    def metrics(self) -> StatusPage:
        return self._replica.page("metrics")


class Worker:
    """One worker process, from its fork to its end."""

    def __init__(self, number: int, common: InheritedResources, control: Channel) -> None:
        self._number = number
        self._common = common
        self._control = control
        self._end = threading.Event()
        self.server = WorkerServer(
            number, common, ReplicaProcessClient(CallClient(self._new_channel, REPLICA_PROCESS_GONE_MESSAGE))
        )
        self.metrics = Metrics(self.server, common.counts, number)

    def run(self, door: socket.socket, questions: socket.socket) -> None:
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        with ExitStack() as running:
            self.server.start()
            running.callback(self.server.stop)
            self.server.warm_up()
            http = self._serve(door)
            running.callback(http.stop)
            freeze_heap()
            threading.Thread(target=self._answer, args=(Channel(questions),), name="questions", daemon=True).start()
            self._control.send(("ready",))
            self._end.wait()

    def _serve(self, door: socket.socket) -> HttpServer:
        http = make_worker_http_server(self._common.config, door, self._common.connections, self._replica_is_gone)
        leases = WorkerLeases(self.server.replica)
        http.start(
            self.server,
            WorkerStatusPages(self.server.replica),
            self.metrics,
            sessions=self.server.replica,
            leases=leases,
            throttle=LoginThrottle(self.server.services.monotonic, self._common.failed_logins, self._number),
        )
        return http

    def _new_channel(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            self._control.send(("channel",), [theirs.fileno()])
        finally:
            theirs.close()
        return ours

    def _beat(self) -> None:
        """For the watch over workers that do not yield: a thread that gets no turn does not beat."""
        beats_at_wall = 0
        while True:
            self._common.page.beat[self._number] = int(self.server.services.monotonic() * 1e9)
            beats_at_wall = beats_at_wall + 1 if get_bytes_below_data_limit() < _LEAST_ROOM_BYTES else 0
            if beats_at_wall:
                release_memory()
            if beats_at_wall == _MOST_BEATS_AT_WALL:
                logger.error("this process is at the system's limit of its memory and makes room for another")
                self._control.send(("retire",))
            if self._end.wait(_BEAT_SECONDS):
                return

    def _answer(self, questions: Channel) -> None:
        """What the replica process asks. Its end is this process's."""
        serve_calls(questions, lambda name, arguments, _: getattr(self, f"_on_{name}")(*arguments))
        self._replica_is_gone()

    def _replica_is_gone(self) -> None:
        """From any thread, perhaps several times."""
        if not self._end.is_set():
            self.server.stop_statements(UnavailableError("NETWORK_ERROR", REPLICA_PROCESS_GONE_MESSAGE))
            self._end.set()

    # -- questions ------------------------------------------------------------------------------------------------

    def _on_processes(self) -> list[dict[str, Any]]:
        return self.server.process_rows()

    def _on_kill(self, query_id: str) -> bool:
        return self.server.kill_query(query_id)

    def _on_drain(self) -> None:
        """Running queries get their time; the process ends after the last."""
        self._end.set()


def run_worker(
    common: InheritedResources, number: int, control: socket.socket, door: socket.socket, questions: socket.socket
) -> None:
    """Runs a worker in the child that the fork server made; returns when the worker is to end."""
    set_process_name(f"pando worker {number}")
    wall = int(common.config.memory_limit_bytes * _WALL_SHARE) + _WALL_SLACK_BYTES
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (wall if most == resource.RLIM_INFINITY else min(wall, most), most))
    _prefer_this_to_the_replica_process()
    Worker(number, common, Channel(control)).run(door, questions)


def _prefer_this_to_the_replica_process() -> None:
    """When the machine's memory is at its end a worker is to go: it is replaced within a second."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        logger.debug("the score for the end of memory cannot be set")


def _services(config: Config) -> TableServices:
    services = make_system_services(config.model_copy(update={"background_pool_size": 1}))
    services.workers.stop()
    services.owner = str(os.getpid())
    return services
