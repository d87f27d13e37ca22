"""Scans over HTTP: ``POST /scan/plan``, ``/scan/read`` and others; JSON in, JSON or Arrow out.

``plan``    {database, table, columns, filter?, partitions?, max_rows_per_task?, max_bytes_per_task?}
            → {columns: [{name, type}], slots, rows, bytes, granules, pruned_granules}. Into how many slots the table
            as it is now is worth dealing. ``filter`` is a ClickHouse condition; ``bytes`` are those of the columns,
            uncompressed.
            Of a table in shards → {columns, shards: [{urls, database, table}]}, to be planned and read each by itself.
``read``    {scan, slot, slots, behind?, is_alone?, database, table, columns, filter?, max_rows_per_task?,
            max_bytes_per_task?, lease_seconds?, sequential_consistency?, max_delay_seconds?,
            compression?: lz4 | zstd | none}
            → the rows of that slot (``engine.scan.arrow_stream``) for which ``filter`` is true, without the first
            ``behind`` ones, which an answer that broke off gave. The client may take nothing for ``get_lease_seconds``.
            ``scan`` names the execution: all its reads, on whichever replica, deal the same parts
            (``engine.scan.leases``). Error 232: they are not here; another replica may have them. With ``query`` the
            answer is that of this SELECT over the slot's rows, which it calls ``slot`` (``engine.scan.slot_query``);
            ``columns`` are those that it can name (none: all), ``behind`` is not for it, and ``plan`` tells the columns
            of the answer. With ``is_whole?`` it reads the table's rows of all slots, whatever ``filter`` says.
            ``spark_fields?`` are fields of Spark: the answer has their types and names, nothing is a dictionary; with
            ``nanoseconds?: truncate`` finer instants lose them, and ``is_compact?`` columns are compact
            (``engine.scan.sent_columns``). ``limit?`` is the most rows to send.
``begin``   {scan, is_alone?, database, table, columns, lease_seconds?, max_delay_seconds?} → {}. The execution reads
            all rows that were inserted before, unless it has begun elsewhere. ``UNCHANGED SINCE SCAN`` of COMMIT
            TRANSACTION names it.
``push``    {database, table, columns?, nanoseconds?, with_comments?, fields?, conditions?, aggregation?, whole?, top?}
            → {fields, conditions?, aggregation?, whole?, top?}. Spark's fields of the columns, and what of a query of
            Spark the server computes as Spark would (``engine.scan.push_down.answers``); ``fields?`` are those of
            Spark's frame. What is ``whole`` is planned too: {query, columns, fields, slots: 1, rows, bytes, …}.
``positions`` {database, table, start?: {identity, blocks}, until?, max_rows?, may_lack_rows?, max_delay_seconds?}
            → {identity, available, end, dropped}. For a stream that has read the blocks of ``start``: how far all is
            decided on this replica, and where the next batch ends. All are numbers by partition; those left out are -1.
            Error 33: rows behind ``start`` were dropped, or the table is another one, and not ``may_lack_rows``.
            ``plan`` and ``read`` take ``blocks?: {identity, ranges: {partition: [after, until]}, may_lack_rows?}`` and
            then read those alone.
``export``  as ``read``, with {directory, export, with_nanoseconds?} → {name, rows, bytes, hash, parts} behind blanks:
            the slot's rows as a file of Parquet below ``user_files_path``. ``export`` is an id in hexadecimal digits.
``publish_export`` {directory, export, manifest: {files: [{name, bytes}], …}} → {}: the directory is there, with those
files. ``discard`` {directory, export} → {}: what is left of an export that will not be published goes. ``release``
{database, table, scan} → {released}. The execution is over: its parts need not be held.

Authentication and errors are those of queries; an error after the first byte ends the answer with the exception
trailer and an unfinished chunked body, so that nobody takes it for a whole one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.front.http.error_responses import (
    convert_to_pando_error,
    format_error,
    get_http_status,
)
from engine.front.http.json_body import read_json_body
from engine.front.http.query_request import parse_request
from engine.front.http.request_entry import RequestEntry
from engine.front.http.scan_parameters import (
    MAX_SECONDS,
    Body,
    get_document,
    get_flag,
    get_lease_seconds,
    get_list,
    get_positive_number,
    get_seconds,
    get_text,
    parse_opening,
    parse_slot,
    parse_stream_start,
    parse_task_size,
    parse_wanted_blocks,
)
from engine.front.http.scan_plans import list_columns, plan_partitions, plan_slots, plan_whole
from engine.front.http.scan_response import Chunk, ScanResponse
from engine.queries.session import Session
from engine.scan.arrow_stream import convert_to_spark, encode_stream, read_batches, take_rows
from engine.scan.leases import UNKNOWN_DELAY_SECONDS, LeaseBook, Leases
from engine.scan.parquet_export import get_unfinished_path, publish_export, write_slot
from engine.scan.push_down.answers import answer_push
from engine.scan.push_down.spark_types import make_arrow_schema
from engine.scan.scan_filter import compile_filter, select_granules
from engine.scan.shard_scans import plan_shards, require_own_rows
from engine.scan.slot_planning import WeighedGranules, sort_parts
from engine.scan.slot_query import SlotRows, convert_result, run_query
from engine.scan.stream_batches import find_batch_end
from engine.server.background_pool import BackgroundTask
from engine.tables.held_parts import HeldPartsRelation
from engine.tables.table import Table
from parts.common.errors import UserError
from parts.format.primary_index import (
    MarkRange,
)
from parts.read.part_reader import (
    Part,
)
from parts.read.row_filters import RowFilter
from parts.table.table_description import Column, TableDescription
from sql.settings.session_settings import (
    make_settings,
)

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

logger = logging.getLogger(__name__)

_EXPIRY_SECONDS = 5.0
_MAX_BODY_BYTES = 64 << 20
_Work = Callable[[Body, Session], Response]
_COMPRESSIONS = {"lz4": "lz4", "zstd": "zstd", "none": None}


@dataclass(frozen=True)
class _Slot:
    """The rows of one slot."""

    columns: Sequence[Column]
    pieces: Sequence[tuple[Part, Sequence[MarkRange]]]
    keep: RowFilter | None
    batches: Iterator[pa.RecordBatch]
    whole: HeldPartsRelation
    """The table with the parts of all slots."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the slot."""
        return [part for part, _ in self.pieces]


