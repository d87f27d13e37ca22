"""The HTTP interface as a server in a thread, from binding its port to its graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from engine.front.http.connection import HttpConnection
from engine.front.http.link_routes import LinkRoutes
from engine.front.http.listener import ConnectionOpener, Listener, get_max_connections
from engine.front.http.query_endpoint import QueryEndpoint
from engine.front.http.request_entry import RequestEntry
from engine.front.http.routes import Application, make_application
from engine.front.http.scan_routes import ScanEndpoints
from engine.front.http.status_pages import EngineStatusPages, StatusPages
from engine.front.login_throttle import FailedLogins, LoginThrottle
from engine.front.prometheus_metrics import Metrics
from engine.front.session_store import Sessions
from engine.scan.leases import Leases
from engine.server.config import Config, ConfigError
from sql.settings.session_settings import (
    make_settings,
)

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

_START_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5
"""Time for cancelled queries to send their errors, as long as their clients take something."""
_LAST_STALL_SECONDS = 1.0


class ConnectionSource(Protocol):
    """The source of a server's connections. Called on the server's event loop only."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to deliver connections."""

    def close(self) -> None:
        """Stops delivering connections."""


MakeSource = Callable[[Callable[[], asyncio.Protocol]], ConnectionSource]
"""Makes a source, given the function that makes a connection's protocol."""


class HttpServer:
    """The HTTP server of one process: bound at once, served from :meth:`start`.

    ``port`` is the real one from the start, even if 0 was asked for. With a ``source`` of connections it does not
    listen, and ``port`` is the configured one. ``connection`` is the class of their protocol.
    """

    def __init__(
        self, config: Config, source: MakeSource | None = None, connection: type[HttpConnection] = HttpConnection
    ) -> None:
        self._config = config
        self._make_source = source
        self._connection = connection
        self._socket = bind_socket(config.listen_host, config.http_port or 0, "http_port") if source is None else None
        self.port: int = config.http_port or 0 if self._socket is None else self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._queries: QueryEndpoint | None = None

    def start(
        self,
        engine: StatementRunner,
        pages: StatusPages | None = None,
        metrics: Metrics | None = None,
        sessions: Sessions | None = None,
        leases: Leases | None = None,
        throttle: LoginThrottle | None = None,
    ) -> None:
        """Starts the thread and waits until it serves.

        Pages, metrics, sessions, scan leases and pauses after failed logins are this engine's own unless given.
        """
        metrics = metrics or Metrics(engine)
        services = engine.services
        throttle = throttle or LoginThrottle(services.monotonic, FailedLogins(services.random.randbytes(16)))
        entry = RequestEntry(engine.config, throttle, services.clock)
        self._queries = QueryEndpoint(engine, entry, metrics, sessions)
        pages = pages or EngineStatusPages(engine, metrics)
        scans = ScanEndpoints(engine, entry, leases)
        self._links = LinkRoutes(engine, entry, engine.link_answers)
        app = make_application(engine.config, self._queries, pages, scans, self._links, entry.check_page)
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        config = make_uvicorn_config(self._config, app, self._connection, self._queries)
        self._server = _Server(config, self._make_source or self._make_listening_source)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        for _ in range(int(_START_SECONDS / 0.005)):
            if self._server.started or not self._thread.is_alive():
                return
            self._thread.join(0.005)

    def stop(self) -> None:
        """Accepts nothing more, gives running queries ``shutdown_wait_unfinished`` seconds, then cancels them.

        A client that takes nothing of its answer then is cut off: no error would reach it either.
        """
        if self._server is not None and self._queries is not None:
            self._server.should_exit = True
            self._links.close()
            self._thread.join(self._config.shutdown_wait_unfinished)
            if self._thread.is_alive():
                self._queries.cancel_all()
                self._server.shorten_send_timeouts(_LAST_STALL_SECONDS)
            self._thread.join(2 * _LAST_ANSWERS_SECONDS)
            self._queries.close()
            self._links.release()
        if self._socket is not None:
            self._socket.close()

    def _make_listening_source(self, make: Callable[[], asyncio.Protocol]) -> ConnectionSource:
        assert self._server is not None
        assert self._socket is not None
        connections = self._server.server_state.connections
        return _ListeningSource(self._socket, make, connections, get_max_connections(self._config.max_connections))

    def _run(self) -> None:
        assert self._server is not None
        with contextlib.suppress(asyncio.CancelledError):
            self._server.run(sockets=[])


class _ListeningSource:
    """The connections that this process accepts itself."""

    def __init__(
        self, listening: socket.socket, make: Callable[[], asyncio.Protocol], connections: Sized, most: int
    ) -> None:
        self._socket = listening
        self._make = make
        self._connections = connections
        self._most = most

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts to accept."""
        opener = ConnectionOpener()
        self._listener = Listener(
            self._socket,
            lambda connection: opener.open(connection, self._make),
            lambda: len(self._connections) + len(opener),
            self._most,
        )

    def close(self) -> None:
        """Stops accepting."""
        self._listener.close()


class _Server(uvicorn.Server):
    """A uvicorn server that takes connections itself.

    asyncio's own servers spin when there is no free file descriptor.
    """

    def __init__(self, config: uvicorn.Config, make_source: MakeSource) -> None:
        super().__init__(config)
        self._make_source = make_source
        self.servers: list[_SourceServer] = []  # type: ignore[assignment]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the source of connections."""
        await self.lifespan.startup()

        def make() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        self._loop = asyncio.get_running_loop()
        source = self._make_source(make)
        source.start(self._loop)
        self.servers = [_SourceServer(source)]
        self.started = True

    def shorten_send_timeouts(self, seconds: float) -> None:
        """Lets clients take nothing for so long at most. Thread-safe."""

        def shorten() -> None:
            for connection in self.server_state.connections:
                if isinstance(connection, HttpConnection):
                    connection.shorten_send_timeout(seconds)

        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(shorten)


class _SourceServer:
    """A source with the methods by which uvicorn closes servers."""

    def __init__(self, source: ConnectionSource) -> None:
        self.close = source.close

    async def wait_closed(self) -> None:
        """Returns at once: there is nothing to wait for."""


def make_uvicorn_config(
    config: Config, app: Application, connection: type[HttpConnection], queries: QueryEndpoint | None = None
) -> uvicorn.Config:
    """Returns uvicorn's configuration.

    ``connection`` gets its limits from the default profile, and asks ``queries`` before the application.
    """
    limits = make_settings(config.profile("default"), config.timezone)
    given: dict[str, Any] = {"limits": limits}
    if queries is not None:
        given.update(short_answer=staticmethod(queries.short_answer), begin_insert=staticmethod(queries.begin_insert))
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        interface="asgi3",
        lifespan="off",
        http=type("LimitedConnection", (connection,), given),
        ws="none",
        timeout_keep_alive=config.keep_alive_timeout,
        timeout_graceful_shutdown=config.shutdown_wait_unfinished + _LAST_ANSWERS_SECONDS,
        server_header=False,
        proxy_headers=False,
    )


def bind_socket(host: str, port: int, key: str) -> socket.socket:
    """Returns a listening socket. Raises :class:`ConfigError`, which names the configuration's key."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns off Nagle's algorithm, which would delay small responses by 40 ms.
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


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Returns False for uvicorn's message about a response that was cut off on purpose, after an error."""
    return "without completing response" not in record.getMessage()
