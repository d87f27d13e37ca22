"""Routes each path to its handler; every failure becomes a response with ClickHouse's error code.

====================  ================================================================
``/``                 ``Ok.`` without a query; else the query (``engine.front.http.query_endpoint``);
``/ping``             ``Ok.``;
``/replicas_status``  503 when a replica lags or cannot take part; ``?verbose=1``: a line for each;
                      ``?delays=1``: the delay of each replica, for other servers;
``/ready``            503 while a configured ZooKeeper has no session with this server;
``/metrics``          Prometheus;
``/play``             a page to type queries into;
``/links``            a page that draws the links with other clusters;
``/scan/…``           reading parts in pieces (``engine.front.http.scan_routes``);
``/links/…``          what other clusters ask (``engine.front.http.link_routes``);
====================  ================================================================

OPTIONS returns the allowed methods, and for browsers the configuration's ``http_options_response``. Any other method is
refused with 405.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from email.utils import formatdate
from functools import cache, partial
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from engine.front.http.error_responses import convert_to_pando_error
from engine.front.http.link_routes import PREFIX as LINKS_PREFIX
from engine.front.http.link_routes import LinkRoutes
from engine.front.http.query_endpoint import QueryEndpoint, Receive, Scope, Send, send_error
from engine.front.http.scan_routes import ScanEndpoints
from engine.front.http.status_pages import StatusPage, StatusPages
from engine.server.config import Config
from parts.common.errors import CancelledError, UserError

logger = logging.getLogger(__name__)

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Guard = Callable[[Scope], None]
Headers = Sequence[tuple[bytes, bytes]]
Endpoint = Callable[[Request], Awaitable[Response]]

STATUS_PAGE_PATHS = ("/ping", "/replicas_status", "/ready", "/metrics")

_READ_METHODS = ("GET", "HEAD")
_QUERY_METHODS = (*_READ_METHODS, "POST")
_NOT_FOUND = (
    "There is no handle {}\n\nUse / or /ping for health checks.\n"
    "Or /replicas_status for more sophisticated health checks.\n"
    "Send queries from your program with POST method or GET /?query=...\n"
)
_OK = PlainTextResponse("Ok.\n")


def make_application(
    config: Config,
    queries: QueryEndpoint,
    pages: StatusPages,
    scans: ScanEndpoints,
    links: LinkRoutes,
    guard: Guard,
) -> Application:
    """Returns an ASGI application that never raises.

    ``guard`` raises for requests that may not see ``/metrics`` and the like.
    """
    routes = {**_page_routes(pages, guard), **_html_routes(config)}
    routes.update((path, (("POST",), endpoint)) for path, endpoint in scans.endpoints().items())

    async def root(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD") and not scope["query_string"]:
            await _OK(scope, receive, send)
        else:
            await queries(scope, receive, send)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        methods: tuple[str, ...] = _QUERY_METHODS
        endpoint: Endpoint | None = None
        if path.startswith(LINKS_PREFIX):
            methods, endpoint = ("POST",), links
        elif path in routes:
            methods, endpoint = routes[path]
        elif path != "/":
            await PlainTextResponse(_NOT_FOUND.format(path), 404)(scope, receive, send)
            return
        if method == "OPTIONS":
            await _make_options_response(config, methods)(scope, receive, send)
        elif method not in methods:
            raise UserError("UNSUPPORTED_METHOD", f"Method {method} is not supported, use {', '.join(methods)}")
        elif endpoint is None:
            await root(scope, receive, send)  # without the framework, which costs a good part of a small query's time
        else:
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

    return partial(_answer_errors, route)


def make_status_page_application(pages: StatusPages, guard: Guard = lambda scope: None) -> Application:
    """Returns an ASGI application of ``STATUS_PAGE_PATHS`` alone.

    It closes the connection after each response, because the next request may be for another process.
    """
    routes = _page_routes(pages, guard)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["method"] in _READ_METHODS and path in routes:
            response = await routes[path][1](Request(scope, receive))
        else:
            response = PlainTextResponse(_NOT_FOUND.format(path), 404)
        response.headers["Connection"] = "close"
        response.headers["Date"] = formatdate(usegmt=True)
        await response(scope, receive, send)

    return partial(_answer_errors, route, headers=((b"connection", b"close"),))


async def _answer_errors(route: Application, scope: Scope, receive: Receive, send: Send, headers: Headers = ()) -> None:
    """Runs a route and turns any exception into an error response with these headers.

    If the response has begun, the exception ends the connection.
    """
    has_begun = False

    async def track_send(message: MutableMapping[str, Any]) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await route(scope, receive, track_send)
    except (Exception, asyncio.CancelledError) as problem:
        is_stop = isinstance(problem, asyncio.CancelledError)
        error = CancelledError("The server is stopping") if is_stop else convert_to_pando_error(problem)
        if not has_begun:
            await send_error(send, error, list(headers), scope["method"])
        elif not is_stop:
            logger.info("an answer is cut off: %s", error)


# -- pages ------------------------------------------------------------------------------------------------------------


def _page_routes(pages: StatusPages, guard: Guard) -> dict[str, tuple[tuple[str, ...], Endpoint]]:
    async def ping(_: Request) -> Response:
        return _make_response(pages.ping())

    async def replicas_status(request: Request) -> Response:
        if request.query_params.get("delays", "0") not in ("", "0"):
            return _make_response(await asyncio.to_thread(pages.replica_delays))
        verbose = request.query_params.get("verbose", "0") not in ("", "0")
        if verbose:
            guard(request.scope)
        return _make_response(await asyncio.to_thread(pages.replicas_status, verbose=verbose))

    async def ready(_: Request) -> Response:
        return _make_response(await asyncio.to_thread(pages.ready))

    async def metrics(request: Request) -> Response:
        guard(request.scope)
        return _make_response(await asyncio.to_thread(pages.metrics))

    return {
        path: (_READ_METHODS, endpoint)
        for path, endpoint in zip(STATUS_PAGE_PATHS, (ping, replicas_status, ready, metrics), strict=True)
    }


def _make_response(page: StatusPage) -> Response:
    return Response(page.body, page.status, headers={"Content-Type": page.content_type})


def _html_routes(config: Config) -> dict[str, tuple[tuple[str, ...], Endpoint]]:
    """Returns the pages for browsers. They hold no data: their scripts query as the user who is typed in."""

    async def play(_: Request) -> Response:
        return HTMLResponse(_read_page("play.html"))

    async def links(_: Request) -> Response:
        # A cluster's name has letters, digits, "_" and "-" only, so it can stand in HTML as it is.
        return HTMLResponse(_read_page("links.html").replace("{cluster}", config.cluster_name or "this server"))

    return {"/play": (_READ_METHODS, play), "/links": (_READ_METHODS, links)}


def _make_options_response(config: Config, methods: tuple[str, ...]) -> Response:
    headers = {"Allow": ", ".join((*methods, "OPTIONS"))}
    headers.update((header.name, header.value) for header in config.http_options_response)
    return Response(status_code=204, headers=headers)


@cache
def _read_page(name: str) -> str:
    return files("engine.front.http").joinpath(name).read_text(encoding="utf-8")
