"""What passes a connection beside whole answers: a refusal, a head that began early, the other side's leaving."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus

from engine.front.http.error_responses import format_error, make_error_headers
from parts.common.errors import PandoError

_CLOSED = (7, 8)
"""TCP's CLOSE and CLOSE_WAIT."""


class HeadlessTransport:
    """The transport of an answer whose status line is out already: drops the one it is given."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_first = True

    def write(self, data: bytes) -> None:
        if self._is_first:
            self._is_first = False
            data = data[data.index(b"\r\n") + 2 :]
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


def has_peer_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed, though bytes of it are still unread. Only Linux knows."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED
    except OSError:
        return True


def make_refusal(status: int, error: PandoError) -> bytes:
    """A whole answer, after which the connection ends."""
    text = format_error(error).encode()
    head = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
    head += [name + b": " + value for name, value in (*make_error_headers(error, len(text)), (b"connection", b"close"))]
    return b"\r\n".join(head) + b"\r\n\r\n" + text
