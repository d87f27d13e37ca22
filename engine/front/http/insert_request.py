"""What a connection keeps of an INSERT that runs past the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Reply = Callable[[int, bytes, bytes], None]
"""Takes an answer: status, the headers' lines, body. On the loop."""
BeginInsert = Callable[[Mapping[str, Any], bytes, Reply], Callable[[], None] | None]
"""From scope and body of a whole request to what cancels it, if it is an INSERT that runs from now on."""


class RunningInsert:
    """Stands where uvicorn has a request's cycle: what the client sends next waits behind it."""

    response_started = response_complete = disconnected = waiting_for_100_continue = False
    keep_alive = True
    transport = None

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self.message_event = self

    def set(self) -> None:
        """Something happened to the connection."""
        if self.disconnected and not self.response_complete:
            self._cancel()
