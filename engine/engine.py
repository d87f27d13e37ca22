"""The engine: one server's databases, background work and query execution, without any network front.

``pando local`` uses it directly; the HTTP interface and everything behind it call :meth:`Engine.execute`.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from coordination.links.positions import Position
from coordination.links.table_position import read_current_position
from engine.background_check import BackgroundCheck
from engine.catalog.catalog import Catalog
from engine.data_directory import load_server_uuid
from engine.distributed_ddl.ddl_worker import DdlWorker
from engine.environment import ServerEnvironment
from engine.interpreter.materialized_views.link_views import LinkViews
from engine.links.bootstrap.held_source import add_bootstrap_answers
from engine.links.databases.database_links import DatabaseLinks
from engine.links.exchange.link_service import LinkService
from engine.links.groups.cut_source import make_cut_answer
from engine.links.in_sync_clusters import list_in_sync_clusters
from engine.links.link_freshness import require_fresh
from engine.links.link_manager import LinkManager
from engine.links.link_start import LinkStart
from engine.links.link_statuses import list_link_statuses
from engine.links.origin_survey import OriginSurveys
from engine.links.switching.answers import SwitchingAnswers
from engine.links.sync.sync_answers import add_sync_answers
from engine.links.tracker.link_tracker import LinkTracker
from engine.queries.context import EmptyQueryTotals, OwnerContext, QueryTotals, Row
from engine.queries.process_list import Process
from engine.queries.server_links import LinkFreshness, ServerLinks, UnlinkedServer
from engine.remote.cluster_membership import ClusterMembership
from engine.remote.own_shard import find_own_shard
from engine.remote.replica_delays import Delays
from engine.server.background_pool import BackgroundTask
from engine.server.config import Config
from engine.statement_runner import StatementRunner
from engine.system_tables import SYSTEM_DATABASES
from engine.table_engines import make_table
from engine.tables.capabilities.link_status import LinkStatus
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.owned_table import OwnedTable
from engine.tables.replica_conversion import Conversion
from engine.tables.replicated.links.groups.held_view import HeldView, open_group_view
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UserError
from parts.common.process_memory import configure_allocators, without_collections
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import make_directories
from sql.run.duckdb import database
from sql.run.query_engine import QueryEngine
from sql.settings.merge_tree_settings import MergeTreeSettings, build_merge_tree_settings

logger = logging.getLogger(__name__)


class Engine(StatementRunner):
    """Everything one server process holds. Start it once, use it from any thread, stop it once."""

    catalog: Catalog
    context_class = OwnerContext
    link_answers: LinkService

    def __init__(self, config: Config, world: ServerEnvironment | None = None) -> None:
        self.world = world or ServerEnvironment()
        super().__init__(config, self.world.make_services(config))
        self.path = config.path.absolute()
        self.system_schemas = {
            database: {name: table.schema for name, table in tables.items()}
            for database, tables in SYSTEM_DATABASES.items()
        }
        self.query_engine = QueryEngine()
        settings = build_merge_tree_settings(config.merge_tree, MergeTreeSettings())
        self.catalog = Catalog(self.path, config.temporary_path, self._make_table, settings, config.rollups)
        self.list_other_processes: Callable[[], Iterable[Process]] = tuple
        """The statements that run in other processes of this server."""
        self.list_worker_rows: Callable[[], list[Row]] = list
        self.query_totals: Callable[[], QueryTotals] = EmptyQueryTotals
        """Of ``system.workers``."""
        self.cluster_membership = ClusterMembership(
            config.cluster_name, self.services.new_uuid, partial(find_own_shard, config)
        )
        self.link_answers = LinkService(self)
        add_bootstrap_answers(self.link_answers, self.catalog)
        self.link_answers.add("origin", OriginSurveys(self).answer)
        add_sync_answers(self, self.link_answers)
        SwitchingAnswers(self).add_to(self.link_answers)
        cut_answer = make_cut_answer(self.link_answers, self.catalog, self.services)
        self.link_answers.add("cut", cut_answer, changes=True)
        self.links: ServerLinks = UnlinkedServer()
        """The links; without ``cluster_name`` none."""
        self.link_start: LinkStart = LinkStart(self, has_links=config.cluster_name is not None)
        self._ddl_worker: DdlWorker | None = None
        self._on_stop = ExitStack()

    def start(self, *, in_background: bool = False) -> None:
        """Loads every table and starts background work.

        Replicated tables start read-only while ZooKeeper is away. With ``in_background`` they always do, and become
        writable soon after this returns. On failure everything is stopped again. Raises 76 when another process has the
        directory.
        """
        configure_allocators()
        try:
            make_directories(self.path)
            self._on_stop.callback(self.world.lock(self.path))
            self.uuid = load_server_uuid(self.path, self.services.new_uuid)
            if not self.config.worker_count:  # else workers have begun to spill
                remove_spill_directories(self.config)
            database.configure_spill(
                database.SpillSettings(make_spill_directory(self.config), self.config.max_temporary_data_on_disk_size)
            )
            if self.world.has_watchdog:
                self._watchdog.start()
                self._on_stop.callback(self._watchdog.stop)
            self.replication = self.world.connect(self.config, self.path, self.services.failpoint)
            self._on_stop.callback(self.replication.stop)
            self._on_stop.callback(self._stop_background)
            self.cluster_membership.join(self.replication.keeper)
            self.replication.get_cluster_uuid = self._get_cluster_uuid
            self.replication.check_clients_may_write = self.link_start.check_clients_may_write
            self.catalog.conversion = Conversion(self.replication, self.services)
            self.replication.are_sessions_begun_later = in_background
            with without_collections():
                self.catalog.load()
            self.replication.end_start()
            self._start_background_check()
            if self.replication.keeper is not None and self.config.cluster_name is not None:
                self._start_links()
            else:
                self.link_start.open()
            if self.replication.keeper is not None and self.config.remote_servers:
                self._start_distributed_ddl()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Cancels running queries, ends background work, and closes the ZooKeeper session last. Twice is fine."""
        if self._ddl_worker is not None:
            self._ddl_worker.stop()
        self.stop_statements()
        self._on_stop.close()

    def _start_distributed_ddl(self) -> None:
        self._ddl_worker = worker = DdlWorker(self)
        task = BackgroundTask("distributed DDL", worker.run_once)
        worker.wake = task.wake
        self.services.workers.add(task)
        self._on_stop.callback(self.services.workers.remove, task)

    def _start_links(self) -> None:
        self.links = manager = LinkManager(self)
        manager.run_views = LinkViews(self)
        manager.start()
        self._on_stop.callback(manager.stop)
        task = BackgroundTask("links of databases", DatabaseLinks(self).run_once)
        self.services.workers.add(task)
        self._on_stop.callback(self.services.workers.remove, task)
        tracker = BackgroundTask("tracker of links", LinkTracker(self).run_once)
        self.services.workers.add(tracker)
        self._on_stop.callback(self.services.workers.remove, tracker)
        self.link_start.start()
        self._on_stop.callback(self.link_start.stop)

    def _start_background_check(self) -> None:
        speed = self.config.background_check_bytes_per_second
        if speed:
            check = BackgroundCheck(self.catalog.tables, self.services, speed, self.config.background_check_interval)
            check.start()
            self._on_stop.callback(check.stop)

    def _stop_background(self) -> None:
        self.catalog.stop()
        self.services.housekeeping.stop()
        self.services.workers.stop()
        self.services.writers.shutdown(wait=True)

    def _make_table(self, definition: TableDefinition) -> OwnedTable:
        return make_table(definition, self.services, self.replication)

    def _get_cluster_uuid(self) -> str:
        return self.cluster_membership.get_identity(self.replication.require_keeper()).uuid

    def current_position(self, database: str, table: str) -> str:
        """Returns the position behind the newest commit of a replicated table.

        Raises 36 (BAD_ARGUMENTS) for another table, and without ``cluster_name``.
        """
        found = self.catalog.table(database, table)
        replica = found.replication
        if replica is None:
            name = found.definition.full_name
            raise UserError("BAD_ARGUMENTS", f"Only Replicated tables have positions, and {name} is none")
        return read_current_position(replica.require_keeper(), replica.paths, self._get_cluster_uuid())

    def in_sync_clusters(self, database: str, table: str, position: str) -> list[str]:
        """Returns the clusters whose links have brought a table's changes up to a position.

        Raises 36 (BAD_ARGUMENTS) for a table that is not Replicated, and a position of another origin.
        """
        return list_in_sync_clusters(self.catalog.table(database, table), Position.parse(position))

    def open_group_view(self, group: str, wanted: str, wait_seconds: float) -> HeldView:
        return open_group_view(self.services, group, wanted, wait_seconds)

    def require_link_freshness(self, database: str, table: str, demand: LinkFreshness) -> None:
        require_fresh(self, self.catalog.table(database, table), demand, QueryStatus())

    # -- what there is ------------------------------------------------------------------------------------------

    def database_names(self) -> list[str]:
        return sorted([*self.catalog.databases(), *self.system_schemas])

    def processes(self) -> Iterator[Process]:
        others = {process.query_id: process for process in self.list_other_processes()}
        yield from others.values()
        yield from (process for process in super().processes() if process.query_id not in others)

    def replicas_status(self) -> list[ReplicaStatus]:
        """The status of every replicated table. Replicas of tables that could not be loaded do not take part."""
        failed = [each for each in self.catalog.list_not_loaded() if each.may_be_replicated]
        return [
            *(ReplicaStatus(f"{each.database}.{each.name}", 0.0, each.error().message, "") for each in failed),
            *self._loaded_replicas(),
        ]

    def replica_delays(self) -> Delays:
        delays, lags = super().replica_delays(), self.links.measure_lags()
        return {name: max(delay, lags.get(name, 0.0)) for name, delay in delays.items()}

    def link_statuses(self) -> list[LinkStatus]:
        try:
            return list_link_statuses(self)
        except PandoError as error:
            logger.debug("the links are not listed: %s", error)
            return []

    def _loaded_replicas(self) -> list[ReplicaStatus]:
        found = []
        for table in self.catalog.tables():
            replica = table.replication
            if replica is None:
                continue
            refusal = self.link_start.explain_refusal(table)
            found.append(
                ReplicaStatus(
                    table.definition.full_name,
                    replica.delay_seconds(),
                    replica.problem() or refusal or None,
                    replica.warning or self.link_start.warn(table),
                    replica.has_started and not refusal,
                    replica.is_starting,
                )
            )
        return found


def make_spill_directory(config: Config, owner: str = "") -> Path:
    """Returns the directory where queries put what does not fit into memory.

    ``owner`` names one of several processes.
    """
    directory = config.temporary_path / f"spill{owner and '-'}{owner}"
    make_directories(directory)
    return directory


def remove_spill_directories(config: Config, owner: str = "*") -> None:
    """Removes what killed processes have spilled: one owner's, or everything."""
    for directory in config.temporary_path.glob(f"spill-{owner}"):
        shutil.rmtree(directory, ignore_errors=True)
    if owner == "*":
        shutil.rmtree(config.temporary_path / "spill", ignore_errors=True)


def make_temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory for an engine that keeps nothing."""
    return tempfile.TemporaryDirectory(prefix="pando-local-")
