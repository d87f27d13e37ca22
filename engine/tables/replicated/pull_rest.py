"""A rest of the log pull, in which a replica's parts can be seen as of a place in the log.

Background work that pulls waits meanwhile. A statement that must know the whole log, such as a drop, pulls
nevertheless; the one who rests learns that, and begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REST_PAUSE_SECONDS = 0.1
"""The pause after which background work looks again whether the rest is over."""


class PullRest:
    """The rest of one replica's pull. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting = 0
        self._pulls = 0

    @property
    def is_resting(self) -> bool:
        """Whether background work should leave the log alone."""
        return self._resting > 0

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
            since = self._pulls
        try:
            yield lambda: self._pulls != since
        finally:
            with self._lock:
                self._resting -= 1
