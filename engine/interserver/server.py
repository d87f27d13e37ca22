"""Serves parts of this server's replicated tables to other replicas.

One thread takes connections, and each connection has a thread of its own: other replicas keep a few open. The bytes of
large files go from the page cache to the socket without passing through this process.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit

from engine.interserver.http_head import Head, answer_head, read_head
from engine.interserver.protocol import EXCEPTION_CODE_HEADER, Manifest
from parts.errors import PandoError, UserError
from parts.part_name import PartName
from parts.store import Snapshot

logger = logging.getLogger(__name__)

Lend = Callable[[str, PartName], tuple[Snapshot, Path]]
"""(endpoint, part name) → a snapshot that holds the part, and its directory. Raises ``PandoError`` 232."""
_IDLE_SECONDS = 300.0
"""A connection on which nothing moves for so long is closed."""
_STOP_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_AT_ONCE_BYTES = 256 * 1024
"""Smaller parts are sent in one piece."""


class InterserverServer:
    """``port`` is the real one, even if 0 was asked for. Serves from :meth:`start` to :meth:`stop`."""

    def __init__(self, host: str, port: int, credentials: tuple[str, str] | None, lend: Lend) -> None:
        self._authorization = _authorization(credentials) if credentials is not None else None
        self._lend = lend
        self._socket = _bind(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._is_stopping = False
        self._thread = threading.Thread(target=self._accept, name="interserver", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Cuts what is being sent: whoever receives it will ask another replica, or again later."""
        with self._lock:
            self._is_stopping = True
            connections = dict(self._connections)
        for open_socket in (self._socket, *connections):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        for thread in (self._thread, *connections.values()):
            if thread.ident is not None:
                thread.join(_STOP_SECONDS)
        self._socket.close()

    def _accept(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if not self._is_stopping:
                    logger.warning("an interserver connection could not be taken: %s", error)
                    time.sleep(_PAUSE_SECONDS)  # there may be too many open files
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), name="interserver", daemon=True)
            with self._lock:
                self._connections[connection] = thread
                if self._is_stopping:
                    connection.close()
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection.makefile("rb") as stream:
                while self._answer(connection, stream):
                    pass
        except (OSError, EOFError, ValueError) as error:
            logger.debug("an interserver connection ended: %r", error)
        except Exception:
            logger.exception("an interserver connection failed")
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()

    def _answer(self, connection: socket.socket, stream: BinaryIO) -> bool:
        """Takes one request; ``False`` when it was the last."""
        head = read_head(stream)
        if head is None:
            return False
        method, target, _ = head.words
        if method != "GET" or head.content_length:
            _send_text(connection, 405, "Only GET\n")
            return False
        url = urlsplit(target)
        if url.path == "/part":
            self._send_part(connection, head, parse_qs(url.query))
        elif url.path == "/ping":
            _send_text(connection, 200, "Ok.\n")
        else:
            _send_text(connection, 404, "Not found\n")
        return not head.is_last

    def _send_part(self, connection: socket.socket, head: Head, query: dict[str, list[str]]) -> None:
        if not self._is_allowed(head):
            _send_error(connection, UserError("AUTHENTICATION_FAILED", "Wrong interserver credentials"), 401)
            return
        try:
            name = PartName.parse(query.get("part", [""])[0])
            snapshot, directory = self._lend(query.get("endpoint", [""])[0], name)
        except PandoError as error:
            _send_error(connection, error, 404)
            return
        with snapshot:
            _send_files(connection, directory)

    def _is_allowed(self, head: Head) -> bool:
        if self._authorization is None:
            return True
        given = head.headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, self._authorization.encode("latin-1"))


def _authorization(credentials: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(credentials).encode()).decode()}"


def _send_files(connection: socket.socket, directory: Path) -> None:
    found = [(file.stat().st_size, file) for file in directory.iterdir() if file.is_file()]
    found.sort(reverse=True)  # the receiver brings the large ones to disk while the others come
    sizes, files = [size for size, _ in found], [file for _, file in found]
    manifest = Manifest(tuple((file.name, size) for file, size in zip(files, sizes, strict=True))).to_line()
    length = len(manifest) + sum(sizes)
    head = answer_head(200, {"Content-Type": "application/octet-stream", "Content-Length": str(length)})
    if length <= _AT_ONCE_BYTES:
        connection.sendall(b"".join([head, manifest, *(file.read_bytes() for file in files)]))
        return
    connection.sendall(head + manifest)
    for file, size in zip(files, sizes, strict=True):
        with open(file, "rb") as stream:
            if size and connection.sendfile(stream, count=size) != size:
                raise EOFError(f"{file} is shorter than it was")


def _send_error(connection: socket.socket, error: PandoError, status: int) -> None:
    _send_text(connection, status, error.message, {EXCEPTION_CODE_HEADER: str(error.code)})


def _send_text(connection: socket.socket, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = text.encode()
    fixed = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
    connection.sendall(answer_head(status, fixed | (headers or {})) + body)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(
            "NETWORK_ERROR",
            f"Cannot listen on interserver address {host}:{port}: {error.strerror}; set another interserver_http_port",
        ) from None
    listener.listen(128)
    return listener
