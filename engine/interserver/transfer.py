"""What is brought from another replica, or sent to one: how much of it, how fast, and when to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from parts.common.errors import CancelledError

_SLICE_SECONDS = 0.25


class Throttle:
    """So many bytes a second, of all who spend here together; 0 for any number. From any thread."""

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
        """Returns when that much may have passed. ``check`` raises what ends the wait."""
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
    """One answer of another replica on its way."""

    def __init__(
        self,
        is_cancelled: Callable[[], bool] = lambda: False,
        throttles: Sequence[Throttle] = (),
        reserve: Callable[[int], object] = lambda size: None,
    ) -> None:
        """``reserve`` takes room for so many bytes before they come, or raises."""
        self._is_cancelled = is_cancelled
        self._throttles = throttles
        self._reserve = reserve
        self.total_bytes = 0
        self.received_bytes = 0

    def check(self) -> None:
        """Raises ``CancelledError``."""
        if self._is_cancelled():
            raise CancelledError("The fetch was cancelled: a drop, a stop, or a new ZooKeeper session")

    def begin(self, total_bytes: int) -> None:
        """Before the first byte. Raises 243 (NOT_ENOUGH_SPACE) where there is no room for all."""
        self._reserve(total_bytes)
        self.total_bytes, self.received_bytes = total_bytes, 0

    def received(self, size: int) -> None:
        self.check()
        self.received_bytes += size
        for throttle in self._throttles:
            throttle.spend(size, self.check)
