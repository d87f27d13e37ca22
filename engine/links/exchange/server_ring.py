"""The order in which the servers of a linked cluster are asked.

A request stays with the server that answered last. A server that failed is asked last for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

_AVOIDED_SECONDS = 10.0


class ServerRing:
    """The servers of one cluster: those of the configuration, and those that answers name. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._configured: tuple[str, ...] = ()
        self._named: tuple[str, ...] = ()
        self._preferred = ""
        self._failed_at: dict[str, float] = {}

    def configure(self, urls: Sequence[str]) -> None:
        """Takes the servers of the configuration."""
        with self._lock:
            self._configured = tuple(urls)

    def learn(self, urls: Sequence[str]) -> None:
        """Takes the servers that an answer names; they speak plain HTTP, so a cluster behind TLS has none."""
        with self._lock:
            if any(url.startswith("http://") for url in self._configured):
                self._named = tuple(urls)

    def order(self) -> list[str]:
        """Returns the servers in the order in which to ask them."""
        with self._lock:
            urls = list(dict.fromkeys((self._preferred, *self._configured, *self._named)))
            now = self._monotonic()
            known = {*self._configured, *self._named}
            return sorted(
                (url for url in urls if url in known),
                key=lambda url: now - self._failed_at.get(url, -_AVOIDED_SECONDS) < _AVOIDED_SECONDS,
            )

    def note_answer(self, url: str) -> None:
        """Records that a server answered."""
        with self._lock:
            self._preferred = url
            self._failed_at.pop(url, None)

    def note_failure(self, url: str) -> None:
        """Records that a server failed."""
        with self._lock:
            self._failed_at[url] = self._monotonic()
