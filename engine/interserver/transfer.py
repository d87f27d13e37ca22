"""Limits and progress of part transfers: bandwidth, byte counts and cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from parts.common.errors import CancelledError

_SLICE_SECONDS = 0.25


class Throttle:
    """A bandwidth limit that all its users share; 0 means unlimited. May be called from any thread."""

    def __init__(
        self,
        bytes_per_second: Callable[[], int],
        monotonic: Callable[[], float],
        wait: Callable[[threading.Event, float], object],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._wait = wait
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._never = threading.Event()

    def spend(self, size: int, check: Callable[[], object]) -> None:
        """Waits until ``size`` bytes may pass. ``check`` is called while waiting, and raises to end the wait."""
        rate = self._bytes_per_second()
        if rate <= 0:
            return
        with self._lock:
            self._free_at = max(self._free_at, self._monotonic()) + size / rate
            free_at = self._free_at
        while (left := free_at - self._monotonic()) > 0:
            check()
            self._wait(self._never, min(left, _SLICE_SECONDS))


class Transfer:
    """One response of another replica while it is received."""

    def __init__(
        self,
        is_cancelled: Callable[[], bool] = lambda: False,
        throttles: Sequence[Throttle] = (),
        reserve: Callable[[int], object] = lambda size: None,
    ) -> None:
        """Prepares a transfer. ``reserve`` reserves disk space for that many bytes, or raises."""
        self._is_cancelled = is_cancelled
        self._throttles = throttles
        self._reserve = reserve
        self.total_bytes = 0
        self.received_bytes = 0

    def check(self) -> None:
        """Raises ``CancelledError`` if the transfer is cancelled."""
        if self._is_cancelled():
            raise CancelledError("The fetch was cancelled: a drop, a stop, or a new ZooKeeper session")

    def begin(self, total_bytes: int) -> None:
        """Records the size before the first byte.

        Raises 243 (NOT_ENOUGH_SPACE) if the disk has no space for it.
        """
        self._reserve(total_bytes)
        self.total_bytes, self.received_bytes = total_bytes, 0

    def count_received(self, size: int) -> None:
        """Counts received bytes and waits for bandwidth. Raises ``CancelledError``."""
        self.check()
        self.received_bytes += size
        for throttle in self._throttles:
            throttle.spend(size, self.check)
