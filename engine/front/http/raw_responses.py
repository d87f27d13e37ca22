"""Responses sent without the ASGI application: refusals, and heads that began early."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus

from engine.front.http.error_responses import format_error, make_error_headers
from parts.common.errors import PandoError

_CLOSED = (7, 8)
"""The TCP states CLOSE and CLOSE_WAIT."""


class HeadlessTransport:
    """A transport for a response whose status line is sent already: it drops the one in the first write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_first = True

    def write(self, data: bytes) -> None:
        """Writes bytes; the first write without its status line."""
        if self._is_first:
            self._is_first = False
            data = data[data.index(b"\r\n") + 2 :]
        self._transport.write(data)

    def close(self) -> None:
        """Closes the connection."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Returns whether the connection is closing."""
        return self._transport.is_closing()


def has_peer_closed(connection: socket.socket) -> bool:
    """Returns whether the client has closed, even if its bytes are still unread. Works on Linux only."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CLOSED
    except OSError:
        return True


def make_refusal(status: int, error: PandoError) -> bytes:
    """Returns a whole error response, after which the connection is closed."""
    text = format_error(error).encode()
    head = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
    head += [name + b": " + value for name, value in (*make_error_headers(error, len(text)), (b"connection", b"close"))]
    return b"\r\n".join(head) + b"\r\n\r\n" + text
