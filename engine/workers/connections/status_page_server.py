"""Serves status pages in the replica process, one response per connection.

Beside the threads that commit and merge, every system call may cost this thread its turn. A request that is here as a
whole, like those of health checks, is therefore answered with as few system calls as possible. Any other is served by
the protocol that handles hostile and slow clients.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from uvicorn.server import ServerState

from engine.front.http.connection import HttpConnection
from engine.front.http.http_server import make_uvicorn_config
from engine.front.http.listener import ConnectionOpener
from engine.front.http.routes import Application
from engine.server.config import Config

logger = logging.getLogger(__name__)

_MAX_HEAD_BYTES = 8192
_SEND_SECONDS = 10.0
_END = b"\r\n\r\n"
_BODY_HEADERS = (b"\ncontent-length:", b"\ntransfer-encoding:", b"\nexpect:", b"\nupgrade:")


class StatusPageServer:
    """The server of status pages, on the running loop.

    ``linger`` closes each connection after its response.
    """

    def __init__(self, config: Config, pages: Application, linger: Callable[[socket.socket], None]) -> None:
        self._uvicorn = make_uvicorn_config(config, pages, HttpConnection)
        self._uvicorn.load()
        self._pages = pages
        self._linger = linger
        self._loop = asyncio.get_running_loop()
        self._state = ServerState()
        self._opener = ConnectionOpener()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._state.connections) + len(self._opener) + len(self._tasks)

    def serve(self, connection: socket.socket) -> None:
        """Serves a connection."""
        head = _read_whole_head(connection)
        if head is None:
            make = self._uvicorn.http_protocol_class
            self._opener.open(connection, lambda: make(self._uvicorn, self._state, {}))  # type: ignore[call-arg]
            return
        task = self._loop.create_task(self._answer(connection, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_idle(self) -> None:
        """Ends connections whose request has not come."""
        for connection in list(self._state.connections):
            connection.shutdown()

    async def _answer(self, connection: socket.socket, head: bytes) -> None:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"), "headers": _headers(head), "client": _client(connection),
            "root_path": "", "scheme": "http", "state": {},
        }  # fmt: skip
        pieces: list[bytes] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                pieces.append(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode())
                pieces.extend(name + b": " + value + b"\r\n" for name, value in message["headers"])
                pieces.append(b"\r\n")
            elif method != "HEAD":
                pieces.append(message.get("body", b""))

        try:
            await self._pages(scope, receive, send)
            await self._send(connection, b"".join(pieces))
        except (OSError, TimeoutError) as problem:
            logger.info("a client did not take its answer: %r", problem)
            connection.close()
        else:
            self._linger(connection)

    async def _send(self, connection: socket.socket, answer: bytes) -> None:
        sent = connection.send(answer)
        if sent < len(answer):
            async with asyncio.timeout(_SEND_SECONDS):
                await self._loop.sock_sendall(connection, answer[sent:])


def _headers(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = (line.partition(b":") for line in head.rstrip().split(b"\r\n")[1:])
    return [(name.strip().lower(), value.strip()) for name, _, value in lines]


def _client(connection: socket.socket) -> tuple[str, int] | None:
    try:
        address, port = connection.getpeername()[:2]
    except OSError:
        return None
    return str(address), int(port)


def _read_whole_head(connection: socket.socket) -> bytes | None:
    """Reads a request head without a body off the connection.

    Returns ``None``, and reads nothing, if it is incomplete or a body follows.
    """
    try:
        data = connection.recv(_MAX_HEAD_BYTES, socket.MSG_PEEK)
    except OSError:
        return None
    head, end, _ = data.partition(_END)
    line = head.split(b"\r\n", 1)[0]
    is_plain = end and line.count(b" ") == 2 and line.endswith((b" HTTP/1.1", b" HTTP/1.0"))
    if not is_plain or any(name in head.lower() for name in _BODY_HEADERS):
        return None
    return connection.recv(len(head) + len(end))
