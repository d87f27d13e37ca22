"""Serves parts of this server's replicated tables to other replicas.

One thread accepts connections, and each connection has a thread of its own: other replicas keep a few open. The bytes
of large files go from the page cache to the socket without passing through this process (``sendfile``).
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qs

from engine.interserver.protocol import EXCEPTION_CODE_HEADER, Manifest, StagedCopy, basic_authorization
from parts.common.errors import CorruptionError, PandoError, UserError
from parts.common.part_name import PartName
from parts.format.file_names import DRAFT_SUFFIX
from parts.format.hashed_file import convert_read_error, read_small_file
from parts.store.part_states import Snapshot

logger = logging.getLogger(__name__)

Lend = Callable[[str, PartName], tuple[Snapshot, Path]]
"""(endpoint, part name) → a snapshot that holds the part, and its directory.

Raises ``PandoError`` 232.
"""
OnBroken = Callable[[str, CorruptionError], None]
"""Called with (endpoint, error) when a file of a part could not be read."""
BeforeSending = Callable[[str, int], None]
"""Called with (endpoint, bytes): blocks until they may be sent. Raises ``PandoError`` if they may not."""
PartHashes = Callable[[str, list[PartName]], Mapping[PartName, str]]
"""(endpoint, part names) → content hashes of those that are active there. Raises ``PandoError`` 232."""
StageCopies = Callable[[str, str, str, list[StagedCopy]], object]
"""(endpoint, source replica, staging, copies): fetches and stages parts. Raises ``PandoError``."""
_IDLE_SECONDS = 300.0
"""A connection that is idle for this long is closed."""
_STOP_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_BUFFER_BYTES = 256 * 1024
"""Files up to this size are buffered, so that a small part is sent in one piece."""
_PIECE_BYTES = 4 * 1024 * 1024
"""The bytes of a larger file that are sent between two calls of ``before_sending``."""


class InterserverServer(ThreadingTCPServer):
    """The server of part exchange, serving from :meth:`start` to :meth:`stop`.

    ``port`` is the actual port, even if 0 was given.
    """

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        credentials: tuple[str, str] | None,
        lend: Lend,
        before_sending: BeforeSending = lambda endpoint, size: None,
        on_broken: OnBroken = lambda endpoint, error: None,
        part_hashes: PartHashes = lambda endpoint, names: {},
        stage_copies: StageCopies = lambda endpoint, source, staging, copies: None,
    ) -> None:
        self.authorization = basic_authorization(credentials) if credentials is not None else None
        self.lend = lend
        self.before_sending = before_sending
        self.on_broken = on_broken
        self.part_hashes = part_hashes
        self.stage_copies = stage_copies
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            message = f"Cannot listen on interserver address {host}:{port}: {error.strerror}"
            raise UserError("NETWORK_ERROR", f"{message}; set another interserver_http_port") from None
        self.port: int = self.server_address[1]
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._is_stopping = False
        self._thread = threading.Thread(target=self.serve_forever, name="interserver", daemon=True)

    def start(self) -> None:
        """Starts to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections, cutting transfers: the receiver asks another replica, or tries again later."""
        self._is_stopping = True
        _shut_down(self.socket)  # wakes the thread that takes connections
        if self._thread.ident is not None:
            self.shutdown()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            _shut_down(connection)
        for thread in connections.values():
            thread.join(_STOP_SECONDS)
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection; pauses after a failure, which may mean too many open files."""
        try:
            return super().get_request()
        except OSError as error:
            if not self._is_stopping:
                logger.warning("an interserver connection could not be taken: %s", error)
                time.sleep(_PAUSE_SECONDS)  # there may be too many open files
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread that :meth:`stop` can cut and waits for only a limited time."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="interserver", daemon=True
        )
        with self._lock:
            self._connections[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection and forgets its thread."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs why a connection ended: quietly if the network failed, with a traceback otherwise."""
        if isinstance(error := sys.exception(), OSError):
            logger.debug("an interserver connection ended: %r", error)
        else:
            logger.exception("an interserver connection failed")


class _Handler(BaseHTTPRequestHandler):
    """The handler of the requests of one connection."""

    server: InterserverServer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = _BUFFER_BYTES

    def do_GET(self) -> None:
        """Serves ``/part``, ``/hashes``, ``/copies`` and ``/ping``; refuses requests with a body."""
        if (
            self.headers.defects
            or "Transfer-Encoding" in self.headers
            or self.headers.get("Content-Length", "0") != "0"
        ):
            self.send_error(400)  # and closes, because where the next request begins is uncertain
            return
        path, _, query = self.path.partition("?")
        if path == "/part":
            self._send_part(parse_qs(query))
        elif path == "/hashes":
            self._send_hashes(parse_qs(query))
        elif path == "/copies":
            self._stage_copies(parse_qs(query))
        elif path == "/ping":
            self._send_text(200, "Ok.\n")
        else:
            self._send_text(404, "Not found\n")

    def log_message(self, *_: object) -> None:
        """Drops the base class's log line, which would go to stderr."""

    def _send_part(self, query: dict[str, list[str]]) -> None:
        if not self._is_allowed():
            self._send_exception(401, UserError("AUTHENTICATION_FAILED", "Wrong interserver credentials"))
            return
        endpoint, failure = query.get("endpoint", [""])[0], None
        with contextlib.ExitStack() as held:
            lent: list[tuple[PartName, Path]] = []
            for text in query.get("part", [""]):
                try:
                    name = PartName.parse(text)
                    snapshot, directory = self.server.lend(endpoint, name)
                except PandoError as error:
                    failure = failure or error
                    continue
                held.enter_context(snapshot)
                lent.append((name, directory))
            if failure is not None and not lent:
                self._send_exception(404, failure)
            else:
                try:
                    self._send_files(endpoint, lent)
                except PandoError as error:  # cut the connection: the receiver tries another replica, or again later
                    if isinstance(error, CorruptionError):
                        self.server.on_broken(endpoint, error)
                    raise ConnectionAbortedError(error.message) from None

    def _send_hashes(self, query: dict[str, list[str]]) -> None:
        if not self._is_allowed():
            self._send_exception(401, UserError("AUTHENTICATION_FAILED", "Wrong interserver credentials"))
            return
        try:
            names = [PartName.parse(text) for text in query.get("part", [])]
            hashes = self.server.part_hashes(query.get("endpoint", [""])[0], names)
        except PandoError as error:
            self._send_exception(404, error)
            return
        self._send_text(200, json.dumps({str(name): digest for name, digest in hashes.items()}))

    def _stage_copies(self, query: dict[str, list[str]]) -> None:
        if not self._is_allowed():
            self._send_exception(401, UserError("AUTHENTICATION_FAILED", "Wrong interserver credentials"))
            return
        endpoint, source, staging = (query.get(name, [""])[0] for name in ("endpoint", "source", "transaction"))
        try:
            self.server.stage_copies(endpoint, source, staging, list(map(StagedCopy.parse, query.get("copy", []))))
        except PandoError as error:
            self._send_exception(404, error)
            return
        self._send_text(200, "Ok.\n")

    def _is_allowed(self) -> bool:
        expected, given = self.server.authorization, self.headers.get("Authorization", "")
        return expected is None or hmac.compare_digest(given.encode(), expected.encode())

    def _send_files(self, endpoint: str, parts: list[tuple[PartName, Path]]) -> None:
        pieces: list[tuple[bytes, str, list[tuple[int, Path]]]] = []
        total = 0
        for name, directory in parts:
            with _convert_read_errors(str(name), "."):
                files = [
                    file for file in directory.iterdir() if not file.name.endswith(DRAFT_SUFFIX) and file.is_file()
                ]
                found = [(file.stat().st_size, file) for file in files]
            found.sort(reverse=True)  # the receiver writes the large ones to disk while it receives the others
            manifest = Manifest(tuple((file.name, size) for size, file in found), str(name))
            pieces.append((manifest.to_line(), str(name), found))
            total += len(pieces[-1][0]) + manifest.size
        self._send_head(200, "application/octet-stream", total)
        for line, part, found in pieces:
            self.wfile.write(line)
            for size, file in found:
                if self._send_file(endpoint, part, file, size) != size:
                    raise EOFError(f"{file} is no longer of {size} bytes")

    def _send_file(self, endpoint: str, part: str, file: Path, size: int) -> int:
        if size <= _BUFFER_BYTES:
            self.server.before_sending(endpoint, size)
            return self.wfile.write(read_small_file(file, part))
        self.wfile.flush()
        sent = 0
        with _convert_read_errors(part, file.name), open(file, "rb") as stream:
            while sent < size:
                piece = min(_PIECE_BYTES, size - sent)
                self.server.before_sending(endpoint, piece)
                went = self.connection.sendfile(stream, sent, piece)
                sent += went
                if went != piece:
                    break
        return sent

    def _send_exception(self, status: int, error: PandoError) -> None:
        self._send_text(status, error.message, {EXCEPTION_CODE_HEADER: str(error.code)})

    def _send_text(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self._send_head(status, "text/plain; charset=utf-8", len(body), headers)
        self.wfile.write(body)

    def _send_head(self, status: int, content_type: str, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()


@contextlib.contextmanager
def _convert_read_errors(part: str, file: str) -> Iterator[None]:
    """Turns an error of reading a file into the part's error, to tell it from a broken connection."""
    try:
        yield
    except OSError as error:
        raise convert_read_error(error, part, file) from None


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
