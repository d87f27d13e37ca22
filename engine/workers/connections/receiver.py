"""Receives connections in a worker, serves them, and reports their end.

Messages over the socket to the dispatcher (SOCK_SEQPACKET): to the worker, a slot of four bytes (little-endian) with
the connection's descriptor, and a request to repeat, if any. To the dispatcher, slots of four bytes each. A reported
slot is the dispatcher's again: CLOSED, or PASSED or IDLE if another worker may have the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Callable

from engine.front.http.http_server import HttpServer
from engine.front.http.listener import ConnectionOpener
from engine.server.config import Config
from engine.workers.connections.connection_states import KEPT_BYTES, ConnectionStates
from engine.workers.connections.tracked_connection import ConnectionSlot, TrackedConnection

logger = logging.getLogger(__name__)

SLOT_BYTES = 4
MAX_SLOTS_PER_MESSAGE = 4096
_AT_ONCE = 64


class ConnectionReceiver:
    """The receiver of one worker, on the loop given to :meth:`start`.

    ``on_replica_gone`` is called once, when the other end is closed.
    """

    def __init__(
        self,
        door_socket: socket.socket,
        states: ConnectionStates,
        make_protocol: Callable[[], asyncio.Protocol],
        on_replica_gone: Callable[[], None],
    ) -> None:
        self._socket = door_socket
        self._states = states
        self._make = make_protocol
        self._on_replica_gone = on_replica_gone
        self._reports: list[int] = []
        self._is_receiving = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to receive connections."""
        self._loop = loop
        self._opener = ConnectionOpener()
        self._socket.setblocking(False)
        self._is_receiving = True
        loop.add_reader(self._socket.fileno(), self._receive)

    def close(self) -> None:
        """Takes no more connections and returns those passed already. Ends of connections are still reported."""
        if not self._is_receiving:
            return
        self._stop_receiving()
        with contextlib.suppress(OSError):
            while message := self._next():
                slot, _, connection = message
                if connection is not None:
                    connection.close()
                self._report(slot)

    def _stop_receiving(self) -> None:
        self._is_receiving = False
        self._loop.remove_reader(self._socket.fileno())

    def _receive(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                message = self._next()
                if message is None:
                    break
                self._take(*message)
            else:
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            logger.warning("the front door cannot be read: %s", error)
        self._stop_receiving()
        self._on_replica_gone()

    def _next(self) -> tuple[int, bytes, socket.socket | None] | None:
        """Receives a slot, a request to repeat and the connection; ``None`` at the end.

        The connection is missing if this process has no free descriptor.
        """
        data, descriptors, _, _ = socket.recv_fds(self._socket, SLOT_BYTES + KEPT_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return None
        connection = socket.socket(fileno=descriptors[0]) if descriptors else None
        return int.from_bytes(data[:SLOT_BYTES], "little"), data[SLOT_BYTES:], connection

    def _take(self, slot: int, repeated: bytes, connection: socket.socket | None) -> None:
        if connection is None:
            self._report(slot)
            return
        place = ConnectionSlot(self._states, slot, self._report)

        def make() -> asyncio.Protocol:
            protocol = self._make()
            assert isinstance(protocol, TrackedConnection)
            protocol.place = place
            protocol.repeated = repeated
            return protocol

        connection.setblocking(False)
        self._opener.open(connection, make)

    # -- reports ------------------------------------------------------------------------------------------------------

    def _report(self, slot: int) -> None:
        self._reports.append(slot)
        if len(self._reports) == 1:
            self._send_reports()

    def _send_reports(self) -> None:
        """Sends the reports; those that gathered meanwhile go in one message."""
        while self._reports:
            slots = self._reports[:MAX_SLOTS_PER_MESSAGE]
            try:
                self._socket.send(struct.pack(f"<{len(slots)}I", *slots))
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._socket.fileno(), self._send_reports)
                return
            except OSError:  # the replica process is gone: nobody needs the reports
                slots = self._reports[:]
            del self._reports[: len(slots)]
        self._loop.remove_writer(self._socket.fileno())


def make_worker_http_server(
    config: Config, door_socket: socket.socket, states: ConnectionStates, on_replica_gone: Callable[[], None]
) -> HttpServer:
    """Makes the HTTP server of a worker, whose connections come through ``door_socket``."""
    return HttpServer(
        config,
        lambda make: ConnectionReceiver(door_socket, states, make, on_replica_gone),
        connection=TrackedConnection,
    )
