"""The HTTP interface as a server in a thread: routes, health checks, start and graceful stop.

====================  ================================================================
``/``                 ``Ok.`` without a query; else the query (``engine.http.query``)
``/ping``             ``Ok.``
``/replicas_status``  503 when a replica lags or cannot take part; ``?verbose=1`` tells
``/ready``            503 while a configured ZooKeeper has no session with this server
``/metrics``          Prometheus
``/play``             a page to type queries into
``/scan/…``           reading parts in pieces (``engine.http.scan_routes``)
====================  ================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from coordination.keeper import SessionState
from engine.config import Config, ConfigError
from engine.http.metrics import Metrics
from engine.http.query import QueryEndpoint, Receive, Scope, Send
from engine.http.scan_routes import scan_routes

if TYPE_CHECKING:
    from engine.engine import Engine

logger = logging.getLogger(__name__)

_START_SECONDS = 30.0
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class HttpServer:
    """``port`` is the real one from the start, even if 0 was asked for. Bound at once, served from :meth:`start`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._socket = bind(config.listen_host, config.http_port or 0, "http_port")
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._queries: QueryEndpoint | None = None

    def start(self, engine: Engine) -> None:
        metrics = Metrics(engine)
        self._queries = QueryEndpoint(engine, metrics)
        config = uvicorn.Config(
            _application(engine, self._queries, metrics),
            log_config=None,
            access_log=False,
            lifespan="off",
            http="httptools",
            timeout_keep_alive=self._config.keep_alive_timeout,
            timeout_graceful_shutdown=self._config.shutdown_wait_unfinished,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=1 << 20,
            backlog=4096,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        for _ in range(int(_START_SECONDS / 0.005)):
            if self._server.started or not self._thread.is_alive():
                return
            self._thread.join(0.005)

    def stop(self) -> None:
        """Accepts nothing more, gives running queries ``shutdown_wait_unfinished`` seconds, then cancels them."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(self._config.shutdown_wait_unfinished + 10)
        if self._queries is not None:
            self._queries.close()
        self._socket.close()

    def _run(self) -> None:
        assert self._server is not None
        with contextlib.suppress(asyncio.CancelledError):
            self._server.run(sockets=[self._socket])


def bind(host: str, port: int, key: str) -> socket.socket:
    """A listening socket. Raises :class:`ConfigError` naming the configuration's key."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on for its connections: 40 ms for every small answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host if host != "*" else "0.0.0.0", port))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigError(f"Cannot listen on {host}:{port} ({key}): {reason}") from None
    return listener


def _application(engine: Engine, queries: QueryEndpoint, metrics: Metrics) -> Application:
    """Queries do not pass the framework's layers: they would be a good part of what a small INSERT takes here."""

    async def root(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD") and not scope["query_string"]:
            await _OK(scope, receive, send)
        else:
            await queries(scope, receive, send)

    async def ping(_: Request) -> Response:
        return _OK

    def replicas_status(request: Request) -> Response:
        return _replicas_status(engine, request.query_params.get("verbose", "0") not in ("", "0"))

    async def ready(_: Request) -> Response:
        return _ready(engine)

    def prometheus(_: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def play(_: Request) -> Response:
        return HTMLResponse(_play_page())

    others = Starlette(
        routes=[
            Route("/ping", ping),
            Route("/replicas_status", replicas_status),
            Route("/ready", ready),
            Route("/metrics", prometheus),
            Route("/play", play),
            *scan_routes(engine),
        ]
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        is_query = scope["type"] == "http" and scope["path"] == "/"
        await (root if is_query else others)(scope, receive, send)

    return application


_OK = PlainTextResponse("Ok.\n")


@cache
def _play_page() -> str:
    return files("engine.http").joinpath("play.html").read_text(encoding="utf-8")


def _replicas_status(engine: Engine, verbose: bool) -> Response:
    limit = engine.config.max_replica_delay_for_distributed_queries
    lines = []
    is_healthy = True
    for table, delay_seconds, problem in engine.replicas_status():
        is_late = bool(limit) and delay_seconds >= limit
        is_healthy = is_healthy and not is_late and problem is None
        lines.append(f"{table}:\tAbsolute delay: {delay_seconds:.0f}. {problem or ''}".rstrip() + "\n")
    if is_healthy and not verbose:
        return _OK
    return PlainTextResponse("".join(lines) or "Ok.\n", status_code=200 if is_healthy else 503)


def _ready(engine: Engine) -> Response:
    keeper = engine.replication.keeper
    if keeper is None or keeper.state is SessionState.CONNECTED:
        return _OK
    return PlainTextResponse(f"The ZooKeeper session is {keeper.state.value}\n", status_code=503)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """An answer cut off on purpose, after an error in its middle, is not an error of the server."""
    return "without completing response" not in record.getMessage()
