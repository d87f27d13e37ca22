"""A worker's side of calls to the replica process; ``call_handlers`` has the other side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from coordination.inserts.block_views import MissingViews
from engine.front.http.status_pages import StatusPage
from engine.queries.context import Context, Row
from engine.queries.server_links import LinkFreshness
from engine.queries.session import QueryResult, QueryStatistics, Session
from engine.remote.replica_delays import Delays
from engine.scan.leases import ScanOpening
from engine.tables.capabilities.block_history import BlockHistory
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.statement_options import InsertOptions
from engine.workers.channel import CallClient, PendingCall
from parts.common.errors import CorruptionError
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.types import DataType
from sql.grammar.statements.statement import CreateTable, ParsedStatement


@dataclass(frozen=True)
class StatementRequest:
    """A statement's session and parameters, as they are sent."""

    session: Session
    query_id: str
    parameters: Mapping[str, str]

    @classmethod
    def of(cls, context: Context) -> StatementRequest:
        """Takes them from a statement's context."""
        return cls(replace(context.session, external_tables={}), context.query_id, dict(context.parameters))


@dataclass(frozen=True)
class StatementAnswer:
    """The whole result of a statement. It is short, as all that the replica process runs for workers."""

    columns: tuple[tuple[str, DataType], ...]
    batches: list[pa.RecordBatch]
    statistics: dict[str, int]


