"""Serves parts of this server's replicated tables to other replicas."""

from __future__ import annotations

import base64
import hmac
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from engine.interserver.protocol import CHUNK_BYTES, EXCEPTION_CODE_HEADER, Manifest
from parts.errors import PandoError, UserError
from parts.part_name import PartName
from parts.store import Snapshot

logger = logging.getLogger(__name__)

Lend = Callable[[str, PartName], tuple[Snapshot, Path]]
"""(endpoint, part name) → a snapshot that holds the part, and its directory. Raises ``PandoError`` 232."""


class InterserverServer:
    """An HTTP server in a thread. ``port`` is the real one after :meth:`start`, even if 0 was asked for."""

    def __init__(self, host: str, port: int, credentials: tuple[str, str] | None, lend: Lend) -> None:
        self._credentials = credentials
        self._lend = lend
        app = Starlette(routes=[Route("/part", self._part), Route("/ping", lambda _: PlainTextResponse("Ok.\n"))])
        self._socket = _bind(host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="interserver", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _part(self, request: Request) -> Response:
        if not self._is_allowed(request):
            return _error_response(UserError("AUTHENTICATION_FAILED", "Wrong interserver credentials"), 401)
        endpoint = request.query_params.get("endpoint", "")
        text = request.query_params.get("part", "")
        try:
            snapshot, directory = self._lend(endpoint, PartName.parse(text))
        except PandoError as error:
            return _error_response(error, 404)
        return StreamingResponse(_stream(snapshot, directory), media_type="application/octet-stream")

    def _is_allowed(self, request: Request) -> bool:
        if self._credentials is None:
            return True
        expected = base64.b64encode(":".join(self._credentials).encode()).decode()
        return hmac.compare_digest(request.headers.get("authorization", ""), f"Basic {expected}")


def _stream(snapshot: Snapshot, directory: Path) -> Iterator[bytes]:
    with snapshot:
        files = sorted(file for file in directory.iterdir() if file.is_file())
        yield Manifest(tuple((file.name, file.stat().st_size) for file in files)).to_line()
        for file in files:
            with open(file, "rb") as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk


def _error_response(error: PandoError, status: int) -> Response:
    return PlainTextResponse(error.message, status, headers={EXCEPTION_CODE_HEADER: str(error.code)})


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; small parts would wait 40 ms otherwise.
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
