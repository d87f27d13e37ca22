"""A rest of the log pull, in which a replica's parts can be seen as of a place in the log.

Background work that pulls waits meanwhile. A statement that must know the whole log, such as a drop, waits a little and
then pulls nevertheless; the one who rests learns that, and begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REST_PAUSE_SECONDS = 0.1
"""The pause after which background work looks again whether the rest is over."""
_PATIENCE_SECONDS = 1.0
"""How long a statement waits for the end of a rest before it ends it."""


class PullRest:
    """The rest of one replica's pull. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting = 0
        self._pulls = 0
        self._is_over = threading.Event()
        self._is_over.set()

    @property
    def is_resting(self) -> bool:
        """Whether background work should leave the log alone."""
        return self._resting > 0

    def wait_a_little(self, wait: Callable[[threading.Event, float], object]) -> None:
        """Waits for the end of a rest, not too long."""
        if self._resting:
            wait(self._is_over, _PATIENCE_SECONDS)

    def note_pull(self) -> None:
        """Notes that the log is about to be pulled."""
        with self._lock:
            self._pulls += 1

    @contextmanager
    def hold(self) -> Iterator[Callable[[], bool]]:
        """Lets the pull rest while the block runs.

        The yielded function tells whether somebody pulled nevertheless.
        """
        with self._lock:
            self._resting += 1
            self._is_over.clear()
            since = self._pulls
        try:
            yield lambda: self._pulls != since
        finally:
            with self._lock:
                self._resting -= 1
                if not self._resting:
                    self._is_over.set()
