"""The ASGI side of a query: request in, response out, and cancellation when the client leaves.

The loop never blocks: all work of a :class:`QueryExchange` runs on the query threads. While one chunk is being sent the
next is being made.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.front.http.answer_spill import SpillSpace
from engine.front.http.connection import UNLIMITED_SECONDS, HttpConnection
from engine.front.http.error_responses import (
    convert_to_pando_error,
    format_error,
    get_http_status,
    make_error_headers,
    make_exception_tag,
    make_exception_trailer,
)
from engine.front.http.insert_request import Reply
from engine.front.http.query_exchange import QueryExchange
from engine.front.http.query_request import QueryRequest, parse_request
from engine.front.http.request_body import BodyPipe
from engine.front.http.request_entry import RequestEntry
from engine.front.http.short_answers import ShortAnswers
from engine.front.prometheus_metrics import Metrics
from engine.front.session_store import SWEEP_SECONDS, Sessions, SessionStore
from parts.common.errors import CancelledError, PandoError, UserError
from parts.format.hashed_file import make_directories
from sql.grammar.statement_parser import parse_insert_head
from sql.settings.session_settings import (
    make_settings,
)

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

logger = logging.getLogger(__name__)

_GATHERED_BYTES = 256 << 10
_PATIENCE_SECONDS = 1.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class QueryEndpoint:
    """An ASGI application for ``/`` with a query."""

    def __init__(
        self, engine: StatementRunner, entry: RequestEntry, metrics: Metrics, sessions: Sessions | None = None
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._entry = entry
        self._sessions: Sessions = sessions or _make_sessions(engine)
        self._limit = engine.config.max_concurrent_queries
        self._with_slot: set[QueryExchange] = set()
        self._spill_tasks: set[asyncio.Task[None]] = set()
        directory = engine.config.temporary_path / "answers"
        make_directories(directory)
        self._space = SpillSpace(directory, engine.config.max_temporary_data_on_disk_size)
        self._threads = ThreadPoolExecutor(self._limit, thread_name_prefix="query")
        self._exchanges: set[QueryExchange] = set()
        self._profile = make_settings(engine.config.profile("default"), engine.config.timezone)
        self.short_answer = ShortAnswers(
            engine, entry, metrics, lambda: len(self._with_slot) < self._limit, self._make_common_headers(None)
        ).answer
        """Answers short queries; called by connections on the event loop before anything else."""

    def cancel_all(self) -> None:
        """Cancels all running queries with 394 (QUERY_WAS_CANCELLED), which their clients get. Thread-safe."""
        for exchange in list(self._exchanges):
            exchange.cancel()

    def close(self) -> None:
        """Stops the query threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: QueryRequest | None = None
        try:
            request = parse_request(scope)
            user = self._entry.authenticate(request.credentials, scope, accepts_proof=True)
            timeout_seconds = self._get_timeout(request, "http_receive_timeout")
            connection: HttpConnection = scope["state"]["connection"]
            connection.send_timeout = self._get_timeout(request, "http_send_timeout")
            pipe = BodyPipe(asyncio.get_running_loop(), timeout_seconds=timeout_seconds)
            # Read before the query counts as running, so that slow clients do not keep others out.
            body = await _read_small_body(request, receive, pipe, timeout_seconds)
            if self._is_full():
                raise UserError(
                    "TOO_MANY_SIMULTANEOUS_QUERIES",
                    f"Too many simultaneous queries: max_concurrent_queries = {self._limit}; retry later",
                )
        except _ClientLeftError:
            logger.info("client left before its request was complete")
            return
        except PandoError as error:
            self._metrics.count_failure(error)
            await send_error(send, error, self._make_common_headers(request), scope["method"])
            return
        stream = body or io.BufferedReader(pipe, 1 << 20)
        exchange = QueryExchange(self._engine, self._sessions, self._space, request, user, stream, connection)
        pipe.waiting = exchange.mark_waiting
        self._with_slot.add(exchange)
        try:
            with self._metrics.track_running():
                await self._run(exchange, request, pipe, receive, send, body is None, connection)
        finally:
            self._with_slot.discard(exchange)

    def begin_insert(self, scope: Mapping[str, Any], body: bytes, reply: Reply) -> Callable[[], None] | None:
        """Runs an INSERT with complete data on a query thread, without task or stream.

        Calls ``reply`` on the loop. Returns the function that cancels it, or ``None`` if :meth:`__call__` is to answer:
        for refusals and all other requests.
        """
        try:
            request = parse_request(scope)
            if request.credentials.proof is not None:
                return None
            user = self._entry.authenticate(request.credentials, scope, is_last=False)
            insert, _ = parse_insert_head(f"{request.query}\n".encode() + body, complete=True) or (None, 0)
            if (
                insert is None
                or insert.select
                or request.method != "POST"
                or request.with_form_fields
                or self._is_full()
            ):
                return None
        except PandoError:
            return None
        if self._get_setting(request, "send_progress_in_http_headers"):
            return None
        connection: HttpConnection = scope["state"]["connection"]
        exchange = QueryExchange(self._engine, self._sessions, self._space, request, user, io.BytesIO(body), connection)
        running = self._metrics.track_running()
        loop = asyncio.get_running_loop()

        def run() -> None:
            problem: Exception | None = None
            try:
                exchange.start()
            except Exception as raised:
                problem = raised
            loop.call_soon_threadsafe(end, problem)

        def end(problem: Exception | None) -> None:
            running.__exit__()
            self._with_slot.discard(exchange)
            self._exchanges.discard(exchange)
            status, data = 200, b""
            headers = self._make_common_headers(request) + _make_answer_headers(exchange)
            if problem is None:
                headers += [(b"content-type", exchange.content_type.encode()), (b"content-length", b"0")]
            else:
                error = convert_to_pando_error(problem)
                self._metrics.count_failure(error)
                status, more, data = make_error_answer(error)
                headers += more
            self._metrics.count_finished(exchange.counts)
            reply(status, b"".join(name + b": " + value + b"\r\n" for name, value in headers), data)

        try:
            self._threads.submit(run)
        except RuntimeError:  # no thread can be started
            return None
        running.__enter__()
        self._with_slot.add(exchange)
        self._exchanges.add(exchange)
        return exchange.cancel

    def _is_full(self) -> bool:
        return len(self._with_slot) + self._engine.count_other_queries() >= self._limit

    async def _run(
        self,
        exchange: QueryExchange,
        request: QueryRequest,
        pipe: BodyPipe,
        receive: Receive,
        send: Send,
        has_more_body: bool,
        connection: HttpConnection,
    ) -> None:
        self._exchanges.add(exchange)
        watch = asyncio.ensure_future(_feed_and_watch(receive, pipe, exchange, has_more_body))
        try:
            await self._answer(exchange, request, connection, send)
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        finally:
            self._exchanges.discard(exchange)
            watch.cancel()
            pipe.abort()
            if not exchange.is_closed:
                await self._run_in_thread(exchange.close)
            counts = exchange.counts
            self._metrics.count_finished(counts)
            logger.debug("query %s of %s ended: %s", exchange.query_id, request.credentials.user, counts)

    async def _answer(
        self, exchange: QueryExchange, request: QueryRequest, connection: HttpConnection, send: Send
    ) -> None:
        try:
            data = await self._start_exchange(exchange, request, connection)
        except Exception as problem:
            error = convert_to_pando_error(problem)
            self._metrics.count_failure(error)
            headers = self._make_common_headers(request) + _make_answer_headers(exchange)
            await send_error(send, error, headers, request.method)
            return
        headers = self._make_common_headers(request) + _make_answer_headers(exchange)
        if exchange.format:
            headers.append((b"x-clickhouse-format", exchange.format.encode()))
        if exchange.content_encoding:
            headers.append((b"content-encoding", exchange.content_encoding.encode()))
        headers.append((b"content-type", exchange.content_type.encode()))
        if request.method == "HEAD":
            exchange.cancel()
            data, exchange.is_finished = b"", True
        if exchange.is_finished:
            headers.append((b"content-length", str(len(data)).encode()))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": data})
            return
        await self._stream(exchange, data, headers, send)

    async def _start_exchange(
        self, exchange: QueryExchange, request: QueryRequest, connection: HttpConnection
    ) -> bytes:
        """Returns the first bytes of the response and sends progress meanwhile."""
        start = self._run_in_thread(exchange.start)
        if not self._get_setting(request, "send_progress_in_http_headers"):
            return await start
        task = asyncio.ensure_future(start)
        interval_seconds = max(int(self._get_setting(request, "http_headers_progress_interval_ms")), 1) / 1000
        while not (await asyncio.wait({task}, timeout=min(interval_seconds, UNLIMITED_SECONDS)))[0]:
            connection.send_progress(exchange.progress.encode())
        return await task

    async def _stream(self, exchange: QueryExchange, data: bytes, headers: Headers, send: Send) -> None:
        tag = make_exception_tag()
        headers.append((b"x-clickhouse-exception-tag", tag.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        chunk: bytes | None = data
        while chunk is not None:
            following = asyncio.ensure_future(self._run_in_thread(exchange.next_chunk))
            patience = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._spill_slow_answer, exchange)
            try:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                patience.cancel()
                try:
                    chunk = await following
                except Exception as problem:
                    error = convert_to_pando_error(problem)
                    self._metrics.count_failure(error)
                    with contextlib.suppress(Exception):
                        trailer = exchange.finish_with(make_exception_trailer(error, tag))
                        await send({"type": "http.response.body", "body": trailer, "more_body": True})
                    return  # without the last chunk: the server closes the connection
        await send({"type": "http.response.body", "body": b""})

    def _spill_slow_answer(self, exchange: QueryExchange) -> None:
        task = asyncio.ensure_future(self._spill_rest(exchange))
        self._spill_tasks.add(task)
        task.add_done_callback(self._spill_tasks.discard)

    async def _spill_rest(self, exchange: QueryExchange) -> None:
        """Spills the response of a slow client, which then holds neither a snapshot nor a query slot."""
        if await self._run_in_thread(exchange.spill_rest):
            logger.info("the answer of query %s waits on disk for its client", exchange.query_id)
            self._with_slot.discard(exchange)

    async def _run_in_thread(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _get_timeout(self, request: QueryRequest, name: str) -> float:
        return min(float(self._get_setting(request, name)) or UNLIMITED_SECONDS, UNLIMITED_SECONDS)

    def _get_setting(self, request: QueryRequest, name: str) -> Any:
        return request.settings.get(name, getattr(self._profile, name))

    def _make_common_headers(self, request: QueryRequest | None) -> Headers:
        config = self._engine.config
        headers = [
            (b"x-clickhouse-server-display-name", _encode_header(config.display_name)),
            (b"x-clickhouse-timezone", config.timezone.encode()),
        ]
        if request is not None and request.origin and not config.http_options_response:
            is_wanted = self._get_setting(request, "add_http_cors_header")
            headers += [(b"access-control-allow-origin", b"*")] if is_wanted else []
        return headers


def _make_sessions(engine: StatementRunner) -> SessionStore:
    sessions = SessionStore(engine.services.monotonic, engine.end_session)
    engine.services.housekeeping.add(sessions.task, SWEEP_SECONDS)
    return sessions


class _ClientLeftError(Exception):
    pass


async def _read_small_body(
    request: QueryRequest, receive: Receive, pipe: BodyPipe, timeout_seconds: float
) -> BinaryIO | None:
    """Returns the whole body if it is small; else ``None``, with its beginning in the pipe."""
    if request.is_read_only:
        return io.BytesIO()
    held = bytearray()
    while len(held) <= _GATHERED_BYTES:
        try:
            async with asyncio.timeout(timeout_seconds):
                message = await receive()
        except TimeoutError:
            problem = f"The client sent nothing of its request body for {timeout_seconds:g} s"
            raise UserError("SOCKET_TIMEOUT", problem) from None
        if message["type"] == "http.disconnect":
            raise _ClientLeftError
        held += message.get("body", b"")
        if not message.get("more_body", False):
            return io.BytesIO(held)
    await pipe.put(bytes(held))
    return None


async def _feed_and_watch(receive: Receive, pipe: BodyPipe, exchange: QueryExchange, has_more_body: bool) -> None:
    """Feeds the pipe, and cancels the query when the client leaves."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            pipe.abort()
            exchange.cancel()
            return
        if has_more_body:
            await pipe.put(message.get("body", b""))
            if not message.get("more_body", False):
                pipe.finish()
                has_more_body = False


def _make_answer_headers(exchange: QueryExchange) -> Headers:
    return [
        (b"x-clickhouse-query-id", _encode_header(exchange.query_id)),
        (b"x-clickhouse-summary", exchange.summary.encode()),
    ]


def _encode_header(text: str) -> bytes:
    return re.sub(rb"[\x00-\x1f\x7f]", b"?", text.encode("latin-1", "replace"))


async def send_error(send: Send, error: PandoError, headers: Headers, method: str) -> None:
    """Sends an error response."""
    status, more, text = make_error_answer(error)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else text})


def make_error_answer(error: PandoError) -> tuple[int, Headers, bytes]:
    """Returns status, headers and body of an error response."""
    text = format_error(error).encode("utf-8", "replace")
    status = get_http_status(error)
    level = logging.WARNING if status >= 500 else logging.INFO
    if not isinstance(error, CancelledError):
        logger.log(level, "query failed: %s", error)
    return status, make_error_headers(error, len(text)), text
