"""The engine: one server's databases, background work and query execution, without any network front.

``pando local`` uses it directly; the HTTP interface and everything behind it call :meth:`Engine.execute`.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from engine.catalog import Catalog
from engine.config import Config
from engine.context import Context
from engine.interpreter import execute_statement
from engine.processes import Process, ProcessList
from engine.readonly import check_settings_change
from engine.server_uuid import server_uuid
from engine.session import QueryResult, QueryStatistics, Session
from engine.system_tables import SYSTEM_DATABASES
from engine.tables.definition import TableDefinition
from engine.tables.merge_tree import MergeTreeTable
from engine.tables.replicated.table import ReplicatedTable
from engine.tables.table import Table
from engine.watchdog import Watchdog
from engine.world import World
from parts.disk import make_directories
from parts.errors import PandoError, UserError, resource_error
from parts.memory import use_returning_allocator
from parts.query_status import MemoryTracker, QueryStatus
from parts.schema import TableSchema
from sql.definitions.description import merge_tree_settings
from sql.grammar.parser import parse_statements
from sql.grammar.statements import Insert, ParsedStatement, SelectQuery
from sql.grammar.translation import check_dialect, foreign_defaults, in_own_dialect
from sql.run import database
from sql.run.executor import QueryEngine
from sql.settings.session import settings_of
from sql.settings.table_settings import MergeTreeSettings
from sql.settings.values import OWN_DIALECT

logger = logging.getLogger(__name__)

_SHOWN_TEXT = 10_000
"""So much of a statement stands in system.processes."""
_LONG_TEXT = 100_000
"""Reading a longer one takes long enough to be stopped."""


class Engine:
    """Everything one server process holds. Start it once, use it from any thread, stop it once."""

    def __init__(self, config: Config, world: World | None = None) -> None:
        self.config: Config = config
        self.path = config.path.absolute()
        self.world = world or World()
        self.services = self.world.make_services(config)
        self.system_schemas: Mapping[str, Mapping[str, TableSchema]] = {
            database: {name: table.schema for name, table in tables.items()}
            for database, tables in SYSTEM_DATABASES.items()
        }
        self.query_engine = QueryEngine()
        settings = merge_tree_settings(config.merge_tree, MergeTreeSettings())
        self.catalog = Catalog(self.path, self._make_table, settings)
        self._processes = ProcessList(
            self.services.monotonic,
            MemoryTracker("total", config.memory_limit_bytes),
            on_add=lambda: self._watchdog.wake(),
        )
        self._watchdog = Watchdog(self._processes)
        self._on_stop = ExitStack()

    def start(self) -> None:
        """Loads every table. ZooKeeper may be away: replicated tables then start read-only.

        On failure everything is stopped again. Raises 76 when another process has the directory.
        """
        use_returning_allocator()
        try:
            make_directories(self.path)
            self._on_stop.callback(self.world.lock(self.path))
            self.uuid = server_uuid(self.path, self.services.new_uuid)
            database.spill_to(database.Spill(spill_directory(self.config), self.config.max_temporary_data_on_disk_size))
            if self.world.has_watchdog:
                self._watchdog.start()
                self._on_stop.callback(self._watchdog.stop)
            self.replication = self.world.connect(self.config, self.path, self.services.failpoint)
            self._on_stop.callback(self.replication.stop)
            self._on_stop.callback(self._stop_background)
            self.catalog.load()
            self.replication.force_restore_all = False  # a table that is attached later was not meant
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Cancels running queries, ends background work, and closes the ZooKeeper session last. Twice is fine."""
        for process in self._processes:
            process.stop()
        self._on_stop.close()

    def _stop_background(self) -> None:
        self.catalog.stop()
        self.services.housekeeping.stop()
        self.services.workers.stop()
        self.services.writers.shutdown(wait=True)

    def _make_table(self, definition: TableDefinition) -> Table:
        if definition.is_replicated:
            return ReplicatedTable(definition, self.services, self.replication)
        return MergeTreeTable(definition, self.services)

    # -- statements ---------------------------------------------------------------------------------------------

    def execute(
        self,
        sql: str,
        session: Session,
        body: BinaryIO | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Runs one statement; ``body`` is what follows an INSERT's inline data. Raises ``PandoError``."""
        return self.execute_parsed(self.parse(sql, session), sql, session, body, parameters)

    def parse(
        self, text: str, session: Session, on_start: Callable[[Process], None] = lambda _: None
    ) -> ParsedStatement:
        """The one statement of the text. While a long text is read it is a process, which ``on_start`` gets."""
        if session.settings.get("dialect", OWN_DIALECT) != OWN_DIALECT:
            text = in_own_dialect(text, settings_of(session.settings))
        parsed = parse_statements(text) if len(text) <= _LONG_TEXT else self._parse_long(text, session, on_start)
        if len(parsed) != 1:
            problem = "Multi-statements are not allowed" if parsed else "Empty query"
            raise UserError("SYNTAX_ERROR", f"{problem}: send one statement in a request")
        return parsed[0]

    def _parse_long(self, text: str, session: Session, on_start: Callable[[Process], None]) -> list[ParsedStatement]:
        status = self._processes.new_status(session.user, settings_of(session.settings, self.config.timezone))
        process, end = self._begin(self._query_id(session), text, session, QueryStatistics(), status)
        try:
            on_start(process)
            return parse_statements(text, status)
        except PandoError as error:
            raise process.translate(error) from error
        finally:
            end()

    def _query_id(self, session: Session) -> str:
        return session.query_id or str(self.services.new_uuid())

    def _begin(
        self, query_id: str, text: str, session: Session, statistics: QueryStatistics, status: QueryStatus
    ) -> tuple[Process, Callable[[], None]]:
        """A statement's process, and what takes it off the list. Raises 216 when the id is in use."""
        started = self.services.clock()
        process = Process(query_id, text[:_SHOWN_TEXT], session.user, statistics, started, status=status)
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
        """As :meth:`execute`, for a statement that the caller has parsed. ``on_start`` gets what can stop it."""
        own = _statement_settings(parsed)
        check_settings_change(session.settings, own)
        dialect = str(session.settings.get("dialect", OWN_DIALECT))
        check_dialect(parsed.statement, dialect, own)
        defaults = {"max_memory_usage": self.config.default_max_memory_usage, **foreign_defaults(dialect)}
        settings = settings_of({**defaults, **session.settings, **own}, self.config.timezone)
        status = self._processes.new_status(session.user, settings)
        context = Context(self, session, settings, self._query_id(session), body, parameters or {}, status=status)
        context.statistics.memory = status.memory
        process, end = self._begin(context.query_id, text, session, context.statistics, status)
        try:
            on_start(process)
            result = execute_statement(parsed, context)
        except PandoError as error:
            end()
            raise process.translate(error) from error
        except (OSError, MemoryError) as error:
            end()
            raise resource_error(error) from error
        except BaseException:
            end()
            raise
        if not result.columns:
            end()
            result.close()
            return result
        process.refresh = result.refresh
        close = result.on_close

        def on_close() -> None:
            close()
            end()

        return replace(result, batches=_translated(result.batches, process, on_close), on_close=on_close)

    # -- what there is ------------------------------------------------------------------------------------------

    def database_names(self) -> list[str]:
        return sorted([*self.catalog.databases(), *self.system_schemas])

    def processes(self) -> Iterator[Process]:
        """The running statements, their counts as of now."""
        for process in self._processes:
            process.refresh()
            yield process

    def kill_query(self, query_id: str) -> bool:
        return self._processes.kill(query_id)

    def replicas_status(self) -> list[ReplicaStatus]:
        """Of every replicated table."""
        return [
            ReplicaStatus(
                table.definition.full_name,
                float(replica.queue.absolute_delay(self.services.clock())),
                replica.problem(),
                replica.warning,
            )
            for table in self.catalog.tables()
            if (replica := table.replication) is not None
        ]


def spill_directory(config: Config) -> Path:
    """Where queries put what does not fit into memory. What a server that was killed left there is removed."""
    directory = (config.tmp_path or config.path / "tmp").absolute() / "spill"
    shutil.rmtree(directory, ignore_errors=True)
    make_directories(directory)
    return directory


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """``problem``: what keeps this replica from working; ``warning``: what else somebody should do something about."""

    table: str
    delay_seconds: float
    problem: str | None
    warning: str


def local_engine_path() -> tempfile.TemporaryDirectory[str]:
    """A directory for an engine that keeps nothing."""
    return tempfile.TemporaryDirectory(prefix="pando-local-")


def _statement_settings(parsed: ParsedStatement) -> dict[str, object]:
    """CREATE keeps its SETTINGS with the table and SET with the session; all others' are the statement's."""
    return dict(parsed.statement.settings if isinstance(parsed.statement, Insert | SelectQuery) else parsed.settings)


def _translated(batches: Iterator[pa.RecordBatch], process: Process, on_close: object) -> Iterator[pa.RecordBatch]:
    """The batches; closes at the end or at an error."""
    try:
        for batch in batches:
            process.is_working = False
            yield batch
            process.is_working = True
            process.status.check()
    except PandoError as error:
        raise process.translate(error) from error
    except (OSError, MemoryError) as error:
        raise resource_error(error) from error
    finally:
        on_close()  # type: ignore[operator]
