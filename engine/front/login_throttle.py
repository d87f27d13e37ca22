"""Failed logins by user and address: repeated guesses have to wait longer and longer.

Nobody else waits: not the same user from another address, nor another user from the same one. Users that do not exist
are counted like those that do.

The counts are in memory that all processes of a server share, made before any fork: who guesses at several workers has
no more attempts. Memory is bounded; where it is full, the oldest entry of a few goes, chosen by a secret hash.

Invariants

- A process writes its own row alone, and only under its lock. All rows are read without a lock: a reader may see half
  of a change, and then counts one failure more or less.
- Times are those of the monotonic clock, which all processes share. A failure is later than the success before it.

===============  ======================================================================================================
number           of a user and an address, in the row of one process
===============  ======================================================================================================
``key``          the hash of both; 0 for a free place
``count``        failures in this process since the last success in any
``failed_at``    the last of them, in nanoseconds
``passed_at``    the last right password after failures; 0 for none
===============  ======================================================================================================
"""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections.abc import Callable

import numpy as np

from parts.common.errors import UserError

_FREE_FAILURES = 10
"""Consecutive failures without a pause: people mistype, and programs have old passwords."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0
_REMEMBERED_NS = 900_000_000_000
_GROUPS, _PLACES = 2048, 4
"""Places of a group; a user and an address have a place of one group."""
_KEY, _COUNT, _FAILED_AT, _PASSED_AT = range(4)


class FailedLogins:
    """The failed logins of so many processes.

    ``secret`` are random bytes: who does not know them cannot choose whose failures are forgotten.
    """

    def __init__(self, secret: bytes, processes: int = 1) -> None:
        self._secret = secret
        width = _GROUPS * _PLACES * 4
        numbers = np.frombuffer(mmap.mmap(-1, 8 * processes * (width + 1)), np.uint64)
        self.latest = numbers[:processes]
        """By process, the time of the last failure; 0 before the first."""
        self.places = numbers[processes:].reshape(processes, _GROUPS, _PLACES, 4)

    def find_group(self, user: str, address: str) -> tuple[int, int]:
        """Returns the group and the key of a user and an address."""
        text = f"{user}\0{address}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, key=self._secret, digest_size=16).digest()
        return int.from_bytes(digest[:8]) % _GROUPS, int.from_bytes(digest[8:]) or 1


class LoginThrottle:
    """The pauses after failed logins, as one process of a server keeps them. Thread-safe."""

    def __init__(self, clock: Callable[[], float], failures: FailedLogins, process: int = 0) -> None:
        """``clock`` is monotonic, in seconds; ``process`` is this one's row."""
        self._clock = clock
        self._failures = failures
        self._process = process
        self._lock = threading.Lock()

    def check(self, user: str, address: str) -> None:
        """Raises 516 (AUTHENTICATION_FAILED) during the pause after the last failure, whatever the password."""
        if not self._failures.latest.any():
            return
        group, key = self._failures.find_group(user, address)
        count, failed_at, _ = self._sum(group, key)
        pause = _pause_seconds(count)
        left = failed_at / 1e9 + pause - self._clock()
        if pause and left > 0:
            raise UserError(
                "AUTHENTICATION_FAILED",
                f"{user}: Authentication failed: too many failed attempts from {address}; retry in {left:.1f} s",
            )

    def count_failure(self, user: str, address: str) -> None:
        """Counts a failed login."""
        group, key = self._failures.find_group(user, address)
        with self._lock:
            _, _, passed_at = self._sum(group, key)
            now = max(self._now(), passed_at + 1)
            place = self._take_place(group, key)
            is_new = int(place[_FAILED_AT]) <= passed_at or now - int(place[_FAILED_AT]) >= _REMEMBERED_NS
            place[_COUNT] = 1 if is_new else int(place[_COUNT]) + 1
            place[_FAILED_AT] = self._failures.latest[self._process] = now

    def forget_failures(self, user: str, address: str) -> None:
        """Forgets the failures of this user and address, in all processes."""
        if not self._failures.latest.any():
            return
        group, key = self._failures.find_group(user, address)
        with self._lock:
            count, failed_at, _ = self._sum(group, key)
            if count:
                self._take_place(group, key)[_PASSED_AT] = max(self._now(), failed_at)

    def _now(self) -> int:
        return int(self._clock() * 1e9)

    def _sum(self, group: int, key: int) -> tuple[int, int, int]:
        """Returns the failures since the last success, and the times of the last failure and the last success."""
        found = self._failures.places[:, group]
        found = found[found[..., _KEY] == key]
        if not len(found):
            return 0, 0, 0
        passed_at = int(found[:, _PASSED_AT].max())
        oldest = max(passed_at, self._now() - _REMEMBERED_NS, 0)
        counted = found[found[:, _FAILED_AT] > oldest]
        if not len(counted):
            return 0, 0, passed_at
        return int(counted[:, _COUNT].sum()), int(counted[:, _FAILED_AT].max()), passed_at

    def _take_place(self, group: int, key: int) -> np.ndarray:
        """Returns the place of a key in this process's row; the oldest of the group goes for a new one."""
        places = self._failures.places[self._process, group]
        (found,) = np.nonzero(places[:, _KEY] == key)
        if len(found):
            return places[found[0]]
        place = places[int(np.maximum(places[:, _FAILED_AT], places[:, _PASSED_AT]).argmin())]
        place[:] = 0
        place[_KEY] = key
        return place


def _pause_seconds(failures: int) -> float:
    over = failures - _FREE_FAILURES
    return 0.0 if over < 0 else min(_FIRST_PAUSE_SECONDS * 2.0 ** min(over, 10), _LONGEST_PAUSE_SECONDS)
