"""The block numbers of a table of one server.

They are a counter, and the numbers whose parts are not active yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parts.common.query_status import QueryStatus

_POLL_SECONDS = 0.002


class BlockNumbers:
    """The block numbers of one table. May be called from any thread."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        """``wait`` sleeps for seconds. It raises 236 (ABORTED) if the table is being stopped."""
        self._wait = wait
        self._lock = threading.Lock()
        self._last = 0
        self._pending: set[int] = set()

    def restart_above(self, number: int) -> None:
        """Makes later numbers larger than this one."""
        self._last = number

    @contextmanager
    def allocate(self, count: int) -> Iterator[range]:
        """Allocates numbers of blocks that become active, or are given up, within the block."""
        with self._lock:
            first = self._last + 1
            self._last += count
            numbers = range(first, first + count)
            self._pending.update(numbers)
        try:
            yield numbers
        finally:
            with self._lock:
                self._pending.difference_update(numbers)

    def pending(self) -> list[int]:
        """Returns the numbers of the blocks that are about to commit, in order."""
        with self._lock:
            return sorted(self._pending)

    def first_pending(self) -> int:
        """Returns a number not larger than those of all blocks that are being committed or will come."""
        with self._lock:
            return min(self._pending, default=self._last + 1)

    def wait_for_pending(self, status: QueryStatus) -> None:
        """Waits for INSERTs that have block numbers and are about to commit.

        Later INSERTs get larger numbers than what is dropped, so a reader in the order of blocks can tell them apart.
        """
        pending = set(self.pending())
        while pending:
            status.check()
            self._wait(_POLL_SECONDS)
            pending.intersection_update(self.pending())

    def wait_for_lower(self, number: int, status: QueryStatus) -> None:
        """Waits until no number below this one is about to commit."""
        while self.first_pending() < number:
            status.check()
            self._wait(_POLL_SECONDS)
