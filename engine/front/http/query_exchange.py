"""One request's query, from its text to the bytes of its response. Runs on a thread; knows no ASGI.

The response is pulled: :meth:`QueryExchange.start` runs the statement and makes the first bytes,
:meth:`QueryExchange.next_chunk` the next ones. With ``wait_end_of_query`` it is completed first (large ones on disk).
Invariants:

- ``start`` is called once, ``next_chunk`` until it returns ``None`` or raises, ``close`` always; a lock separates them.
- ``cancel`` may be called at any time from any thread.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from engine.catalog.database_names import unknown_database
from engine.front.compressed_blocks import open_compressed_blocks
from engine.front.http.answer_chunks import compress_chunks, gather_chunks
from engine.front.http.answer_spill import AnswerSpill, SpillSpace
from engine.front.http.connection import HttpConnection
from engine.front.http.multipart_forms import MAX_FORM_BYTES, Form, make_external_tables, read_form
from engine.front.http.query_request import QueryRequest
from engine.front.http.request_body import join_head, open_decompressed, read_some, read_up_to
from engine.front.http.request_entry import AuthenticatedUser
from engine.front.http.response_compression import choose_compressor
from engine.front.session_store import Sessions
from engine.interpreter.data_definition import resolve_setting_changes
from engine.queries.process_list import Process
from engine.queries.result_output import encode_result, resolve_output_settings
from engine.queries.session import QueryResult, Session
from engine.server.cluster_secret import read_signed_statement
from parts.common.errors import CancelledError, UserError
from parts.common.query_status import Witness
from sql.formats.registry import content_type, find_format
from sql.grammar.statement_parser import parse_insert_head
from sql.grammar.statements.statement import ParsedStatement, SelectQuery, SetSettings, Statement, Use
from sql.settings.session_settings import (
    make_settings,
)
from sql.settings.supported_settings import (
    Settings,
)

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

_WHOLE_BYTES = 16 << 20
_MOST_BUFFERED_BYTES = 64 << 20
_MOST_SPILLED_BYTES = 256 << 20
_HEAD_READ_BYTES = 64 << 10
_NO_WITNESS = Witness()


class QueryExchange:
    """The query of one request."""

    def __init__(
        self,
        engine: StatementRunner,
        sessions: Sessions,
        space: SpillSpace,
        request: QueryRequest,
        user: AuthenticatedUser,
        body: BinaryIO,
        connection: HttpConnection,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._space = space
        self._spill: AnswerSpill | None = None
        self._request = request
        self._user = user
        self._body = body
        self._connection = connection
        self._started = engine.services.monotonic()
        self._process: Process | None = None
        self._result: QueryResult | None = None
        self._stored_session: Session | None = None
        self._entered: Session | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._source: Iterator[bytes] = self._chunks
        self._is_cancelled = False
        self._lock = threading.Lock()
        self.query_id = request.query_id or str(engine.services.new_uuid())
        self.format = ""
        self.content_type = "text/plain; charset=UTF-8"
        self.content_encoding = ""
        self.is_finished = False
        self.is_closed = False

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """Runs the statement; returns the first bytes of the response, or all of them (``is_finished``)."""
        with self._lock:
            try:
                data = self._start()
            except BaseException:
                self._release()
                raise
            if self.is_finished:
                self._release()
            self._witness.waits()
            return data

    def _start(self) -> bytes:
        self._check_signed_statement()
        form = self._read_form()
        session = self._enter_session()
        if form.files:
            settings = make_settings(session.settings, self._engine.config.timezone)
            session.external_tables = make_external_tables(form.files, self._request.table_options, settings)
        parsed, text, data = self._parse_statement(session)
        if self._is_cancelled:
            raise CancelledError
        if self._is_repeatable(parsed):
            self._connection.note_repeatable()
        result = self._result = self._engine.execute_parsed(
            parsed, text, session, data, self._request.parameters, self._on_start
        )
        self._keep_changes(parsed.statement, session)
        if self._is_cancelled:
            result.cancel()
        if result.outfile is not None:
            raise UserError("SUPPORT_IS_DISABLED", "INTO OUTFILE is for clients: a server writes no files for queries")
        settings = resolve_output_settings(self._engine.config, session, parsed, {})
        if not result.columns:
            self.is_finished = True
            return b""
        self._chunks = self._source = self._encode(result, settings)
        if settings.wait_end_of_query:
            return self._complete_answer()
        return self._fill_buffer(settings.http_response_buffer_size)

    def next_chunk(self) -> bytes | None:
        """Returns the next bytes; ``None`` at the end. Raises ``PandoError``."""
        with self._lock, self._mark_working():
            return next(self._chunks, None)

    def cancel(self) -> None:
        """Cancels the query."""
        self._is_cancelled = True
        if self._result is not None:
            self._result.cancel()
        if self._process is not None:  # not by its id, which may be reused
            self._process.stop()

    def _on_start(self, process: Process) -> None:
        self._process = process
        if self._connection.number is not None:
            process.status.witness.serves(self._connection.number)
        if self._is_cancelled:
            process.stop()

    @contextmanager
    def _mark_working(self) -> Iterator[None]:
        """Marks the query as working during the block; between two pieces it waits for the client."""
        self._witness.works()
        try:
            yield
        finally:
            self._witness.waits()

    @contextmanager
    def mark_waiting(self) -> Iterator[None]:
        """Marks the query as waiting for the client's data during the block."""
        self._witness.waits()
        try:
            yield
        finally:
            self._witness.works()

    @property
    def _witness(self) -> Witness:
        return self._process.status.witness if self._process is not None else _NO_WITNESS

    def close(self) -> None:
        """Releases all that the query holds."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._result is not None:
            self._result.close()
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        if self._spill is not None:
            self._spill.close()
        request = self._request
        if self._stored_session is not None:
            seconds = request.session_timeout_seconds
            self._sessions.release(request.credentials.user, request.session_id, seconds, self._stored_session)
        elif self._entered is not None:
            self._engine.end_session(self._entered)

    @property
    def counts(self) -> dict[str, int]:
        """The query's counts so far."""
        names = (
            "read_rows", "read_bytes", "written_rows", "written_bytes", "total_rows_to_read", "result_rows",
            "deduplicated_blocks", "memory_usage",
        )  # fmt: skip
        source = self._result or self._process
        statistics = source.statistics if source is not None else None
        counts = {name: getattr(statistics, name, 0) for name in names}
        counts["elapsed_ns"] = int((self._engine.services.monotonic() - self._started) * 1e9)
        return counts

    @property
    def summary(self) -> str:
        """The JSON of ``X-ClickHouse-Summary``: counts as strings, as ClickHouse writes them."""
        return json.dumps({name: str(count) for name, count in self.counts.items()}, separators=(",", ":"))

    @property
    def progress(self) -> str:
        """The JSON of ``X-ClickHouse-Progress``, with current counts. Thread-safe."""
        if self._process is not None:
            self._process.refresh_statistics()
        return self.summary

    # -- the question -----------------------------------------------------------------------------------------------

    def _check_signed_statement(self) -> None:
        proof = self._request.credentials.proof
        if proof is not None:
            self._body = join_head(read_signed_statement(proof, self._body, self._sessions.is_first), self._body)

    def _read_form(self) -> Form:
        """Reads the whole body as a form, whose fields are added to the request."""
        request = self._request
        if request.with_form_fields is None or request.is_read_only:
            return Form()
        stream = open_decompressed(self._body, request.content_encoding)
        body = stream.read(MAX_FORM_BYTES + 1)
        if len(body) > MAX_FORM_BYTES:
            raise UserError("LIMIT_EXCEEDED", f"The form is longer than {MAX_FORM_BYTES} bytes")
        form = read_form(body, request.boundary)
        self._request = replace(request.with_form_fields(form.fields), content_encoding="", decompresses_blocks=False)
        self._body = io.BytesIO()
        self.query_id = self._request.query_id or self.query_id
        return form

    def _enter_session(self) -> Session:
        """Returns the session of this statement: a copy, because URL settings last for one request."""
        request = self._request
        if request.session_id:
            self._stored_session = self._sessions.acquire(
                request.credentials.user, request.session_id, self._user.open_session, must_exist=request.session_check
            )
        kept = self._entered = self._stored_session or self._user.open_session()
        settings = self._user.resolve_settings(kept.settings, request)
        if request.database and request.database not in self._engine.database_names():
            raise unknown_database(request.database, self._engine.database_names())
        return Session(
            database=request.database or kept.database,
            settings=settings,
            user=kept.user,
            profile=kept.profile,
            query_id=self.query_id,
            temporary_tables=kept.temporary_tables,
            parameters=dict(kept.parameters),
        )

    def _keep_changes(self, statement: Statement, session: Session) -> None:
        """Applies USE and SET to the kept session, if the request names one."""
        if self._stored_session is not None and isinstance(statement, Use):
            self._stored_session.database = session.database
        elif self._stored_session is not None and isinstance(statement, SetSettings):
            self._stored_session.apply(resolve_setting_changes(statement, self._engine.config))
            self._stored_session.parameters.update(statement.parameters)

    def _parse_statement(self, session: Session) -> tuple[ParsedStatement, str, BinaryIO | None]:
        """Parses URL and body as one text; the data of an INSERT stay a stream."""
        query = self._request.query.encode()
        stream = open_decompressed(self._body, self._request.content_encoding)
        if self._request.decompresses_blocks:
            stream = open_compressed_blocks(stream)
        prefix = query + b"\n" if query else b""
        is_complete = False
        while (head := parse_insert_head(prefix, complete=is_complete)) is None:
            chunk = read_some(stream, _HEAD_READ_BYTES)
            is_complete = not chunk
            prefix += chunk
        insert, data_start = head
        if insert is not None:
            data = join_head(prefix[data_start:], stream)
            return ParsedStatement(insert), prefix[:data_start].decode("utf-8", "replace"), data
        text = _read_query_text(prefix, stream, make_settings(session.settings).max_query_size)
        return self._engine.parse(text, session, self._on_start), text, None

    def _is_repeatable(self, parsed: ParsedStatement) -> bool:
        """Returns whether the query may run twice without the client noticing."""
        request = self._request
        return isinstance(parsed.statement, SelectQuery) and not request.session_id and not request.credentials.proof

    # -- the answer ---------------------------------------------------------------------------------------------------

    def _encode(self, result: QueryResult, settings: Settings) -> Iterator[bytes]:
        """Yields the response: formatted, gathered into chunks worth sending, compressed."""
        name = result.format or self._request.format or settings.default_format or "TabSeparated"
        self.format = find_format(name).name
        self.content_type = content_type(name)
        chunks = encode_result(
            result,
            name,
            settings,
            self._engine.services.monotonic,
            client_protocol_version=self._request.client_protocol_version,
        )
        accepted = self._request.accept_encoding if settings.enable_http_compression else ""
        compressor = choose_compressor(
            accepted, settings.http_zlib_compression_level, in_blocks=self._request.compresses_blocks
        )
        self.content_encoding = compressor.encoding
        self.compressor = compressor
        return compress_chunks(gather_chunks(chunks), compressor)

    def finish_with(self, trailer: bytes) -> bytes:
        """Returns the last bytes of a response after an error, in the response's own compression."""
        return self.compressor.compress(trailer) + self.compressor.finish()

    def _fill_buffer(self, size: int) -> bytes:
        held: list[bytes] = []
        held_bytes = 0
        while held_bytes < min(max(size, 1), _MOST_BUFFERED_BYTES):
            chunk = next(self._chunks, None)
            if chunk is None:
                self.is_finished = True
                break
            held.append(chunk)
            held_bytes += len(chunk)
        return b"".join(held)

    def _complete_answer(self) -> bytes:
        spill = self._spill = AnswerSpill(self._space)
        if not spill.fill(self._chunks):
            spill.close()
            raise UserError(
                "NOT_ENOUGH_SPACE",
                f"The answer does not fit into the space for answers made whole in {self._space.directory}; "
                "ask without wait_end_of_query",
            )
        self._chunks = spill.read_chunks()
        if spill.error is not None:
            raise spill.error
        if spill.size_bytes <= _WHOLE_BYTES:
            self.is_finished = True
            return b"".join(self._chunks)
        return next(self._chunks, b"")

    def spill_rest(self) -> bool:
        """Completes a slow client's answer on disk; returns True if only sending is left."""
        with self._lock:
            if self._spill is not None or self.is_closed:
                return False
            self._witness.works()
            spill, rest = AnswerSpill(self._space, _MOST_SPILLED_BYTES), self._chunks
            self._spill = spill
            is_whole = spill.fill(rest)
            self._chunks = chain(spill.read_chunks(), rest)
            self._witness.waits()
            if is_whole and self._result is not None:
                self._result.close()
            return is_whole


def _read_query_text(prefix: bytes, stream: BinaryIO, limit: int) -> str:
    query = prefix + read_up_to(stream, limit + 1 - len(prefix))
    if len(query) > limit:
        raise UserError(
            "SYNTAX_ERROR", f"Max query size exceeded: the query is longer than max_query_size = {limit} bytes"
        )
    try:
        return query.decode()
    except UnicodeDecodeError as error:
        raise UserError("SYNTAX_ERROR", f"The query is not valid UTF-8 at byte {error.start}") from None
