"""An HTTP connection of a worker that records its state in shared memory.

See :mod:`engine.workers.connections.connection_states`. Every byte in and out passes here, so it does not matter which
code makes a request or a response.
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
    """A connection's slot, which is its worker's until ``report(slot)`` is called."""

    def __init__(self, states: ConnectionStates, slot: int, report: Callable[[int], None]) -> None:
        self.slot = slot
        self.states = states.states
        self.received = states.received[slot]
        self.written = states.written[slot]
        self.is_returned = False
        """Whether the connection is returned alive, for another worker."""
        self._shared = states
        self._report = report
        self.states[slot] = _IDLE

    def note_data(self, data: bytes) -> None:
        """Records received bytes; the first of them begin a request."""
        self.received += len(data)
        if self.states[self.slot] == _IDLE:
            self._shared.drop_request(self.slot)
            self.states[self.slot] = _ASKED
        self._shared.store_request(self.slot, data)

    def note_next(self) -> None:
        """Records that one request is answered and another has begun, so the stored bytes cannot be repeated."""
        self._shared.drop_request(self.slot)
        self.states[self.slot] = _ASKED

    def note_repeatable(self) -> None:
        """Records that the request may be repeated."""
        self._shared.may_repeat[self.slot] = 1

    def set_idle(self) -> None:
        """Records that no request is in progress, and the bytes counted so far."""
        self._shared.received[self.slot] = self.received
        self._shared.written[self.slot] = self.written
        self.states[self.slot] = _IDLE

    def end(self, connection: socket.socket | None) -> None:
        """Ends the connection and reports its slot.

        The dispatcher has a duplicate of the socket, so closing this one alone would tell the client nothing.
        """
        if not self.is_returned:
            if connection is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    connection.shutdown(socket.SHUT_RDWR)
            self.states[self.slot] = ConnectionState.CLOSED
        self._report(self.slot)


class TrackedConnection(HttpConnection):
    """An HTTP connection with a slot."""

    place: ConnectionSlot
    """Set before the connection is made."""
    repeated: bytes = b""
    """A request that another worker had and did not answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins the connection, with the request to repeat first."""
        super().connection_made(_TrackedTransport(transport, self.place))  # type: ignore[arg-type]
        if self.repeated:
            self.data_received(self.repeated)

    @property
    def number(self) -> int:
        """The slot of the connection."""
        return self.place.slot

    def note_repeatable(self) -> None:
        """Records that the request may be repeated."""
        self.place.note_repeatable()

    def data_received(self, data: bytes) -> None:
        """Records the bytes before they are processed."""
        self.place.note_data(data)
        super().data_received(data)
        if self.is_idle:
            self._set_idle()

    def on_response_complete(self) -> None:
        """Records whether another request is in progress."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.is_idle:
            self._set_idle()
        elif self.has_unanswered_request:
            self.place.note_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the connection and reports its slot."""
        connection = self.transport.get_extra_info("socket")
        try:
            super().connection_lost(exc)
        finally:
            self.place.end(connection)

    def shutdown(self) -> None:
        """Ends the connection here. Without a request it may go on in another worker."""
        self.place.is_returned = self.place.states[self.place.slot] == _IDLE
        super().shutdown()

    def _set_idle(self) -> None:
        if self.transport.get_write_buffer_size():  # the client has not got the end of the response yet
            self.loop.call_later(_FLUSH_SECONDS, self._look_again)
        else:
            self.place.set_idle()

    def _look_again(self) -> None:
        if self.is_idle and not self.transport.is_closing():
            self._set_idle()


class _TrackedTransport:
    """A transport that records the beginning of a response before its first bytes are sent."""

    def __init__(self, transport: asyncio.Transport, place: ConnectionSlot) -> None:
        self._transport = transport
        self._place = place
        self.is_closing = transport.is_closing
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        """Records and writes bytes of a response."""
        place = self._place
        if place.states[place.slot] in (_ASKED, _BEGUN) and data and not data.startswith(_INTERIM):
            place.states[place.slot] = _ANSWERED if b"\r\n\r\n" in data else _BEGUN
        place.written += len(data)
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Writes the pieces joined."""
        self.write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