class ReplicaProcessClient:
    """The replica process, as its workers see it.

    May be called from any thread. Every method raises 210 if the replica process is gone.
    """

    def __init__(self, caller: CallClient) -> None:
        self._caller = caller

    # -- statements -----------------------------------------------------------------------------------------------

    def execute(self, parsed: ParsedStatement, text: str, context: Context) -> QueryResult:
        """Executes a statement there."""
        with context.status.waiting():
            asked, is_stopped = StatementRequest.of(context), _asks(context.status)
            answer: StatementAnswer = self._caller.call("execute", parsed, text, asked, is_stopped=is_stopped)
        for name, count in answer.statistics.items():
            setattr(context.statistics, name, getattr(context.statistics, name) + count)
        return QueryResult(
            answer.columns, iter(answer.batches), parsed.format, parsed.outfile, context.statistics, context.query_id
        )

    def system_rows(self, database: str, table: str, context: Context, columns: Sequence[str]) -> list[Row]:
        """Returns the rows of a system table."""
        asked, is_stopped = StatementRequest.of(context), _asks(context.status)
        with context.status.waiting():
            return self._caller.call("system_rows", database, table, asked, list(columns), is_stopped=is_stopped)

    def zookeeper_rows(self, paths: Sequence[str]) -> list[Row]:
        """Returns the rows of ``system.zookeeper`` for the paths."""
        return self._caller.call("zookeeper_rows", list(paths))

    def current_position(self, database: str, table: str) -> str:
        """Returns the position behind the newest commit of a replicated table."""
        return str(self._caller.call("current_position", database, table))

    def in_sync_clusters(self, database: str, table: str, position: str) -> list[str]:
        """Returns the clusters whose links have brought a table's changes up to a position."""
        return list(self._caller.call("in_sync_clusters", database, table, position))

    def open_group_view(
        self, group: str, wanted: str, wait_seconds: float
    ) -> tuple[int, str, int, Mapping[int, Sequence[str]]]:
        """Holds a group of links at its cut.

        Returns a number for :meth:`unpin`, the cut, its place, and the parts by table.
        """
        return self._caller.call("group_view", group, wanted, wait_seconds)

    def require_link_freshness(self, database: str, table: str, demand: LinkFreshness) -> None:
        """Returns when a target of links is as fresh as demanded."""
        self._caller.call("link_freshness", database, table, demand)

    def require_readable(self, database: str, table: str) -> None:
        """Raises 369 (ALL_REPLICAS_ARE_STALE) for a linked table that is not read yet."""
        self._caller.call("require_readable", database, table)

    def uuid(self) -> str:
        """Returns the server's UUID; waits until the replica process is ready."""
        return str(self._caller.call("uuid"))

    # -- tables (implements ``catalog_mirror.ReplicaProcessCalls``) ------------------------------------------------

    def create_table(self, database: str, create: CreateTable) -> bool:
        """Creates a table; tells whether it is new."""
        return bool(self._caller.call("create_table", database, create))

    def change_catalog(self, method: str, *arguments: object) -> Any:
        """Calls a method of the catalog there."""
        return self._caller.call("change_catalog", method, arguments)

    def insert(self, uid: int, parts: Sequence[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Commits the temporary parts of an INSERT."""
        with options.status.waiting():
            return self._caller.call("insert", uid, list(parts), _values(options), is_stopped=_asks(options.status))

    def begin_insert(self, uid: int, partition_id: str, options: InsertOptions) -> PendingInsertCall | None:
        """Announces an INSERT whose parts are still to be written; ``None`` while another call runs."""
        if self._caller.is_busy:  # other calls use the time that would be saved, and the message costs some
            return None
        return PendingInsertCall(self._caller.begin("begin_insert", uid, partition_id, _values(options)), options)

    def block_memory(self, uid: int) -> RemoteBlockMemory:
        """Returns the table's block memory."""
        return RemoteBlockMemory(self._caller, uid)

    def pin(
        self, uid: int, names: Sequence[str] | None, *, sequential_consistency: bool = False
    ) -> tuple[int, list[str]]:
        """Pins parts of a table. Returns a number for :meth:`unpin`, and the names of the parts."""
        return self._caller.call("pin_parts", uid, names, sequential_consistency)

    def unpin(self, number: int) -> None:
        """Releases pinned parts, or those of a lease."""
        self._caller.call("unpin_parts", number)

    def opened_part(self, uid: int, name: str) -> Part | None:
        """Returns the part as the replica process has it open; ``None`` if it is not there any more."""
        return self._caller.call("opened_part", uid, name)

    def report_corruption(self, uid: int, error: CorruptionError) -> None:
        """Reports a broken part."""
        self._caller.call("report_corruption", uid, error)

    # -- scans ------------------------------------------------------------------------------------------------------

    def read_scan(self, uid: int, opening: ScanOpening) -> tuple[int, list[str], list[Sequence[int]], int]:
        """Holds a scan's lease.

        Returns a number for :meth:`unpin`, the names of the parts, their steps and the definition's version.
        """
        return self._caller.call("read_scan", uid, opening)

    def scan_history(self, uid: int, max_delay_seconds: float) -> BlockHistory:
        """Returns the table's block history."""
        return self._caller.call("scan_history", uid, max_delay_seconds)

    def release_scan(self, uid: int, name: str) -> bool:
        """Ends a scan's lease early."""
        return bool(self._caller.call("release_scan", uid, name))

    # -- links ------------------------------------------------------------------------------------------------------

    def answer_link(self, name: str, document: Mapping[str, Any], status: QueryStatus, *, is_read_only: bool) -> Any:
        """Answers a request of another cluster; files are held under a number for :meth:`unpin`."""
        return self._caller.call("answer_link", name, dict(document), is_read_only, is_stopped=_asks(status))

    # -- sessions (implements the interface of ``session_store.SessionStore``) --------------------------------------

    def acquire(self, user: str, session_id: str, make: Callable[[], Session], *, must_exist: bool) -> Session:
        """Takes a session for one request."""
        return self._caller.call("acquire_session", user, session_id, make(), must_exist)

    def release(self, user: str, session_id: str, timeout_seconds: float, session: Session | None = None) -> None:
        """Returns a session after a request."""
        self._caller.call("release_session", user, session_id, timeout_seconds, session)

    def is_first(self, number: str, seconds: float) -> bool:
        """Tells whether the number was not used before; it is remembered for these seconds."""
        return bool(self._caller.call("is_first", number, seconds))

    # -- pages (implements ``http.pages.Pages``) ----------------------------------------------------------------------

    def page(self, name: str, **options: object) -> StatusPage:
        """Returns a status page."""
        return self._caller.call("page", name, options)

    def replicas_status(self) -> list[ReplicaStatus]:
        """Returns the status of all replicated tables."""
        return self._caller.call("replicas_status")

    def replica_delays(self) -> Delays:
        """Returns by how many seconds each replicated table is behind."""
        return self._caller.call("replica_delays")


@dataclass(frozen=True)
class RemoteBlockMemory:
    """The block memory of a table in the replica process. Implements ``BlockMemory``."""

    caller: CallClient
    uid: int

    def missing_of(self, block_ids: Sequence[str]) -> list[MissingViews | None] | None:
        """Returns for each block which views lack it; see ``BlockMemory``."""
        return self.caller.call("missing_of", self.uid, list(block_ids))

    def views_have(self, tokens: Mapping[str, str], views: Collection[str]) -> None:
        """Records that the views have the blocks now."""
        self.caller.call("views_have", self.uid, dict(tokens), list(views))


class PendingInsertCall:
    """An INSERT that the replica process prepares for while its parts are written."""

    def __init__(self, call: PendingCall, options: InsertOptions) -> None:
        self._call = call
        self._options = options
        self.give_up = call.give_up

    def commit(self, parts: Sequence[TemporaryPart]) -> InsertOutcome:
        """Sends the written parts and waits for their commit."""
        self._call.tell(list(parts))
        with self._options.status.waiting():
            outcome: InsertOutcome = self._call.finish(_asks(self._options.status))
        return outcome


def _values(options: InsertOptions) -> dict[str, object]:
    return {field.name: getattr(options, field.name) for field in fields(options) if field.name != "status"}


def _asks(status: QueryStatus) -> Callable[[], bool]:
    def is_stopped() -> bool:
        status.check_deadline()
        return status.is_stopped

    return is_stopped


def statistics_to_record(statistics: QueryStatistics) -> dict[str, int]:
    """Returns the counts of a statement as a dictionary."""
    names = ("rows_read", "bytes_read", "written_rows", "written_bytes", "result_rows", "deduplicated_blocks")
    return {name: getattr(statistics, name) for name in names}
