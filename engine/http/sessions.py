"""Sessions that outlive a request: ``session_id`` keeps what USE and SET changed.

Invariants:
- A session serves one request at a time (373 otherwise).
- A session ends ``session_timeout`` seconds after its last request, with its temporary tables; nothing else is lost but
  its database and settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.session import Session
from parts.errors import UserError


@dataclass
class _Held:
    session: Session
    expires: float
    in_use: bool = False


class Sessions(Protocol):
    """See :class:`SessionStore`."""

    def acquire(self, user: str, session_id: str, make: Callable[[], Session], *, must_exist: bool) -> Session: ...

    def release(self, user: str, session_id: str, timeout_seconds: float, session: Session | None = None) -> None: ...


class SessionStore:
    """Thread-safe. Keys are (user, session id): nobody enters another user's session."""

    def __init__(self, clock: Callable[[], float], on_end: Callable[[Session], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], _Held] = {}

    def acquire(self, user: str, session_id: str, make: Callable[[], Session], *, must_exist: bool) -> Session:
        """Raises 372 (SESSION_NOT_FOUND) and 373 (SESSION_IS_LOCKED)."""
        self.sweep()
        with self._lock:
            held = self._held.get((user, session_id))
            if held is None:
                if must_exist:
                    raise UserError(
                        "SESSION_NOT_FOUND", f"Session {session_id!r} not found: it never was, or it expired"
                    )
                held = self._held[user, session_id] = _Held(make(), 0.0)
            elif held.in_use:
                raise UserError("SESSION_IS_LOCKED", f"Session {session_id!r} is locked by a concurrent client")
            held.in_use = True
            return held.session

    def release(self, user: str, session_id: str, timeout_seconds: float, session: Session | None = None) -> None:
        """``session`` is what it became, when that is another object than was acquired."""
        with self._lock:
            held = self._held.get((user, session_id))
            if held is not None:
                held.session = session or held.session
                held.in_use = False
                held.expires = self._clock() + timeout_seconds

    def sweep(self) -> None:
        """Ends the sessions that have expired."""
        with self._lock:
            now = self._clock()
            expired = [key for key, held in self._held.items() if not held.in_use and held.expires <= now]
            ended = [self._held.pop(key).session for key in expired]
        for session in ended:
            self._on_end(session)

    def __len__(self) -> int:
        return len(self._held)