class ScanEndpoints:
    """The endpoints of scans, with the background step that expires leases."""

    def __init__(self, engine: StatementRunner, entry: RequestEntry, leases: Leases | None = None) -> None:
        self._engine = engine
        self._entry = entry
        self._clock = engine.services.monotonic
        self._files = engine.config.user_files
        self._leases: Leases = leases or LeaseBook(
            engine.services.monotonic, partial(get_replica_delay_seconds, engine)
        )
        self._receive_seconds = make_settings(engine.config.profile("default")).http_receive_timeout or None
        self._threads = ThreadPoolExecutor(engine.config.max_concurrent_queries, thread_name_prefix="scan")
        engine.services.housekeeping.add(BackgroundTask("expire scan leases", self._expire), _EXPIRY_SECONDS)

    def endpoints(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Returns the endpoints by path."""
        return {
            "/scan/plan": self._plan_endpoint,
            "/scan/push": self._push_endpoint,
            "/scan/begin": self._begin_endpoint,
            "/scan/read": self._read_endpoint,
            "/scan/positions": self._positions_endpoint,
            "/scan/release": self._release_endpoint,
            "/scan/export": self._export_endpoint,
            "/scan/publish": self._publish_endpoint,
            "/scan/discard": self._discard_endpoint,
        }

    def _expire(self) -> float:
        self._leases.expire()
        return _EXPIRY_SECONDS

    # -- endpoints, on the event loop ---------------------------------------------------------------------------------

    async def _plan_endpoint(self, request: Request) -> Response:
        return await self._answer(request, lambda body, session: JSONResponse(self.plan(body, session)))

    async def _push_endpoint(self, request: Request) -> Response:
        return await self._answer(request, lambda body, _: JSONResponse(self.push(body)))

    async def _begin_endpoint(self, request: Request) -> Response:
        return await self._answer(request, lambda body, _: JSONResponse(self.begin(body)))

    async def _positions_endpoint(self, request: Request) -> Response:
        return await self._answer(request, lambda body, _: JSONResponse(self.positions(body)))

    async def _release_endpoint(self, request: Request) -> Response:
        return await self._answer(request, lambda body, _: JSONResponse({"released": self.release(body)}))

    async def _read_endpoint(self, request: Request) -> Response:
        def start(body: Body, session: Session) -> Response:
            return self._stream(request, body, self.read(body, session))

        return await self._answer(request, start)

    async def _export_endpoint(self, request: Request) -> Response:
        def start(body: Body, _: Session) -> Response:
            return self._stream(request, body, self.export(body))

        return await self._answer(request, start, writes=True)

    async def _publish_endpoint(self, request: Request) -> Response:
        def answer(body: Body, _: Session) -> Response:
            publish_export(
                self._files, get_text(body, "directory"), get_text(body, "export"), get_document(body, "manifest")
            )
            return JSONResponse({})

        return await self._answer(request, answer, writes=True)

    async def _discard_endpoint(self, request: Request) -> Response:
        def answer(body: Body, _: Session) -> Response:
            self._files.remove(get_unfinished_path(get_text(body, "directory"), get_text(body, "export")))
            return JSONResponse({})

        return await self._answer(request, answer, writes=True)

    def _stream(self, request: Request, body: Body, chunks: Iterator[Chunk]) -> Response:
        connection = request.scope["state"]["connection"]
        connection.send_timeout = get_lease_seconds(body)
        return ScanResponse(next(chunks), chunks, self._threads)

    async def _answer(self, request: Request, function: _Work, *, writes: bool = False) -> Response:
        try:
            credentials = parse_request(request.scope).credentials
            session = self._entry.authenticate(credentials, request.scope).open_session()
            if writes and make_settings(session.settings).readonly:
                raise UserError("READONLY", "Cannot write files in readonly mode")
            body = await read_json_body(request, self._receive_seconds, _MAX_BODY_BYTES)
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, body, session)
        except Exception as problem:
            error = convert_to_pando_error(problem)
            logger.info("scan failed: %s", error)
            headers = {"X-ClickHouse-Exception-Code": str(error.code)}
            return Response(format_error(error), get_http_status(error), headers, "text/plain; charset=UTF-8")

    # -- work, on a thread --------------------------------------------------------------------------------------------

    def plan(self, body: Body, session: Session) -> dict[str, Any]:
        """Returns columns, number of slots and sizes for a scan of the table as it is now."""
        table = self._engine.catalog.table(*_get_table_name(body))
        columns, query = list_columns(table.description, body), get_text(body, "query", "")
        shown = [(column.name, column.type) for column in columns]
        if query:
            with contextlib.closing(run_query(SlotRows(columns), query, self._engine, session)) as result:
                shown = list(result.columns)
        found = {"columns": [{"name": name, "type": str(type_)} for name, type_ in shown]}
        if table.definition.engine.is_proxy:
            return {**found, **plan_shards(table, self._engine.config)}
        self._require_caught_up(table)
        with self._engine.reporting():
            return {**found, **plan_slots(table, columns, body, self._engine.config.timezone)}

    def push(self, body: Body) -> dict[str, Any]:
        """Returns the table's fields in Spark, and what of a query of Spark the server computes."""
        table = self._engine.catalog.table(*_get_table_name(body))
        zone = self._engine.config.timezone
        answer = answer_push(body, table.description, zone)
        for holder, name in ((answer, "whole"), (answer.get("top") or {}, "top")):
            if holder.get("whole") is not None:
                self._require_caught_up(table)
                holder["whole"] = plan_whole(table, holder["whole"], get_text(body[name], "condition", ""), zone)
        return answer

    def read(self, body: Body, session: Session) -> Iterator[Chunk]:
        """Yields the rows of a slot; holds the parts until it is exhausted or closed."""
        compression = get_text(body, "compression", "lz4").lower()
        if compression not in _COMPRESSIONS:
            raise UserError("BAD_ARGUMENTS", f"Unknown compression {compression!r}: use {', '.join(_COMPRESSIONS)}")
        query, limit = get_text(body, "query", ""), get_positive_number(body, "limit")
        with self._open_slot(body) as slot:
            batches = slot.batches
            if query:
                rows = slot.whole if get_flag(body, "is_whole") else SlotRows(slot.columns, slot.pieces, slot.keep)
                batches = convert_result(run_query(rows, query, self._engine, session))
            if limit is not None:
                batches = take_rows(batches, limit)
            if body.get("spark_fields") is not None:
                fields = make_arrow_schema(get_list(body, "spark_fields"))
                truncates, is_compact = body.get("nanoseconds") == "truncate", get_flag(body, "is_compact")
                batches = convert_to_spark(batches, fields, truncates=truncates, is_compact=is_compact)
            yield from encode_stream(batches, _COMPRESSIONS[compression])

    def export(self, body: Body) -> Iterator[bytes]:
        """Writes a slot's rows to a file and yields the JSON response in pieces."""
        unique = self._engine.services.new_uuid().hex
        name = f"part-{parse_slot(body)[0]:05}-{unique[:12]}.parquet"
        path = f"{get_unfinished_path(get_text(body, 'directory'), get_text(body, 'export'))}/{name}"
        self._files.resolve_path(path)  # before any work
        with_nanoseconds = get_flag(body, "with_nanoseconds")
        with self._open_slot(body) as slot:
            yield from write_slot(
                slot.batches, slot.columns, slot.parts, self._files, path, unique, with_nanoseconds=with_nanoseconds
            )

    @contextlib.contextmanager
    def _open_slot(self, body: Body) -> Iterator[_Slot]:
        """Gives the rows that the request reads, and holds their parts during the block."""
        table = self._find_readable_table(body)
        slot, size, behind = parse_slot(body), parse_task_size(body), get_positive_number(body, "behind", least=0) or 0
        with self._engine.reporting(), self._leases.hold_lease(table, parse_opening(body)) as lease:
            description = table.description_of(lease.metadata_version)
            columns = list_columns(description, body)
            keep = compile_filter(get_text(body, "filter", ""), description, self._engine.config.timezone)
            parts = sort_parts(lease.parts, description, get_text(body, "partition", "") or None)
            pieces = WeighedGranules.of(self._select_granules(description, parts, body), lease.steps, size).slot(*slot)
            is_compact = get_flag(body, "is_compact") and body.get("spark_fields") is not None
            blocks = parse_wanted_blocks(body)
            batches = read_batches(
                pieces, columns, keep, blocks, behind=behind, clock=self._clock, is_compact=is_compact
            )
            yield _Slot(columns, pieces, keep, batches, HeldPartsRelation(description, parts))

    def begin(self, body: Body) -> dict[str, Any]:
        """Decides which parts the execution reads; returns their partitions, if the request wants them.

        Otherwise it waits until all blocks before theirs are decided.
        """
        table = self._find_readable_table(body)
        by_partition = get_flag(body, "by_partition")
        opening = replace(parse_opening(body), is_settled=not by_partition)
        with self._engine.reporting(), self._leases.hold_lease(table, opening) as lease:
            if not by_partition:
                return {}
            description = table.description_of(lease.metadata_version)
            return plan_partitions(lease, description, body, self._engine.config.timezone)

    def positions(self, body: Body) -> dict[str, Any]:
        """Returns how far a stream may read, and where its next batch ends."""
        table = self._find_readable_table(body)
        start = parse_stream_start(body)
        history = self._leases.history(table, get_seconds(body, "max_delay_seconds", MAX_SECONDS))
        after = start.read_blocks(table.definition, history)
        snapshot = table.snapshot()
        try:
            end = find_batch_end(
                snapshot.parts, after, start.limited(history.decided), get_positive_number(body, "max_rows")
            )
        finally:
            snapshot.release()
        return {
            "identity": history.identity,
            "available": {**after, **history.decided},
            "end": end,
            "dropped": history.dropped,
        }

    def release(self, body: Body) -> bool:
        """Ends the lease of a scan; returns whether there was one."""
        return self._leases.release(self._find_table(body), get_text(body, "scan"))

    def _find_table(self, body: Body) -> Table:
        table = self._engine.catalog.table(*_get_table_name(body))
        require_own_rows(table.definition)
        return table

    def _find_readable_table(self, body: Body) -> Table:
        table = self._find_table(body)
        self._require_caught_up(table)
        return table

    def _require_caught_up(self, table: Table) -> None:
        if self._engine.link_start.is_refusing:
            self._engine.link_start.require_readable(table.definition.database, table.definition.name)

    def _select_granules(
        self, description: TableDescription, parts: Sequence[Part], body: Body
    ) -> list[tuple[Part, list[MarkRange]]]:
        return select_granules(parts, description, get_text(body, "filter", ""), self._engine.config.timezone)


def _get_table_name(body: Body) -> tuple[str, str]:
    return get_text(body, "database", "default"), get_text(body, "table")


def get_replica_delay_seconds(engine: StatementRunner, table: Table) -> float:
    """Returns how far this replica of the table is behind, or ``UNKNOWN_DELAY_SECONDS``."""
    name = table.definition.full_name
    status = next((status for status in engine.replicas_status() if status.table == name), None)
    if status is None:
        return 0.0
    return status.delay_seconds if status.has_started else UNKNOWN_DELAY_SECONDS
