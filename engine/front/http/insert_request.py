"""The state of an INSERT that bypasses the ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Reply = Callable[[int, bytes, bytes], None]
"""Sends a response: status, header lines, body. Called on the event loop."""
BeginInsert = Callable[[Mapping[str, Any], bytes, Reply], Callable[[], None] | None]
"""Starts the INSERT of a complete request (scope, body) and returns its cancel function, or ``None`` if it is none."""


class RunningInsert:
    """A running INSERT in the place of uvicorn's request cycle; later requests wait behind it."""

    response_started = response_complete = disconnected = waiting_for_100_continue = False
    keep_alive = True
    transport = None

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self.message_event = self

    def set(self) -> None:
        """Reacts to a change of the connection: cancels the INSERT if the client has left."""
        if self.disconnected and not self.response_complete:
            self._cancel()
