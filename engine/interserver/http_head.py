"""The little HTTP that the part exchange needs: heads of requests and answers, over sockets that stay open.

A fetch of a small part is a matter of a millisecond, most of which a general HTTP library would use up.
Only what has a ``Content-Length`` is exchanged; there are no chunks and no request bodies.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import BinaryIO

_MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Head:
    """The first line's three words, and the headers under their lower-case names."""

    words: tuple[str, str, str]
    headers: dict[str, str]

    @property
    def content_length(self) -> int:
        """Bytes that follow. Raises ``ValueError``."""
        if "transfer-encoding" in self.headers:
            raise ValueError("a message without a length")
        length = int(self.headers.get("content-length", "0"))
        if length < 0:
            raise ValueError(f"content-length {length}")
        return length

    @property
    def is_last(self) -> bool:
        """The connection ends after this message."""
        return self.headers.get("connection", "").lower() == "close"


def read_head(stream: BinaryIO) -> Head | None:
    """The next head, ``None`` when the other side closed between messages. Raises ``EOFError``, ``ValueError``."""
    first = _line(stream, _MAX_HEAD_BYTES)
    if not first:
        return None
    words = first.decode("latin-1").rstrip("\r\n").split(" ", 2)
    if len(words) != 3 or "HTTP/1.1" not in (words[0], words[2]):
        raise ValueError(f"not HTTP/1.1: {first[:100]!r}")
    headers: dict[str, str] = {}
    left = _MAX_HEAD_BYTES - len(first)
    while (line := _line(stream, left)) not in (b"\r\n", b"\n"):
        if not line:
            raise EOFError("the head ended early")
        left -= len(line)
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise ValueError(f"not a header: {line[:100]!r}")
        headers[name.strip().lower()] = value.strip()
    return Head((words[0], words[1], words[2]), headers)


def _line(stream: BinaryIO, limit: int) -> bytes:
    """Up to and with the line feed; empty at the end."""
    line = stream.readline(limit)
    if line and not line.endswith(b"\n"):
        raise ValueError("the head is too long") if len(line) >= limit else EOFError("the head ended early")
    return line


def request_head(target: str, headers: dict[str, str]) -> bytes:
    return _head(f"GET {target} HTTP/1.1", headers)


def answer_head(status: int, headers: dict[str, str]) -> bytes:
    return _head(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", headers)


def _head(first: str, headers: dict[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
