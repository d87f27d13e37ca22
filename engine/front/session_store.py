"""State that outlives a request: sessions with a ``session_id``, and numbers used once.

Invariants:

- A session serves one request at a time (373 otherwise).
- A session ends ``session_timeout`` seconds after its last request, with its temporary tables, database and settings.
  The owner of a store runs its ``task``; without it a session stays until another one begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.queries.session import Session
from engine.server.background_pool import BackgroundTask
from parts.common.errors import UserError

SWEEP_SECONDS = 1.0


@dataclass
class _StoredSession:
    session: Session
    expires: float
    in_use: bool = False


class Sessions(Protocol):
    """The interface of :class:`SessionStore`."""

    def acquire(self, user: str, session_id: str, make: Callable[[], Session], *, must_exist: bool) -> Session:
        """Returns a session for one request."""

    def release(self, user: str, session_id: str, timeout_seconds: float, session: Session | None = None) -> None:
        """Returns a session to the store."""

    def is_first(self, number: str, seconds: float) -> bool:
        """Returns whether the number was not used before."""


class SessionStore:
    """The sessions of one server. Thread-safe.

    Keys are (user, session id): nobody enters another user's session.
    """

    def __init__(self, clock: Callable[[], float], on_end: Callable[[Session], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._lock = threading.Lock()
        self._stored: dict[tuple[str, str], _StoredSession] = {}
        self._numbers: dict[str, float] = {}
        """Used numbers in order of arrival, and until when each is remembered."""

    def acquire(self, user: str, session_id: str, make: Callable[[], Session], *, must_exist: bool) -> Session:
        """Returns the session for one request; makes it unless it ``must_exist``.

        Raises 372 (SESSION_NOT_FOUND) and 373 (SESSION_IS_LOCKED).
        """
        self.sweep()
        with self._lock:
            held = self._stored.get((user, session_id))
            if held is None:
                if must_exist:
                    raise UserError(
                        "SESSION_NOT_FOUND", f"Session {session_id!r} not found: it never was, or it expired"
                    )
                held = self._stored[user, session_id] = _StoredSession(make(), 0.0)
            elif held.in_use:
                raise UserError("SESSION_IS_LOCKED", f"Session {session_id!r} is locked by a concurrent client")
            held.in_use = True
            return held.session

    def release(self, user: str, session_id: str, timeout_seconds: float, session: Session | None = None) -> None:
        """Returns a session to the store; ``session`` replaces the acquired object."""
        with self._lock:
            held = self._stored.get((user, session_id))
            if held is not None:
                held.session = session or held.session
                held.in_use = False
                held.expires = self._clock() + timeout_seconds

    def is_first(self, number: str, seconds: float) -> bool:
        """Returns whether the number was not used before, and remembers it for ``seconds``."""
        now = self._clock()
        with self._lock:
            while self._numbers and self._numbers[oldest := next(iter(self._numbers))] <= now:
                del self._numbers[oldest]
            if number in self._numbers:
                return False
            self._numbers[number] = now + seconds
            return True

    def sweep(self) -> None:
        """Ends the expired sessions."""
        with self._lock:
            now = self._clock()
            expired = [key for key, held in self._stored.items() if not held.in_use and held.expires <= now]
            ended = [self._stored.pop(key).session for key in expired]
        for session in ended:
            self._on_end(session)

    @property
    def task(self) -> BackgroundTask:
        """A new background task that ends expired sessions."""
        return BackgroundTask("end sessions", self._sweep_step)

    def _sweep_step(self) -> float:
        self.sweep()
        return SWEEP_SECONDS

    def __len__(self) -> int:
        return len(self._stored)
