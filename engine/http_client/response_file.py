"""A response as a readable file."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from engine.http_client.errors import make_lost_connection_error
from engine.http_client.transport import Answer
from parts.common.errors import PandoError


class ResponseFile(io.RawIOBase):
    """A response as a readable file."""

    def __init__(self, answer: Answer, check: Callable[[], None] = lambda: None) -> None:
        """Wraps a response; ``check`` is called before each chunk and raises to stop reading."""
        self._chunks = iter(answer)
        self._check = check
        self._url = answer.url
        self._chunk = memoryview(b"")

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer unless the response ends. Raises the error that cut the response off."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            if not self._chunk and not self._next_chunk():
                break
            size = min(len(self._chunk), len(view) - filled)
            view[filled : filled + size] = self._chunk[:size]
            self._chunk = self._chunk[size:]
            filled += size
        return filled

    def _next_chunk(self) -> bool:
        self._check()
        self._chunk = memoryview(next((chunk for chunk in self._chunks if chunk), b""))
        return bool(self._chunk)

    def failure(self, problem: Exception) -> PandoError:
        """Returns why the response cannot be parsed: the server's trailing error, or a lost connection."""
        try:
            while self._next_chunk():
                pass
        except PandoError as error:
            return error
        return make_lost_connection_error(self._url, problem)
