"""The ASGI side of a query: request in, answer out, the client's leaving noticed.

The loop never blocks: everything an :class:`Exchange` does runs on the query threads. While one chunk is being sent
the next is being made.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.http.body import BodyPipe
from engine.http.errors import as_pando_error, error_text, exception_tag, exception_trailer, http_status
from engine.http.exchange import Exchange
from engine.http.metrics import Metrics
from engine.http.request import QueryRequest, parse_request
from engine.http.sessions import SessionStore
from engine.http.users import Users
from parts.errors import CancelledError, PandoError, UserError

if TYPE_CHECKING:
    from engine.engine import Engine

logger = logging.getLogger(__name__)

_FIRST_BYTES_SECONDS = 300.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class QueryEndpoint:
    """An ASGI application for ``/`` with a query."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._users = Users(engine.config.users)
        self._sessions = SessionStore()
        self._limit = engine.config.max_concurrent_queries
        self._running = 0
        self._threads = ThreadPoolExecutor(self._limit, thread_name_prefix="query")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = parse_request(scope)
            user = self._users.authenticate(request.credentials)
            pipe = BodyPipe(asyncio.get_running_loop())
            # Before the query counts as running: a client that sends nothing must not keep others out.
            body = await _whole_body(request, receive, pipe)
            if self._running >= self._limit:
                raise UserError(
                    "TOO_MANY_SIMULTANEOUS_QUERIES",
                    f"Too many simultaneous queries: max_concurrent_queries = {self._limit}; retry later",
                )
        except _ClientLeftError:
            logger.info("client left before its request was complete")
            return
        except PandoError as error:
            self._metrics.failed(error)
            await _send_error(send, error, self._common_headers(), scope["method"])
            return
        self._running += 1
        try:
            exchange = Exchange(self._engine, self._sessions, request, user, body or io.BufferedReader(pipe, 1 << 20))
            with self._metrics.running():
                await self._run(exchange, request, pipe, receive, send, body is None)
        finally:
            self._running -= 1

    async def _run(
        self,
        exchange: Exchange,
        request: QueryRequest,
        pipe: BodyPipe,
        receive: Receive,
        send: Send,
        has_more_body: bool,
    ) -> None:
        watch = asyncio.ensure_future(_watch(receive, pipe, exchange, has_more_body))
        try:
            await self._answer(exchange, request, send)
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        finally:
            watch.cancel()
            pipe.abort()
            if not exchange.is_closed:
                await self._in_thread(exchange.close)
            counts = exchange.counts
            self._metrics.finished(counts)
            logger.debug("query %s of %s ended: %s", exchange.query_id, request.credentials.user, counts)

    async def _answer(self, exchange: Exchange, request: QueryRequest, send: Send) -> None:
        try:
            data = await self._in_thread(exchange.start)
        except Exception as problem:
            error = as_pando_error(problem)
            self._metrics.failed(error)
            headers = self._common_headers() + _answer_headers(exchange)
            await _send_error(send, error, headers, request.method)
            return
        headers = self._common_headers() + _answer_headers(exchange)
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

    async def _stream(self, exchange: Exchange, data: bytes, headers: Headers, send: Send) -> None:
        tag = exception_tag()
        headers.append((b"x-clickhouse-exception-tag", tag.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        chunk: bytes | None = data
        while chunk is not None:
            following = asyncio.ensure_future(self._in_thread(exchange.more))
            try:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                try:
                    chunk = await following
                except Exception as problem:
                    error = as_pando_error(problem)
                    self._metrics.failed(error)
                    with contextlib.suppress(Exception):
                        trailer = exchange.finish_with(exception_trailer(error, tag))
                        await send({"type": "http.response.body", "body": trailer, "more_body": True})
                    return  # without the last chunk: the server closes the connection
        await send({"type": "http.response.body", "body": b""})

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _common_headers(self) -> Headers:
        config = self._engine.config
        return [
            (b"x-clickhouse-server-display-name", config.display_name.encode("latin-1", "replace")),
            (b"x-clickhouse-timezone", config.timezone.encode()),
        ]


class _ClientLeftError(Exception):
    pass


async def _whole_body(request: QueryRequest, receive: Receive, pipe: BodyPipe) -> BinaryIO | None:
    """The body when its first message holds all of it; else ``None``, and the message is in the pipe."""
    if request.is_read_only:
        return io.BytesIO()
    try:
        async with asyncio.timeout(_FIRST_BYTES_SECONDS):
            message = await receive()
    except TimeoutError:
        raise UserError(
            "SOCKET_TIMEOUT", f"The client sent nothing of its request body for {_FIRST_BYTES_SECONDS:g} s"
        ) from None
    if message["type"] == "http.disconnect":
        raise _ClientLeftError
    if not message.get("more_body", False):
        return io.BytesIO(message.get("body", b""))
    await pipe.put(message.get("body", b""))
    return None


async def _watch(receive: Receive, pipe: BodyPipe, exchange: Exchange, has_more_body: bool) -> None:
    """Feeds the pipe; cancels the query when the client leaves."""
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


def _answer_headers(exchange: Exchange) -> Headers:
    return [
        (b"x-clickhouse-query-id", exchange.query_id.encode("latin-1", "replace")),
        (b"x-clickhouse-summary", exchange.summary.encode()),
    ]


async def _send_error(send: Send, error: PandoError, headers: Headers, method: str) -> None:
    text = error_text(error).encode()
    headers += [
        (b"x-clickhouse-exception-code", str(error.code).encode()),
        (b"content-type", b"text/plain; charset=UTF-8"),
        (b"content-length", str(len(text)).encode()),
    ]
    status = http_status(error)
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="Pando"'))
    level = logging.WARNING if status >= 500 else logging.INFO
    if not isinstance(error, CancelledError):
        logger.log(level, "query failed: %s", error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else text})
