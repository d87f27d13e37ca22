"""Runs statements: from text to a result, as a process that can be listed, killed and limited.

What a statement does is up to its handler (``engine.interpreter``). A handler sees of the server only what
:class:`engine.queries.context.Server` names.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.catalog.databases import Databases
from engine.interpreter import execute_statement
from engine.interpreter.session_relations import CatalogRelations
from engine.interpreter.temporary_tables import forget_dropped_tables, resolve_names
from engine.interserver.replication import Replication
from engine.links.exchange.link_service import LinkAnswers
from engine.queries.context import Context, QueryTotals, Row, SystemTableRows
from engine.queries.other_processes import OtherProcesses
from engine.queries.process_list import Process, ProcessList
from engine.queries.result_errors import translate_errors
from engine.queries.server_links import LinkFreshness, LinkReadiness
from engine.queries.session import QueryResult, QueryStatistics, Session
from engine.queries.settings_constraints import check_settings_change
from engine.queries.watchdog import Watchdog
from engine.remote.linked_clusters import LinkedClusters
from engine.remote.remote_servers import RemoteServers
from engine.remote.replica_delays import Delays, collect_delays
from engine.server.config import Config
from engine.system_tables import zookeeper
from engine.tables.capabilities.group_view import GroupView
from engine.tables.capabilities.link_status import LinkStatus
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.services import TableServices
from engine.tables.table import Table
from parts.common.errors import CorruptionError, PandoError, UserError, convert_resource_error
from parts.common.query_status import MemoryTracker, QueryStatus
from parts.table.table_description import TableSchema
from sql.grammar.dialect_translation import (
    check_statement_dialect,
    get_dialect_defaults,
    translate_to_clickhouse,
)
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.statement_parser import parse_statements
from sql.grammar.statements.statement import Insert, ParsedStatement, SelectQuery
from sql.run.query_engine import QueryEngine
from sql.run.short_queries.short_plans import EVENT_LOOP_LIMITS, THREAD_LIMITS, ShortQueryLimits
from sql.run.short_queries.short_query_cache import ShortQueryCache
from sql.run.short_queries.statement_shapes import MAX_SHAPED_CHARACTERS
from sql.settings.session_settings import make_settings
from sql.settings.setting_values import CLICKHOUSE_DIALECT
from sql.settings.supported_settings import Settings

logger = logging.getLogger(__name__)

_SHOWN_TEXT = 10_000
"""system.processes shows this many characters of a statement."""
_SHORT_SECONDS = 1.0
_SHORT_BYTES = 64 << 20
"""A query with a lower limit of time or memory never takes the short way, which cannot enforce it exactly."""
_LONG_TEXT = 100_000
"""Characters. Parsing a longer text takes so long that it must be possible to kill it."""


class StatementRunner(ABC):
    """The part of a server that runs statements. Thread-safe. Subclasses complete the protocol ``Server``."""

    path: Path
    uuid: str
    catalog: Databases[Table]
    context_class: type[Context] = Context
    replication: Replication
    query_engine: QueryEngine
    link_start: LinkReadiness
    list_worker_rows: Callable[[], list[Row]]
    query_totals: Callable[[], QueryTotals]
    system_schemas: Mapping[str, Mapping[str, TableSchema]]
    link_answers: LinkAnswers
    """What the server answers to other clusters."""

    def __init__(self, config: Config, services: TableServices, other_processes: OtherProcesses | None = None) -> None:
        self.config = config
        self.services = services
        self.remote = RemoteServers(config, services.monotonic, services.clock)
        self.linked_clusters = LinkedClusters(config)
        self._processes = ProcessList(
            services.monotonic,
            MemoryTracker("total", config.memory_limit_bytes),
            on_add=lambda: self._watchdog.wake(),
            other_processes=other_processes,
        )
        self._watchdog = Watchdog(self._processes)

    @abstractmethod
    def database_names(self) -> list[str]:
        """Returns the names of all databases."""

    def processes(self) -> Iterator[Process]:
        """Yields the running statements with current counts."""
        for process in self._processes:
            process.refresh_statistics()
            yield process

    @abstractmethod
    def replicas_status(self) -> list[ReplicaStatus]:
        """Returns the status of every replicated table."""

    def replica_delays(self) -> Delays:
        """Returns by how many seconds each replicated table is behind, links included."""
        return collect_delays(self.replicas_status())

    def link_statuses(self) -> list[LinkStatus]:
        """Returns the cluster's links; none if this process does not know them, or ZooKeeper is away."""
        return []

    def system_rows(self, table: SystemTableRows, context: Context, columns: Sequence[str]) -> list[Row]:
        """Returns a system table's rows as the statement of ``context`` sees them, with the named columns."""
        return list(table.rows(context, columns))

    def zookeeper_rows(self, paths: Sequence[str]) -> list[Row]:
        """Returns the rows of ``system.zookeeper``.

        Raises 225 (NO_ZOOKEEPER) without ZooKeeper, 999 (KEEPER_EXCEPTION) for a node that does not exist.
        """
        return zookeeper.list_children(lambda name: self.replication.connect_to(name).require_keeper(), paths)

    @abstractmethod
    def current_position(self, database: str, table: str) -> str:
        """Returns the position behind the newest commit of a replicated table."""

    @abstractmethod
    def in_sync_clusters(self, database: str, table: str, position: str) -> list[str]:
        """Returns the clusters whose links have brought a table's changes up to a position."""

    @abstractmethod
    def open_group_view(self, group: str, wanted: str, wait_seconds: float) -> GroupView:
        """Returns the tables of a group of links at the cut that is shown."""

    @abstractmethod
    def require_link_freshness(self, database: str, table: str, demand: LinkFreshness) -> None:
        """Returns when a target of links is as fresh as demanded."""

    def _carry_out(self, parsed: ParsedStatement, text: str, context: Context) -> QueryResult:
        return execute_statement(parsed, context)

    def end_session(self, session: Session) -> None:
        """Drops the temporary tables of a session."""
        for name in session.temporary_tables.values():
            try:
                self.catalog.drop_table(TEMPORARY_DATABASE, name)
            except PandoError as error:
                logger.warning("temporary table %s of a session that ended stays: %s", name, error)
        session.temporary_tables.clear()

    def count_other_queries(self) -> int:
        """Returns the number of statements that other processes of this server run."""
        return self._processes.other_processes.count_queries()

    def kill_query(self, query_id: str) -> bool:
        """Cancels the query with this id; returns whether there was one."""
        return self._processes.kill(query_id)

    def stop_statements(self, reason: PandoError | None = None) -> None:
        """Ends all running statements with the error ``reason``, or as cancelled."""
        for process in self._processes:
            process.stop(reason)

    def execute(
        self,
        sql: str,
        session: Session,
        body: BinaryIO | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Runs one statement; ``body`` continues an INSERT's inline data. Raises ``PandoError``."""
        return self.execute_parsed(self.parse(sql, session), sql, session, body, parameters)

    def parse(
        self, text: str, session: Session, on_start: Callable[[Process], None] = lambda _: None
    ) -> ParsedStatement:
        """Parses a text of exactly one statement.

        Parsing a long text is listed as a process, which ``on_start`` gets. Raises 62 (SYNTAX_ERROR).
        """
        if session.settings.get("dialect", CLICKHOUSE_DIALECT) != CLICKHOUSE_DIALECT:
            text = translate_to_clickhouse(text, make_settings(session.settings))
        parsed = parse_statements(text) if len(text) <= _LONG_TEXT else self._parse_long(text, session, on_start)
        if len(parsed) != 1:
            problem = "Multi-statements are not allowed" if parsed else "Empty query"
            raise UserError("SYNTAX_ERROR", f"{problem}: send one statement in a request")
        return parsed[0]

    def _parse_long(self, text: str, session: Session, on_start: Callable[[Process], None]) -> list[ParsedStatement]:
        status = self._processes.new_status(session.user, make_settings(session.settings, self.config.timezone))
        process, end = self._begin_process(self._query_id(session), text, session, QueryStatistics(), status)
        session.began = self.services.monotonic()
        try:
            on_start(process)
            return parse_statements(text, status)
        except PandoError as error:
            session.began = 0.0
            raise process.explain_cancellation(error) from error
        finally:
            end()

    def _query_id(self, session: Session) -> str:
        return session.query_id or str(self.services.new_uuid())

    def _begin_process(
        self, query_id: str, text: str, session: Session, statistics: QueryStatistics, status: QueryStatus
    ) -> tuple[Process, Callable[[], None]]:
        """Lists a new process; returns it and the function that ends it. Raises 216 if the id is in use."""
        started = self.services.clock()
        query = hide_passwords(text[:_SHOWN_TEXT])
        process = Process(query_id, query, session.user, statistics, started, status=status, database=session.database)
        return process, self._processes.add(process)

    def execute_parsed(
        self,
        parsed: ParsedStatement,
        text: str,
        session: Session,
        body: BinaryIO | None = None,
        parameters: Mapping[str, str] | None = None,
        on_start: Callable[[Process], None] = lambda _: None,
    ) -> QueryResult:
        """Runs a parsed statement like :meth:`execute`; ``on_start`` gets the process, which can be stopped."""
        own = _statement_settings(parsed)
        check_settings_change(session.settings, own, self.config.default_settings)
        dialect = str(session.settings.get("dialect", CLICKHOUSE_DIALECT))
        check_statement_dialect(parsed.statement, dialect, own)
        defaults = {**self.config.default_settings, **get_dialect_defaults(dialect)}
        settings = make_settings({**defaults, **session.settings, **own}, self.config.timezone)
        status = self._processes.new_status(session.user, settings, session.began)
        session.began = 0.0
        given = {**session.parameters, **(parameters or {})}
        context = self.context_class(self, session, settings, self._query_id(session), body, given, status=status)
        context.statistics.memory = status.memory
        process, end = self._begin_process(context.query_id, text, session, context.statistics, status)
        try:
            on_start(process)
            may_be_short = isinstance(parsed.statement, SelectQuery) and not (parsed.outfile or own or body)
            result = None
            if may_be_short:
                passed = context.parameters
                result = self._short_result(text, session, passed, context.statistics, context.query_id, THREAD_LIMITS)
            if result is None:
                result = self._carry_out(resolve_names(parsed, session), text, context)
                if parsed.on_cluster is None:
                    forget_dropped_tables(parsed, session)
                if may_be_short:
                    self._remember_short_query(parsed, text, context)
        except PandoError as error:
            end()
            self.report_corruption(error)
            raise process.explain_cancellation(error) from error
        except (OSError, MemoryError) as error:
            end()
            raise convert_resource_error(error) from error
        except BaseException:
            end()
            raise
        if not result.columns:
            end()
            result.close()
            return result
        process.refresh_statistics = result.refresh_statistics
        steps = iter((result.on_close, end))

        def on_close() -> None:
            # Each step runs once: the garbage collector may close the batches again, in a thread that holds any lock.
            for step in steps:
                step()

        batches = translate_errors(result.batches, process, self.report_corruption, on_close)
        return replace(result, batches=batches, on_close=on_close)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Reports corruption that the block raises to the table whose part is damaged."""
        try:
            yield
        except CorruptionError as error:
            self.report_corruption(error)
            raise

    def report_corruption(self, error: BaseException) -> None:
        """Tells the table whose part is damaged about a corruption error; ignores any other error."""
        home = error.directory.parent if isinstance(error, CorruptionError) and error.directory else None
        for table in self.catalog.tables() if home is not None else ():
            if table.definition.data_path == home:
                assert isinstance(error, CorruptionError)
                try:
                    table.report_corruption(error)
                except PandoError as problem:
                    logger.warning("corruption could not be reported (%s): %s", problem, error)

    # -- short queries --------------------------------------------------------------------------------------------

    def answer_short_query(
        self, text: str, session: Session, parameters: Mapping[str, str] | None = None
    ) -> QueryResult | None:
        """Returns the whole result of a short SELECT at once, or ``None`` if it is not known to be short.

        Never blocks; callable from any thread, also from the event loop's.
        """
        if session.query_id and not self._processes.is_free(session.query_id):
            return None
        return self._short_result(text, session, {**session.parameters, **(parameters or {})}, QueryStatistics())

    def _short_result(
        self,
        text: str,
        session: Session,
        parameters: Mapping[str, str],
        statistics: QueryStatistics,
        query_id: str = "",
        limits: ShortQueryLimits = EVENT_LOOP_LIMITS,
    ) -> QueryResult | None:
        """Returns the result of a short query, or ``None`` if it is not known to be short.

        Counts rows, bytes and time in ``statistics``.
        """
        settings = self._settings_of(session)
        if not self._may_be_short(settings, session) or not self._is_current():
            return None
        started = self.services.monotonic()
        relations = CatalogRelations(self.catalog, session.database)
        found = self._short_queries.answer(text.strip(), settings, session.database, relations, parameters, limits)
        if found is None:
            return None
        statistics.rows_read = found.statistics.read_rows
        statistics.bytes_read = found.statistics.read_bytes
        statistics.result_rows = sum(batch.num_rows for batch in found.batches)
        statistics.elapsed_seconds = self.services.monotonic() - started
        query_id = query_id or self._query_id(session)
        return QueryResult(found.columns, iter(found.batches), found.format, statistics=statistics, query_id=query_id)

    def _is_current(self) -> bool:
        """Returns whether this process has seen every acknowledged change, and its server reads every table."""
        return not self.link_start.is_refusing

    def _remember_short_query(self, parsed: ParsedStatement, text: str, context: Context) -> None:
        """Learns the statement, so that its next run may take the short way."""
        settings = self._settings_of(context.session)
        if self._may_be_short(settings, context.session):
            database = context.session.database
            relations = CatalogRelations(self.catalog, database)
            self._short_queries.learn(text.strip(), parsed, settings, database, relations, context.parameters)

    def _settings_of(self, session: Session) -> Settings:
        return make_settings({**self.config.default_settings, **session.settings}, self.config.timezone)

    def _may_be_short(self, settings: Settings, session: Session) -> bool:
        """Returns whether the session and settings need nothing that the short way lacks."""
        return not (
            session.external_tables
            or session.temporary_tables
            or settings.dialect != CLICKHOUSE_DIALECT
            or settings.max_result_rows
            or settings.max_result_bytes
            or settings.select_sequential_consistency
            or 0 < settings.max_execution_time < _SHORT_SECONDS
            or 0 < settings.max_memory_usage < _SHORT_BYTES
            or 0 < settings.max_memory_usage_for_user < _SHORT_BYTES
            or settings.max_query_size < MAX_SHAPED_CHARACTERS
            or LinkFreshness.of(settings).is_demanded
            or self._processes.memory.is_exceeded
        )

    @cached_property
    def _short_queries(self) -> ShortQueryCache:
        return ShortQueryCache(self.query_engine)


def _statement_settings(parsed: ParsedStatement) -> dict[str, object]:
    """Returns the settings that hold for this statement alone.

    The SETTINGS of CREATE stay with the table and those of SET with the session; all others are the statement's.
    """
    return dict(parsed.statement.settings if isinstance(parsed.statement, Insert | SelectQuery) else parsed.settings)
