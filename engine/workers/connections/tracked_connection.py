"""A worker's side of :mod:`engine.workers.connections.connection_states`: an HTTP connection that notes where it
stands.

Every byte in and out passes here, so what a request or an answer is made by does not matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable
from typing import Any

from engine.front.http.connection import HttpConnection
from engine.workers.connections.connection_states import ConnectionState, ConnectionStates

_FLUSH_SECONDS = 0.05
_IDLE, _ASKED, _BEGUN, _ANSWERED = (
    int(ConnectionState.IDLE),
    int(ConnectionState.ASKED),
    int(ConnectionState.BEGUN),
    int(ConnectionState.ANSWERED),
)
_INTERIM = b"HTTP/1.1 100"


class ConnectionSlot:
    """A connection's slot, its worker's from now on until ``report(slot)``."""

    def __init__(self, states: ConnectionStates, slot: int, report: Callable[[int], None]) -> None:
        self.slot = slot
        self.states = states.states
        self.received = states.received[slot]
        self.written = states.written[slot]
        self.is_returned = False
        """Given back alive, for another worker."""
        self._shared = states
        self._report = report
        self.states[slot] = _IDLE

    def note_data(self, data: bytes) -> None:
        self.received += len(data)
        if self.states[self.slot] == _IDLE:
            self._shared.forget(self.slot)
            self.states[self.slot] = _ASKED
        self._shared.keep(self.slot, data)

    def note_next(self) -> None:
        """The answer to one request is out, and that to another is owed: what is kept is of both."""
        self._shared.forget(self.slot)
        self.states[self.slot] = _ASKED

    def note_repeatable(self) -> None:
        self._shared.may_repeat[self.slot] = 1

    def note_idle(self) -> None:
        self._shared.received[self.slot] = self.received
        self._shared.written[self.slot] = self.written
        self.states[self.slot] = _IDLE

    def end(self, connection: socket.socket | None) -> None:
        """The door has a duplicate of the socket: closing this one alone would tell the client nothing."""
        if not self.is_returned:
            if connection is not None:
                with contextlib.suppress(OSError):  # it is no more
                    connection.shutdown(socket.SHUT_RDWR)
            self.states[self.slot] = ConnectionState.CLOSED
        self._report(self.slot)


class TrackedConnection(HttpConnection):
    place: ConnectionSlot
    """Set before the connection is made."""
    repeated: bytes = b""
    """A request that another worker had and did not answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_TrackedTransport(transport, self.place))  # type: ignore[arg-type]
        if self.repeated:
            self.data_received(self.repeated)

    @property
    def number(self) -> int:
        return self.place.slot

    def note_repeatable(self) -> None:
        self.place.note_repeatable()

    def data_received(self, data: bytes) -> None:
        self.place.note_data(data)
        super().data_received(data)
        if self.is_idle:
            self._note_idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.is_idle:
            self._note_idle()
        elif self.has_unanswered_request:
            self.place.note_next()

    def connection_lost(self, exc: Exception | None) -> None:
        connection = self.transport.get_extra_info("socket")
        try:
            super().connection_lost(exc)
        finally:
            self.place.end(connection)

    def shutdown(self) -> None:
        """A connection without a request may live on in another worker."""
        self.place.is_returned = self.place.states[self.place.slot] == _IDLE
        super().shutdown()

    def _note_idle(self) -> None:
        if self.transport.get_write_buffer_size():  # while the end of an answer is here only, its client is owed that
            self.loop.call_later(_FLUSH_SECONDS, self._look_again)
        else:
            self.place.note_idle()

    def _look_again(self) -> None:
        if self.is_idle and not self.transport.is_closing():
            self._note_idle()


class _TrackedTransport:
    """Notes that an answer has begun before its first bytes are out."""

    def __init__(self, transport: asyncio.Transport, place: ConnectionSlot) -> None:
        self._transport = transport
        self._place = place
        self.is_closing = transport.is_closing
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        place = self._place
        if place.states[place.slot] in (_ASKED, _BEGUN) and data and not data.startswith(_INTERIM):
            place.states[place.slot] = _ANSWERED if b"\r\n\r\n" in data else _BEGUN
        place.written += len(data)
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
