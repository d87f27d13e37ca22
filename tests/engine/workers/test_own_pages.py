"""A page's request is answered at once when it is here as a whole, and by the usual protocol when not."""

from __future__ import annotations

import socket

import pytest

from engine.workers.connections.status_page_server import _read_whole_head


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET /ping HTTP/1.0\r\n\r\n", True),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", True),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\n", False),
        (b"GET /ping HTTP/2.0\r\n\r\n", False),
        (b"GET /ping  HTTP/1.1\r\n\r\n", False),
        (b"GET /ping\r\n\r\n", False),
        (b"GET /ping HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", False),
        (b"GET /ping HTTP/1.1\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\n\r\n", False),
        (b"GET /ping HTTP/1.1\r\nx: " + b"y" * 9000 + b"\r\n\r\n", False),
    ],
)
def test_only_a_whole_and_plain_head_is_taken(data: bytes, expected: bool) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data)
        head = _read_whole_head(here)
        assert (head is not None) is expected
        rest = here.recv(1 << 16) if (head or b"") != data else b""
        assert (head or b"") + rest == data
        assert head is None or head.endswith(b"\r\n\r\n")
