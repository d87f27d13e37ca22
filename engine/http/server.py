"""The HTTP interface as a server in a thread: bound at once, served from its start to its graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from typing import TYPE_CHECKING

import uvicorn

from engine.config import Config, ConfigError
from engine.http.application import application
from engine.http.listener import Listener, most_connections
from engine.http.metrics import Metrics
from engine.http.protocol import Connection
from engine.http.query import QueryEndpoint
from engine.http.scan_routes import Scans
from sql.settings.session import settings_of

if TYPE_CHECKING:
    from engine.engine import Engine

_START_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5
"""What cancelled queries get to say so."""


class HttpServer:
    """``port`` is the real one from the start, even if 0 was asked for. Bound at once, served from :meth:`start`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._socket = bind(config.listen_host, config.http_port or 0, "http_port")
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._queries: QueryEndpoint | None = None

    def start(self, engine: Engine) -> None:
        metrics = Metrics(engine)
        self._queries = QueryEndpoint(engine, metrics)
        limits = settings_of(self._config.profile("default"), self._config.timezone)
        config = uvicorn.Config(
            application(engine, self._queries, metrics, Scans(engine)),
            log_config=None,
            access_log=False,
            interface="asgi3",
            lifespan="off",
            http=type("LimitedConnection", (Connection,), {"limits": limits}),
            ws="none",
            timeout_keep_alive=self._config.keep_alive_timeout,
            timeout_graceful_shutdown=self._config.shutdown_wait_unfinished + _LAST_ANSWERS_SECONDS,
            server_header=False,
            proxy_headers=False,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        self._server = _Server(config, most_connections(self._config.max_connections))
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        for _ in range(int(_START_SECONDS / 0.005)):
            if self._server.started or not self._thread.is_alive():
                return
            self._thread.join(0.005)

    def stop(self) -> None:
        """Accepts nothing more, gives running queries ``shutdown_wait_unfinished`` seconds, then cancels them."""
        if self._server is not None and self._queries is not None:
            self._server.should_exit = True
            self._thread.join(self._config.shutdown_wait_unfinished)
            if self._thread.is_alive():
                self._queries.cancel_all()
            self._thread.join(2 * _LAST_ANSWERS_SECONDS)
            self._queries.close()
        self._socket.close()

    def _run(self) -> None:
        assert self._server is not None
        with contextlib.suppress(asyncio.CancelledError):
            self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    """Listens by itself: asyncio's own servers spin when there is no file descriptor left."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        super().__init__(config)
        self._most = most

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()

        def make() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        self.servers = [Listener(each, make, self.server_state.connections, self._most) for each in sockets or ()]  # type: ignore[misc]
        self.started = True


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


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """An answer cut off on purpose, after an error in its middle, is not an error of the server."""
    return "without completing response" not in record.getMessage()
