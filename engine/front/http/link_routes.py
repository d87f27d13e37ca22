"""Requests of other clusters over HTTP: ``POST /links/…`` (``engine.links.exchange.protocol``).

JSON comes in; JSON, compressed if the other side reads that, or files go out.

Authentication and errors are those of queries. A user may ask for whatever a query would show: what changes a table's
links is refused to read-only users, unless the configuration says that they may link. Nothing of a request is logged
but its name and its error.

An answer that waits for something new holds a thread of this interface, for at most ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from engine.front.http.error_responses import convert_to_pando_error, format_error, get_http_status
from engine.front.http.json_body import read_json_body
from engine.front.http.query_request import parse_credentials
from engine.front.http.request_entry import RequestEntry
from engine.front.http.scan_response import ScanResponse
from engine.http_client.transport import Transport, make_http_transport
from engine.links.exchange.compressed_answers import compress_answer
from engine.links.exchange.fields import MAX_REQUEST_BYTES, to_bytes
from engine.links.exchange.file_transfer import send_part
from engine.links.exchange.link_service import ElsewhereFiles, LinkAnswers, OpenedFiles
from parts.common.errors import CancelledError, PandoError, UserError
from parts.common.query_status import QueryStatus
from sql.settings.session_settings import make_settings

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

logger = logging.getLogger(__name__)

PREFIX = "/links/"
_THREADS = 64
_FORWARD_SECONDS = 30.0
_REQUEST_SECONDS = 30.0
_LOGGED_CHARACTERS = 2000


class _FilesResponse(ScanResponse):
    media_type = "application/octet-stream"


class LinkRoutes:
    """The endpoint of all paths below ``/links/``."""

    def __init__(self, engine: StatementRunner, entry: RequestEntry, answers: LinkAnswers) -> None:
        self._entry = entry
        self._answers = answers
        self._engine = engine
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="links")
        self._running: set[QueryStatus] = set()
        self._lock = threading.Lock()
        self._is_closing = False
        self._servers: dict[tuple[str, str], Transport] = {}
        """Connections to other servers of this cluster, by user and password."""

    def close(self) -> None:
        """Ends the requests that wait; later ones are refused."""
        with self._lock:
            self._is_closing = True
            running = list(self._running)
        for status in running:
            status.stop()

    def release(self) -> None:
        """Closes the connections to other servers."""
        for transport in self._servers.values():
            transport.close()
        self._threads.shutdown(wait=False)

    async def __call__(self, request: Request) -> Response:
        """Answers a request."""
        name = request.scope["path"].removeprefix(PREFIX)
        try:
            credentials = parse_credentials(request.scope)
            user = self._entry.authenticate(credentials, request.scope)
            is_read_only = bool(make_settings(user.open_session().settings).readonly) and not user.account.may_link
            document = await read_json_body(request, _REQUEST_SECONDS, MAX_REQUEST_BYTES)
            work = partial(self._answer, name, document, is_read_only, (credentials.user, credentials.password))
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except Exception as problem:
            error = convert_to_pando_error(problem)
            told = " ".join(f"{name[:100]} failed: {error}".split())  # a stranger writes one line of the log, not more
            logger.info("/links/%s", told[:_LOGGED_CHARACTERS])
            headers = {"X-ClickHouse-Exception-Code": str(error.code)}
            return Response(format_error(error), get_http_status(error), headers, "text/plain; charset=UTF-8")

    def _answer(self, name: str, document: dict[str, object], is_read_only: bool, user: tuple[str, str]) -> Response:
        with self._begin() as status:
            answer = self._answers.answer(name, document, status, is_read_only=is_read_only)
        if isinstance(answer, OpenedFiles):
            chunks = self._send_opened(answer)
        elif isinstance(answer, ElsewhereFiles):
            chunks = self._forward(name, document, answer, user)
        else:
            data = to_bytes(answer)
            sent = compress_answer(data, document)
            return Response(sent, media_type="application/json" if sent is data else "application/zstd")
        return _FilesResponse(next(chunks), chunks, self._threads)

    @contextlib.contextmanager
    def _begin(self) -> Iterator[QueryStatus]:
        status = QueryStatus()
        with self._lock:
            if self._is_closing:
                raise CancelledError("The server is stopping")
            self._running.add(status)
        try:
            yield status
        finally:
            with self._lock:
                self._running.discard(status)

    def _send_opened(self, files: OpenedFiles) -> Iterator[bytes]:
        try:
            with self._engine.reporting():
                yield from send_part(files.directory)
        finally:
            files.release()

    def _forward(
        self, name: str, document: dict[str, object], files: ElsewhereFiles, user: tuple[str, str]
    ) -> Iterator[bytes]:
        """Yields the answer of the first server that has the files, asked as the same user."""
        servers = self._connect_as(user)
        body = to_bytes({**document, "is_forwarded": True})
        problem: PandoError = UserError("NO_SUCH_DATA_PART", "No other server of this cluster has the files")
        for url in files.urls:
            with contextlib.ExitStack() as opened:
                try:
                    post = servers.post(url, PREFIX + name, body, read_seconds=_FORWARD_SECONDS)
                    chunks = iter(opened.enter_context(post))
                    first = next(chunks)
                except PandoError as error:
                    problem = error
                    continue
                except StopIteration:
                    continue
                yield first
                yield from chunks
                return
        raise problem

    def _connect_as(self, user: tuple[str, str]) -> Transport:
        with self._lock:
            if user not in self._servers:
                self._servers[user] = make_http_transport(*user, False)
            return self._servers[user]
