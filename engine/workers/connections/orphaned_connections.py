"""Decides what becomes of a dead worker's connections, and sends the dispatcher's own responses.

A worker records what it is about to do, and may die before it does so. The kernel's counts of bytes read off a
connection and written to it tell which.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import fcntl
import socket
import struct
import termios
from dataclasses import dataclass

from engine.front.http.raw_responses import make_refusal
from engine.workers.connections.connection_states import ConnectionState, ConnectionStates
from parts.common.errors import PandoError

_LINGER_SECONDS = 2.0
_DRAIN_BYTES = 256 << 10
_ESTABLISHED = 1
_COUNTS_OFFSET = 120
"""The offset of tcpi_bytes_acked and tcpi_bytes_received in Linux's ``struct tcp_info``.

Both are eight bytes.
"""


class OrphanAction(enum.Enum):
    """The ways to go on with a connection whose worker has ended."""

    MOVE = "another worker may have it"
    REPEAT = "its request is asked again"
    ANSWER = "its request gets an error"
    END_HEAD = "the head that has begun ends with an error"
    CUT = "it is closed: no answer, or half of one, is the truth"


@dataclass(frozen=True)
class KernelCounts:
    """The bytes that passed a connection, as the kernel counts them."""

    consumed: int
    """Bytes that were read off the connection."""
    written: int
    is_established: bool


def read_kernel_counts(connection: socket.socket) -> KernelCounts | None:
    """Reads the kernel's counts; returns ``None`` if the kernel does not count."""
    try:
        information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNTS_OFFSET + 16)
        acknowledged, received = struct.unpack_from("QQ", information, _COUNTS_OFFSET)
        unread, unacknowledged = (
            struct.unpack("i", fcntl.ioctl(connection, request, bytes(4)))[0]
            for request in (termios.FIONREAD, termios.TIOCOUTQ)
        )
    except (OSError, struct.error, AttributeError):
        return None
    return KernelCounts(received - unread, acknowledged + unacknowledged, information[0] == _ESTABLISHED)


def choose_action(states: ConnectionStates, slot: int, connection: socket.socket) -> OrphanAction:
    """Chooses what to do with a connection. Requires that nobody writes the slot any more."""
    state = states.states[slot]
    if state == ConnectionState.PASSED:
        return OrphanAction.MOVE
    if state in (ConnectionState.FREE, ConnectionState.CLOSED):
        return OrphanAction.CUT
    counts = read_kernel_counts(connection)
    if state == ConnectionState.IDLE:
        if counts is None or (counts.is_established and counts.consumed == states.received[slot]):
            return OrphanAction.MOVE
        return OrphanAction.ANSWER if counts.is_established else OrphanAction.CUT
    if state == ConnectionState.ASKED:
        return OrphanAction.ANSWER
    if counts is None or counts.written > states.written[slot]:
        return OrphanAction.END_HEAD if state == ConnectionState.BEGUN else OrphanAction.CUT
    return OrphanAction.ANSWER


class FinalResponses:
    """Responses after which connections end, on the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lingering: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._lingering)

    def send_error(self, connection: socket.socket, status: int, error: PandoError, *, in_head: bool = False) -> None:
        """Sends an error and closes the connection; ``in_head``: after a status line and headers."""
        answer = make_refusal(status, error)
        try:
            connection.send(answer[answer.index(b"\r\n") + 2 :] if in_head else answer)
        except OSError:
            connection.close()
        else:
            self.close_after_drain(connection)

    def close_after_drain(self, connection: socket.socket) -> None:
        """Closes an answered connection when the client has closed it, or some seconds later."""
        try:
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            connection.close()
            return
        # Read and drop the rest for a moment: after an immediate close the client might lose the response.
        self._lingering[connection] = self._loop.call_later(_LINGER_SECONDS, self._end, connection)
        self._loop.add_reader(connection.fileno(), self._drain, connection)

    def close(self) -> None:
        """Closes all connections at once."""
        for connection in list(self._lingering):
            self._end(connection)

    def _drain(self, connection: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            try:
                data = connection.recv(_DRAIN_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        self._lingering.pop(connection).cancel()
        self._loop.remove_reader(connection.fileno())
        connection.close()
