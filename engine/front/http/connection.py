"""One HTTP connection: uvicorn's protocol with limits on sizes and times.

- The head of a request must arrive within ``http_receive_timeout`` of its first byte; otherwise the answer is 408.
- URI, headers and their number are limited (``http_max_…``), and so is all that the parser buffers between two
  events: an endless header, trailer or chunk extension.
- A client that reads nothing for ``http_send_timeout``, at a stop for a second, is cut off: that cancels its query.
- Malformed HTTP gets an error with ClickHouse's code, but never inside the response to an earlier request.

A request sets other timeouts of its connection through ``scope["state"]["connection"]``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from engine.front.http.insert_request import BeginInsert, RunningInsert
from engine.front.http.raw_responses import HeadlessTransport, has_peer_closed, make_refusal
from parts.common.errors import PandoError, UserError
from sql.settings.supported_settings import Settings

logger = logging.getLogger(__name__)

_SLACK_BYTES = 256 << 10
"""The most that one read of a socket brings."""
_LINGER_SECONDS = 2.0
UNLIMITED_SECONDS = 1e8
"""The meaning of a timeout of 0; every clock can count it."""
_PEER_CHECK_SECONDS = 2.0
MAX_SHORT_BODY_BYTES = 64 << 10
"""The longest body of a request that bypasses the application."""
_EARLY_BODY_SECONDS = 0.02
"""Time for that body to arrive."""
_SHORT_ANSWERS_AT_ONCE = 4
"""Most immediate answers per read of a socket, because other connections wait meanwhile."""
_BODY_HEADERS = (b"content-length", b"transfer-encoding")
_INSERT = re.compile(rb"\s*insert\b", re.IGNORECASE)

ShortAnswer = Callable[[Mapping[str, Any], bytes], tuple[bytes, bytes] | None]
"""Answers a complete request (scope, body) with header lines and body of a 200, or ``None`` if it takes longer."""


class HttpConnection(HttpToolsProtocol):
    """One connection. ``limits`` are the settings of the server's default profile."""

    limits: Settings
    short_answer: ShortAnswer | None = None
    begin_insert: BeginInsert | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._receive_seconds = self.limits.http_receive_timeout or UNLIMITED_SECONDS
        self.send_timeout = self.limits.http_send_timeout or UNLIMITED_SECONDS
        self._refusal: tuple[int, PandoError] | None = None
        self._is_answered = False
        self._is_in_head = False
        self._is_in_request = False
        self._unanswered = 0
        self._fields = self._head_bytes = 0
        self._held_bytes = 0
        self._largest_field = self.limits.http_max_field_name_size + self.limits.http_max_field_value_size
        self._late_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._peer_timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | RunningInsert | None = None
        self._early_body: bytearray | None = None
        self._early_timer: asyncio.TimerHandle | None = None
        self._answers_left = 0

    # -- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self._receive_seconds, self.timeout_keep_alive_handler)

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun and no response is owed, so that the connection may be passed on."""
        return not (self._unanswered or self._is_in_request or self._refusal is not None)

    @property
    def number(self) -> int | None:
        """The number by which the server's other processes know the connection."""
        return None

    def note_repeatable(self) -> None:
        """Notes that the request's query changes nothing and may be repeated in another process."""

    @property
    def has_unanswered_request(self) -> bool:
        """Whether a request has begun to arrive and its response is not complete."""
        return self._unanswered > 0 or self._is_in_head or self._early_body is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        self._take_early_body()
        for timer in (self._late_timer, self._stall_timer, self._peer_timer):
            if timer is not None:
                timer.cancel()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:  # newer requests may wait behind it
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._held_bytes += len(data)
        self._answers_left = _SHORT_ANSWERS_AT_ONCE
        try:
            self.parser.feed_data(data)
            if self._early_body is not None and self._early_timer is None:
                self._early_timer = self.loop.call_later(_EARLY_BODY_SECONDS, self._begin_delayed_cycle)
        except httptools.HttpParserUpgrade:
            pass  # answered as if nobody had asked
        except httptools.HttpParserError as error:
            self._refuse(400, UserError("BAD_ARGUMENTS", f"The request is not HTTP/1.1: {error.__context__ or error}"))
        if self._held_bytes > max(self._largest_field, self.limits.http_max_uri_size) + _SLACK_BYTES:
            self._refuse(431, UserError("LIMIT_EXCEEDED", "A header of the request is too long"))
        self._watch_for_lateness()
        if self.flow.read_paused and self._peer_timer is None:
            self._peer_timer = self.loop.call_later(_PEER_CHECK_SECONDS, self._check_peer)

    def _check_peer(self) -> None:
        """Checks whether the client has left, which is not reported while reading is paused."""
        self._peer_timer = None
        if not self.flow.read_paused or self.transport.is_closing():
            return
        if has_peer_closed(self.transport.get_extra_info("socket")):
            self.transport.abort()
        else:
            self._peer_timer = self.loop.call_later(_PEER_CHECK_SECONDS, self._check_peer)

    def _watch_for_lateness(self) -> None:
        """Starts or stops the timer for a head, and for a body that nobody reads any more."""
        is_answered = self.cycle is not None and self.cycle.response_complete
        must_hurry = self._is_in_head or (self._is_in_request and is_answered)
        if must_hurry and self._late_timer is None:
            self._late_timer = self.loop.call_later(self._receive_seconds, self._refuse_late_request)
        elif not must_hurry and self._late_timer is not None:
            self._late_timer.cancel()
            self._late_timer = None

    def _refuse_late_request(self) -> None:
        problem = f"The request was not complete after {self._receive_seconds:g} s"
        self._refuse(408, UserError("SOCKET_TIMEOUT", problem))

    def eof_received(self) -> None:
        """Leaves the connection open: a half-closed one cannot be told from a client that left."""

    # -- what the parser meets --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()  # only here: empty lines and late bodies must not keep it alive
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        self._is_in_head = self._is_in_request = True
        self._fields = self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.http_max_uri_size:
            limit = self.limits.http_max_uri_size
            self._refuse(414, UserError("LIMIT_EXCEEDED", f"The URI is longer than http_max_uri_size = {limit} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._held_bytes = 0
        self._fields += 1
        self._head_bytes += len(name) + len(value)
        limits = self.limits
        if self._fields > limits.http_max_fields:
            problem = f"There are more headers than http_max_fields = {limits.http_max_fields}"
        elif self._head_bytes > limits.http_max_request_header_size:
            problem = (
                f"The headers are longer than http_max_request_header_size = {limits.http_max_request_header_size}"
            )
        elif len(name) > limits.http_max_field_name_size:
            problem = f"A header's name is longer than http_max_field_name_size = {limits.http_max_field_name_size}"
        elif len(value) > limits.http_max_field_value_size:
            problem = f"A header is longer than http_max_field_value_size = {limits.http_max_field_value_size}"
        else:
            super().on_header(name, value)
            return
        self._refuse(431, UserError("LIMIT_EXCEEDED", problem))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and any(name in _BODY_HEADERS for name, _ in self.headers):
            # The parser would leave the body out.
            self._refuse(400, UserError("NOT_IMPLEMENTED", "Upgrade is not supported: send plain HTTP/1.1"))
        if self._refusal is not None:
            return
        if self._may_be_short():
            self._early_body = bytearray()
            self._is_in_head = False
        else:
            self._begin_cycle()

    def _begin_cycle(self) -> None:
        """Passes the request to the application, with the part of its body that has arrived."""
        body = self._take_early_body()
        super().on_headers_complete()  # raises for a malformed URI
        self._is_in_head = False
        self._unanswered += 1
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        if body:
            super().on_body(bytes(body))

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        if self._early_body is not None:
            self._early_body += body
            if len(self._early_body) > MAX_SHORT_BODY_BYTES:
                self._begin_cycle()
        elif self._refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._held_bytes = 0
        self._is_in_request = self._is_in_head = False
        if self._early_body is not None and self._refusal is None:
            body = bytes(self._early_body)
            if self._begin_insert(body) or self._answer_at_once(body):
                self._take_early_body()
                return
            self._begin_cycle()
        if self._refusal is None:
            super().on_message_complete()

    # -- short queries ----------------------------------------------------------------------------------------------

    def _may_be_short(self) -> bool:
        """Returns whether the request, once complete, may be answered at once; nothing may be before it."""
        return (
            self._answers_left > 0
            and (self.cycle is None or self.cycle.response_complete)
            and not (self.pipeline or self.expect_100_continue or self.flow.write_paused)
            and (self.url.startswith(b"/?") or (self.url == b"/" and self.parser.get_method() == b"POST"))
            and b"#" not in self.url
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        )

    def _take_early_body(self) -> bytearray | None:
        body, self._early_body = self._early_body, None
        if self._early_timer is not None:
            self._early_timer.cancel()
            self._early_timer = None
        return body

    def _begin_delayed_cycle(self) -> None:
        """Passes the request to the application because its body takes too long."""
        try:
            self._begin_cycle()
        except httptools.HttpParserError as error:
            self._refuse(400, UserError("BAD_ARGUMENTS", f"The request is not HTTP/1.1: {error}"))
        self._watch_for_lateness()

    def _begin_insert(self, body: bytes) -> bool:
        if self.begin_insert is None or self.transport.is_closing():
            return False
        if not (b"insert" in self.url.lower() or _INSERT.match(body)):
            return False
        cycle: RunningInsert | None = None

        def reply(status: int, head: bytes, data: bytes) -> None:
            assert cycle is not None
            cycle.response_complete = True
            if cycle.disconnected or self.transport.is_closing():
                return
            self._write_answer(status, head if cycle.keep_alive else head + b"connection: close\r\n", data)
            if not cycle.keep_alive:
                self.transport.close()
            self.on_response_complete()

        cancel = self.begin_insert(self._complete_scope(), body, reply)
        if cancel is None:
            return False
        cycle = self._running = RunningInsert(cancel)
        self.cycle = cycle  # type: ignore[assignment]
        self._unanswered += 1
        return True

    def _answer_at_once(self, body: bytes) -> bool:
        if self.short_answer is None or self.transport.is_closing():
            return False
        answer = self.short_answer(self._complete_scope(), body)
        if answer is None:
            return False
        self._answers_left -= 1
        self._write_answer(200, *answer)
        self.server_state.total_requests += 1
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        return True

    def _complete_scope(self) -> Mapping[str, Any]:
        scope = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["query_string"] = bytes(self.url[2:])
        return scope

    def _write_answer(self, status: int, head: bytes, data: bytes) -> None:
        common = [name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers]
        self.transport.write(b"".join((STATUS_LINE[status], *common, head, b"\r\n", data)))

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()
        self._answer_refusal()
        self._watch_for_lateness()

    def send_progress(self, progress: bytes) -> None:
        """Sends ``X-ClickHouse-Progress`` during a query: begins the head, with 200; the response goes on."""
        cycle = self._running
        if cycle is None or cycle.disconnected or cycle.response_started or self._refusal is not None:
            return
        if not isinstance(cycle.transport, HeadlessTransport):
            cycle.transport = HeadlessTransport(self.transport)  # type: ignore[assignment]
            self.transport.write(STATUS_LINE[200])
        self.transport.write(b"X-ClickHouse-Progress: " + progress + b"\r\n")

    # -- refusing ---------------------------------------------------------------------------------------------------

    def _refuse(self, status: int, error: PandoError) -> None:
        """Stops reading. Earlier requests get their responses before the refusal."""
        if self._refusal is not None or self.transport.is_closing():
            return
        self._refusal = (status, error)
        if self._take_early_body() is not None:
            pass  # the application has not seen it yet
        elif self._is_in_request and not self._is_in_head and not self.cycle.response_complete:
            self._drop_request()
        self._answer_refusal()

    def _drop_request(self) -> None:
        """Drops the newest request, whose own body is malformed."""
        self._unanswered -= 1
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
            return  # an earlier request runs; the refusal follows its response
        self.cycle.disconnected = True
        self.cycle.waiting_for_100_continue = False
        self.cycle.message_event.set()
        if self.cycle.response_started or isinstance(self.cycle.transport, HeadlessTransport):
            self.transport.close()

    def _answer_refusal(self) -> None:
        if self._is_answered or self._refusal is None or self._unanswered > 0 or self.transport.is_closing():
            return
        self._is_answered = True
        self._unset_keepalive_if_required()
        status, error = self._refusal
        logger.info("a request is refused: %s", error)
        self.transport.write(make_refusal(status, error))
        if self.transport.can_write_eof():
            with contextlib.suppress(OSError):  # the client has gone meanwhile
                self.transport.write_eof()
        # Reads and drops the rest for a moment: if it closed at once, the client might lose the response.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    # -- a client that does not read ----------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_for_stall(None)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def shorten_send_timeout(self, seconds: float) -> None:
        """Lets the client take nothing for so long at most, from now on. Called on the loop."""
        self.send_timeout = min(self.send_timeout, seconds)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._watch_for_stall(None)

    def _watch_for_stall(self, before: int | None) -> None:
        held = self.transport.get_write_buffer_size()
        if before is not None and held >= before:
            logger.info("a client took nothing for %g s and is cut off", self.send_timeout)
            self.transport.abort()
            return
        self._stall_timer = self.loop.call_later(self.send_timeout, self._watch_for_stall, held)
