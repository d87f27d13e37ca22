"""Failed logins by user and address: repeated guesses have to wait longer and longer.

Nobody else waits: not the same user from another address, nor another user from the same one. Users that do not exist
are counted like those that do. The number of entries is limited, so memory is bounded.

It is no :class:`parts.common.lru_cache.LruCache`: a count is read and raised in one step, and only a failure makes an
entry newer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from parts.common.errors import UserError

_FREE_FAILURES = 10
"""Consecutive failures without a pause: people mistype, and programs have old passwords."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0
_REMEMBERED_SECONDS = 900.0
_MOST_REMEMBERED = 10_000


class LoginThrottle:
    """Counts the failed logins of one process. Thread-safe. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """The number of consecutive failures and the time of the last one; the latest entry last."""

    def check(self, user: str, address: str) -> None:
        """Raises 516 (AUTHENTICATION_FAILED) during the pause after the last failure, whatever the password."""
        with self._lock:
            count, at = self._failures.get((user, address), (0, 0.0))
        left = at + _pause_seconds(count) - self._clock()
        if count and left > 0:
            raise UserError(
                "AUTHENTICATION_FAILED",
                f"{user}: Authentication failed: too many failed attempts from {address}; retry in {left:.1f} s",
            )

    def count_failure(self, user: str, address: str) -> None:
        """Counts a failed login."""
        now = self._clock()
        with self._lock:
            count, at = self._failures.pop((user, address), (0, now))
            self._failures[user, address] = (count + 1 if now - at < _REMEMBERED_SECONDS else 1, now)
            if len(self._failures) > _MOST_REMEMBERED:
                self._failures.popitem(last=False)

    def forget_failures(self, user: str, address: str) -> None:
        """Forgets the failures of this user and address."""
        if self._failures:
            with self._lock:
                self._failures.pop((user, address), None)


def _pause_seconds(failures: int) -> float:
    over = failures - _FREE_FAILURES
    return 0.0 if over < 0 else min(_FIRST_PAUSE_SECONDS * 2.0 ** min(over, 10), _LONGEST_PAUSE_SECONDS)
