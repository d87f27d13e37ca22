"""The replica process's side of worker calls: one handler method for each request.

There is one object for each worker; the resources it holds are released when the worker ends.

Invariants

- What a worker borrows (parts, sessions, leases) is in ``_held`` or ``_sessions`` from the call that gave it to the one
  that returns it, so that :meth:`WorkerCalls.release_worker` finds it.
- Each number of ``_held`` is released once: the one that takes it out under ``_lock`` releases it, without the lock.
- A handler that changes a table runs in the replica process and commits there: a worker that ends changes nothing more.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

from coordination.inserts.block_views import MissingViews
from engine.engine import Engine, remove_spill_directories
from engine.front.http.status_pages import StatusPage, StatusPages
from engine.front.session_store import SessionStore
from engine.links.exchange.link_service import ElsewhereFiles, OpenedFiles
from engine.queries.context import OwnerContext, Row
from engine.queries.process_list import Process
from engine.queries.server_links import LinkFreshness
from engine.queries.session import Session
from engine.remote.replica_delays import Delays
from engine.scan.leases import LeaseBook, ScanOpening
from engine.system_tables import SYSTEM_DATABASES
from engine.tables.capabilities.block_history import BlockHistory
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.insert_sink import InsertOutcome, PartSink, TemporaryPart
from engine.tables.owned_table import OwnedTable
from engine.tables.statement_options import InsertOptions
from engine.workers.catalog_publication import CatalogPublication
from engine.workers.channel import CallStatus, Channel
from engine.workers.link_calls import HeldFiles
from engine.workers.replica_client import StatementAnswer, StatementRequest, statistics_to_record
from parts.common.errors import ConflictError, CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from sql.grammar.statements.statement import CreateTable, ParsedStatement
from sql.relations import PartsSnapshot
from sql.settings.session_settings import make_settings

logger = logging.getLogger(__name__)

_CATALOG_CHANGES = ("create_unnamed_table", "replace_table", "drop_table")
_PARTS_OF_WORKER = "tmp_insert_{}_*"


class SharedServices:
    """The services of the replica process that all workers share."""

    def __init__(self, publication: CatalogPublication, sessions: SessionStore, leases: LeaseBook) -> None:
        self.publication = publication
        self.sessions = sessions
        self.leases = leases
        self.pages: StatusPages | None = None
        self._engine: Engine | None = None
        self._is_open = threading.Event()
        self._is_ending = False

    def open(self, engine: Engine, pages: StatusPages) -> None:
        """Attaches the started engine; waiting calls go on."""
        self._engine, self.pages = engine, pages
        self._is_open.set()

    def close(self) -> None:
        """Makes waiting and later calls fail, because the server stops."""
        self._is_ending = True
        self._is_open.set()

    @property
    def engine(self) -> Engine:
        """The engine; waits until it has started. Raises 210 if it never will."""
        if not self._is_open.is_set():
            self._is_open.wait()
        if self._engine is None or self._is_ending:
            raise UnavailableError("NETWORK_ERROR", "The server is stopping; retry later or on another replica")
        return self._engine


class WorkerCalls:
    """The calls of one worker, whose temporary parts have ``owner`` in their names.

    May be called from any thread.
    """

    def __init__(self, shared: SharedServices, owner: str) -> None:
        self._shared = shared
        self._owner = owner
        self._held: dict[int, Callable[[], object]] = {}
        """By number, the function that releases a resource."""
        self._sessions: set[tuple[str, str]] = set()
        self._numbers = count(1)
        self._lock = threading.Lock()

    def __call__(self, name: str, arguments: tuple[Any, ...], channel: Channel) -> Any:
        """Runs the handler of the request ``name``."""
        return getattr(self, f"_on_{name}")(channel, *arguments)

    def release_worker(self) -> None:
        """Releases what the worker held, and removes parts that it wrote and nobody committed."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
            sessions, self._sessions = self._sessions, set()
        for release in held:
            release()
        remove_spill_directories(self._shared.engine.config, self._owner)
        for user, session_id in sessions:
            self._shared.sessions.release(user, session_id, 0.0)
        for table in self._shared.engine.catalog.tables():
            for leftover in table.definition.data_path.glob(_PARTS_OF_WORKER.format(self._owner)):
                shutil.rmtree(leftover, ignore_errors=True)

    # -- statements -----------------------------------------------------------------------------------------------

    def _on_execute(
        self, channel: Channel, parsed: ParsedStatement, text: str, asked: StatementRequest
    ) -> StatementAnswer:
        engine = self._shared.engine
        status = CallStatus(channel, 0.0, engine.services.monotonic)

        def on_start(process: Process) -> None:
            process.check_limits = lambda: process.stop() if status.is_stopped else None

        session = self._session(asked)
        result = engine.execute_parsed(parsed, text, session, None, asked.parameters, on_start)
        return StatementAnswer(result.columns, list(result.batches), statistics_to_record(result.statistics))

    def _session(self, asked: StatementRequest) -> Session:
        session = asked.session
        session.query_id = asked.query_id
        return session

    def _on_system_rows(
        self, _: Channel, database: str, table: str, asked: StatementRequest, columns: list[str]
    ) -> list[Row]:
        engine = self._shared.engine
        settings = make_settings(asked.session.settings, engine.config.timezone)
        context = OwnerContext(engine, asked.session, settings, asked.query_id)
        return list(SYSTEM_DATABASES[database][table].rows(context, columns))

    def _on_zookeeper_rows(self, _: Channel, paths: list[str]) -> list[Row]:
        return self._shared.engine.zookeeper_rows(paths)

    def _on_current_position(self, _: Channel, database: str, table: str) -> str:
        return self._shared.engine.current_position(database, table)

    def _on_in_sync_clusters(self, _: Channel, database: str, table: str, position: str) -> list[str]:
        return self._shared.engine.in_sync_clusters(database, table, position)

    def _on_group_view(
        self, _: Channel, group: str, wanted: str, wait_seconds: float
    ) -> tuple[int, str, int, dict[int, list[str]]]:
        view = self._shared.engine.open_group_view(group, wanted, wait_seconds)
        parts = {
            uid: [str(part.name) for part in snapshot.parts]
            for root, snapshot in view.snapshots.items()
            if (uid := self._shared.publication.find_uid(root)) is not None
        }
        return self._hold_resource(view.release), view.cut, view.place, parts

    def _on_link_freshness(self, _: Channel, database: str, table: str, demand: LinkFreshness) -> None:
        self._shared.engine.require_link_freshness(database, table, demand)

    def _on_require_readable(self, _: Channel, database: str, table: str) -> None:
        self._shared.engine.link_start.require_readable(database, table)

    def _on_uuid(self, _: Channel) -> str:
        return self._shared.engine.uuid

    # -- tables -----------------------------------------------------------------------------------------------------

    def _on_create_table(self, _: Channel, database: str, create: CreateTable) -> bool:
        return self._shared.engine.catalog.create_table(database, create) is not None

    def _on_change_catalog(self, _: Channel, method: str, arguments: Sequence[Any]) -> Any:
        assert method in _CATALOG_CHANGES, method
        return getattr(self._shared.engine.catalog, method)(*arguments)

    def _on_insert(
        self, channel: Channel, uid: int, parts: list[TemporaryPart], values: Mapping[str, Any]
    ) -> InsertOutcome:
        return self._sink(channel, uid, values).commit_parts(parts)

    def _sink(self, channel: Channel, uid: int, values: Mapping[str, Any]) -> PartSink:
        options = InsertOptions(**values, status=CallStatus(channel, 0.0, self._shared.engine.services.monotonic))
        sink = self._table(uid).begin_insert(options)
        assert isinstance(sink, PartSink), "a worker writes parts for tables with parts only"
        return sink

    def _on_begin_insert(
        self, channel: Channel, uid: int, partition_id: str, values: Mapping[str, Any]
    ) -> InsertOutcome:
        """Begins an INSERT whose parts follow as a message once they are written.

        The message is received even after a refusal: otherwise it would be taken for the next call.
        """
        sink: PartSink | None = None
        refusal: Exception | None = None
        try:
            sink = self._sink(channel, uid, values)
            sink.allocate_block_number(partition_id)
        except Exception as error:
            refusal = error
        try:
            parts = _receive_parts(channel)
            if refusal is not None:
                raise refusal
            assert sink is not None
            return sink.commit_parts(parts)
        finally:
            if sink is not None:
                sink.abort()

    def _on_missing_of(self, _: Channel, uid: int, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        return self._memory(uid).missing_of(block_ids)

    def _on_views_have(self, _: Channel, uid: int, tokens: Mapping[str, str], views: Collection[str]) -> None:
        self._memory(uid).views_have(tokens, views)

    def _memory(self, uid: int) -> BlockMemory:
        memory = self._table(uid).block_memory
        if memory is None:
            raise ConflictError("CANNOT_ASSIGN_ALTER", "The settings of the table changed meanwhile: repeat the INSERT")
        return memory

    def _on_pin_parts(
        self, _: Channel, uid: int, names: Sequence[str] | None, sequential_consistency: bool
    ) -> tuple[int, list[str]]:
        table = self._table(uid)
        if names is None:
            snapshot: PartsSnapshot = table.snapshot(sequential_consistency=sequential_consistency)
        else:
            snapshot = table.pin(list(map(PartName.parse, names)))
        return self._hold_resource(snapshot.release), [str(part.name) for part in snapshot.parts]

    def _on_unpin_parts(self, _: Channel, number: int) -> None:
        with self._lock:
            release = self._held.pop(number, None)
        if release is not None:
            release()

    def _on_opened_part(self, _: Channel, uid: int, name: str) -> Part | None:
        store = self._table(uid).store
        return store.get(PartName.parse(name)) if store is not None else None

    def _on_report_corruption(self, _: Channel, uid: int, error: CorruptionError) -> None:
        self._table(uid).report_corruption(error)

    def _hold_resource(self, release: Callable[[], object]) -> int:
        number = next(self._numbers)
        with self._lock:
            self._held[number] = release
        return number

    def _table(self, uid: int) -> OwnedTable:
        table = self._shared.publication.table(uid)
        if table is None:
            raise UserError("UNKNOWN_TABLE", "The table was dropped or renamed meanwhile")
        return table

    # -- scans ------------------------------------------------------------------------------------------------------

    def _on_read_scan(
        self, _: Channel, uid: int, opening: ScanOpening
    ) -> tuple[int, list[str], list[Sequence[int]], int]:
        reading = self._shared.leases.hold_lease(self._table(uid), opening)
        lease = reading.__enter__()
        number = self._hold_resource(lambda: reading.__exit__(None, None, None))
        names, steps = [str(part.name) for part in lease.parts], [lease.steps[part.name] for part in lease.parts]
        return number, names, steps, lease.metadata_version

    def _on_scan_history(self, _: Channel, uid: int, max_delay_seconds: float) -> BlockHistory:
        return self._shared.leases.history(self._table(uid), max_delay_seconds)

    def _on_release_scan(self, _: Channel, uid: int, name: str) -> bool:
        return self._shared.leases.release(self._table(uid), name)

    # -- links ------------------------------------------------------------------------------------------------------

    def _on_answer_link(
        self, channel: Channel, name: str, document: Mapping[str, Any], is_read_only: bool
    ) -> dict[str, Any] | HeldFiles | ElsewhereFiles:
        engine = self._shared.engine
        status = CallStatus(channel, 0.0, engine.services.monotonic)
        answer = engine.link_answers.answer(name, document, status, is_read_only=is_read_only)
        if isinstance(answer, OpenedFiles):
            return HeldFiles(answer.directory, self._hold_resource(answer.release))
        return answer

    # -- sessions and pages -----------------------------------------------------------------------------------------

    def _on_acquire_session(self, _: Channel, user: str, session_id: str, new: Session, must_exist: bool) -> Session:
        session = self._shared.sessions.acquire(user, session_id, lambda: new, must_exist=must_exist)
        with self._lock:
            self._sessions.add((user, session_id))
        return session

    def _on_release_session(
        self, _: Channel, user: str, session_id: str, timeout_seconds: float, session: Session | None
    ) -> None:
        with self._lock:
            self._sessions.discard((user, session_id))
        self._shared.sessions.release(user, session_id, timeout_seconds, session)

    def _on_is_first(self, _: Channel, number: str, seconds: float) -> bool:
        return self._shared.sessions.is_first(number, seconds)

    def _on_page(self, _: Channel, name: str, options: Mapping[str, Any]) -> StatusPage:
        assert self._shared.engine is not None
        assert self._shared.pages is not None
        page: StatusPage = getattr(self._shared.pages, name)(**options)
        return page

    def _on_replicas_status(self, _: Channel) -> list[ReplicaStatus]:
        return self._shared.engine.replicas_status()

    def _on_replica_delays(self, _: Channel) -> Delays:
        return self._shared.engine.replica_delays()


def _receive_parts(channel: Channel) -> list[TemporaryPart]:
    try:
        parts: list[TemporaryPart] = channel.receive()
        return parts
    except (EOFError, OSError):
        raise UnavailableError("ABORTED", "The INSERT was given up, or its worker is gone") from None
