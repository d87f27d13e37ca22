"""Waits for a connection's first bytes, and tells status page requests from others.

Nothing is read off the connection: its server reads it from the start.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from engine.front.http.routes import STATUS_PAGE_PATHS

_OWN = tuple(f"{method} {path}".encode() for method in ("GET", "HEAD") for path in STATUS_PAGE_PATHS)
_PEEK_BYTES = max(map(len, _OWN)) + 1


def is_status_page_request(data: bytes) -> bool | None:
    """Tells whether a request that begins so is for a status page; ``None`` if more bytes are needed."""
    for start in _OWN:
        if data.startswith(start):
            return data[len(start) : len(start) + 1] in (b" ", b"?") if len(data) > len(start) else None
        if start.startswith(data):
            return None
    return False


class FirstBytesWaiter:
    """The connections that wait for first bytes, on the running loop.

    ``own`` or ``other`` is called once with each connection; silent connections are closed after a time-out.
    """

    def __init__(
        self, timeout_seconds: float, own: Callable[[socket.socket], None], other: Callable[[socket.socket], None]
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._own = own
        self._other = other
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._raised: set[socket.socket] = set()
        """Connections with some bytes, which wake the loop only for more than these."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: socket.socket) -> None:
        """Takes a new connection."""
        self._look(connection)

    def close(self) -> None:
        """Closes the waiting connections."""
        for connection in list(self._waiting):
            self._drop(connection)

    def _look(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._wait(connection)
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        is_own = is_status_page_request(data)
        if is_own is None:
            # Otherwise the loop would spin on the bytes that are here.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(data) + 1)
            self._raised.add(connection)
            self._wait(connection)
            return
        self._decide(connection, is_own=is_own)

    def _wait(self, connection: socket.socket) -> None:
        if connection not in self._waiting:
            self._waiting[connection] = self._loop.call_later(self._timeout_seconds, self._on_timeout, connection)
            self._loop.add_reader(connection.fileno(), self._look, connection)

    def _on_timeout(self, connection: socket.socket) -> None:
        """Closes a silent connection; its server answers a request that does not go on."""
        try:
            has_begun = bool(connection.recv(1, socket.MSG_PEEK))
        except OSError:
            has_begun = False
        if has_begun:
            self._decide(connection, is_own=False)
        else:
            self._drop(connection)

    def _decide(self, connection: socket.socket, *, is_own: bool) -> None:
        if connection in self._raised:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._stop_waiting(connection)
        (self._own if is_own else self._other)(connection)

    def _stop_waiting(self, connection: socket.socket) -> None:
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()
            self._loop.remove_reader(connection.fileno())
            self._raised.discard(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._stop_waiting(connection)
        connection.close()
