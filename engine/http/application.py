"""Which path is whose, and what every answer has in common: an error is a ClickHouse code as text, whatever failed.

====================  ================================================================
``/``                 ``Ok.`` without a query; else the query (``engine.http.query``)
``/ping``             ``Ok.``
``/replicas_status``  503 when a replica lags or cannot take part; ``?verbose=1`` tells
``/ready``            503 while a configured ZooKeeper has no session with this server
``/metrics``          Prometheus
``/play``             a page to type queries into
``/scan/…``           reading parts in pieces (``engine.http.scan_routes``)
====================  ================================================================

OPTIONS tells the methods (and ``http_options_response`` of the configuration, which browsers ask for); any method but
these is refused: 405.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from coordination.keeper import SessionState
from engine.http.errors import as_pando_error
from engine.http.metrics import Metrics
from engine.http.query import QueryEndpoint, Receive, Scope, Send, send_error
from engine.http.scan_routes import Scans
from parts.errors import CancelledError, UserError

if TYPE_CHECKING:
    from engine.engine import Engine

logger = logging.getLogger(__name__)

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]

_QUERY_METHODS = ("GET", "HEAD", "POST")
_NOT_FOUND = (
    "There is no handle {}\n\nUse / or /ping for health checks.\n"
    "Or /replicas_status for more sophisticated health checks.\n"
    "Send queries from your program with POST method or GET /?query=...\n"
)
_OK = PlainTextResponse("Ok.\n")


def application(engine: Engine, queries: QueryEndpoint, metrics: Metrics, scans: Scans) -> Application:
    """An ASGI application that never raises."""
    pages = _pages(engine, metrics, scans)

    async def root(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD") and not scope["query_string"]:
            await _OK(scope, receive, send)
        else:
            await queries(scope, receive, send)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        is_root = path == "/"
        if not is_root and path not in pages:
            await PlainTextResponse(_NOT_FOUND.format(path), 404)(scope, receive, send)
            return
        methods, endpoint = (_QUERY_METHODS, None) if is_root else pages[path]
        if method == "OPTIONS":
            await _options(engine, methods)(scope, receive, send)
        elif method not in methods:
            raise UserError("UNSUPPORTED_METHOD", f"Method {method} is not supported, use {', '.join(methods)}")
        elif endpoint is None:
            await root(scope, receive, send)  # past the framework: it would be a good part of a small query's time
        else:
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

    return partial(_answered, route)


async def _answered(route: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Whatever is raised becomes an answer, or the end of the connection when the answer has begun."""
    has_begun = False

    async def noting_send(message: MutableMapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await route(scope, receive, noting_send)
    except (Exception, asyncio.CancelledError) as problem:
        is_stop = isinstance(problem, asyncio.CancelledError)
        error = CancelledError("The server is stopping") if is_stop else as_pando_error(problem)
        if not has_begun:
            await send_error(send, error, [], scope["method"])
        elif not is_stop:
            logger.info("an answer is cut off: %s", error)


# -- pages ------------------------------------------------------------------------------------------------------------


def _pages(engine: Engine, metrics: Metrics, scans: Scans) -> dict[str, tuple[tuple[str, ...], Endpoint]]:
    async def ping(_: Request) -> Response:
        return _OK

    async def replicas_status(request: Request) -> Response:
        verbose = request.query_params.get("verbose", "0") not in ("", "0")
        return await asyncio.to_thread(_replicas_status, engine, verbose)

    async def ready(_: Request) -> Response:
        return _ready(engine)

    async def prometheus(_: Request) -> Response:
        text = await asyncio.to_thread(metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def play(_: Request) -> Response:
        return HTMLResponse(_play_page())

    read = ("GET", "HEAD")
    return {
        "/ping": (read, ping),
        "/replicas_status": (read, replicas_status),
        "/ready": (read, ready),
        "/metrics": (read, prometheus),
        "/play": (read, play),
        **{path: (("POST",), endpoint) for path, endpoint in scans.endpoints().items()},
    }


def _options(engine: Engine, methods: tuple[str, ...]) -> Response:
    headers = {"Allow": ", ".join((*methods, "OPTIONS"))}
    headers.update((header.name, header.value) for header in engine.config.http_options_response)
    return Response(status_code=204, headers=headers)


@cache
def _play_page() -> str:
    return files("engine.http").joinpath("play.html").read_text(encoding="utf-8")


def _replicas_status(engine: Engine, verbose: bool) -> Response:
    limit = engine.config.max_replica_delay_for_distributed_queries
    lines = []
    is_healthy = True
    for status in engine.replicas_status():
        is_late = bool(limit) and status.delay_seconds >= limit
        is_healthy = is_healthy and not is_late and status.problem is None
        remarks = " ".join(filter(None, (status.problem, status.warning)))
        lines.append(f"{status.table}:\tAbsolute delay: {status.delay_seconds:.0f}. {remarks}".rstrip() + "\n")
    if is_healthy and not verbose:
        return _OK
    return PlainTextResponse("".join(lines) or "Ok.\n", status_code=200 if is_healthy else 503)


def _ready(engine: Engine) -> Response:
    keeper = engine.replication.keeper
    if keeper is None or keeper.state is SessionState.CONNECTED:
        return _OK
    return PlainTextResponse(f"The ZooKeeper session is {keeper.state.value}\n", status_code=503)
