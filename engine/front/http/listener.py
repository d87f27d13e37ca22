"""Accepts connections: as many as the process can serve, and without spinning when it cannot.

Beyond ``most`` connections a client gets 503 at once. Without a free file descriptor nothing is accepted for a second;
clients wait in the kernel's queue meanwhile. Both are logged at most once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import time
from collections.abc import Callable

from engine.front.http.raw_responses import make_refusal
from parts.common.errors import UserError

logger = logging.getLogger(__name__)

_AT_ONCE = 64
_PAUSE_SECONDS = 1.0
_LOG_SECONDS = 60.0
_SLACK_BYTES = 64 << 10


def get_max_connections(configured: int) -> int:
    """Returns the configured limit, or half of the files that the process may open if that is less.

    The other half is for tables, parts and logs.
    """
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return configured if soft_limit == resource.RLIM_INFINITY else max(1, min(configured, soft_limit // 2))


class Listener:
    """One listening socket on the running event loop, until :meth:`close`.

    ``take`` gets each connection (non-blocking) while ``count()`` is less than ``most``.
    """

    def __init__(
        self, listening: socket.socket, take: Callable[[socket.socket], object], count: Callable[[], int], most: int
    ) -> None:
        self._socket = listening
        self._take = take
        self._count = count
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._log = ThrottledLog()
        self._is_closed = False
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Closes the socket."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log(f"connections cannot be taken for now: {error}")
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            connection.setblocking(False)
            if self._count() >= self._most:
                self._turn_away(connection)
            else:
                self._take(connection)

    def _turn_away(self, connection: socket.socket) -> None:
        self._log(f"there are {self._most} connections (max_connections, or half of the files the process may open)")
        error = UserError(
            "TOO_MANY_SIMULTANEOUS_QUERIES", f"Too many connections: at most {self._most} at a time; retry later"
        )
        with connection, contextlib.suppress(OSError):
            connection.send(make_refusal(503, error))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(
                _SLACK_BYTES
            )  # closing with unread bytes resets the connection: the client loses the response


class ConnectionOpener:
    """Gives accepted connections their protocols, on the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()
        self._log = ThrottledLog()

    def __len__(self) -> int:
        """Returns the number of connections that have no protocol yet."""
        return len(self._opening)

    def open(self, connection: socket.socket, make: Callable[[], asyncio.Protocol]) -> asyncio.Task[object]:
        """Starts a task that gives the connection a protocol."""
        task: asyncio.Task[object] = self._loop.create_task(self._loop.connect_accepted_socket(make, connection))
        self._opening.add(task)
        task.add_done_callback(self._opened)
        return task

    def _opened(self, task: asyncio.Task[object]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(f"a connection could not be opened: {error}")


class ThrottledLog:
    """Logs warnings at most once a minute."""

    def __init__(self) -> None:
        self._logged = -_LOG_SECONDS

    def __call__(self, text: str) -> None:
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            logger.warning("%s", text)
