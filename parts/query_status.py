"""A running query as the code that works for it sees it: may it go on, and may it take more memory.

One object is made for each statement and handed down to whatever may take long or grow: compiling, parsing input,
sorting, merging, writing, encoding a result. Such code calls :meth:`QueryStatus.check` between pieces of work of some
milliseconds, and accounts what it holds with :class:`MemoryTracker`.

Invariants
- ``stop`` may be called from any thread, any number of times; the first reason stays.
- ``check`` takes no lock, so that it may stand in a tight loop.
- A tracker never counts below zero, and what was allocated is in every tracker above it too.

Source: ClickHouse's ``QueryStatus`` and ``MemoryTracker``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parts.errors import CancelledError, PandoError, UserError


class MemoryTracker:
    """Counts the bytes that a query, a user's queries or a whole server hold; refuses what passes its limit.

    ``limit_bytes`` 0 is no limit. ``scope`` names the holder in the message: ``for query``, ``for user``, ``total``.
    """

    def __init__(self, scope: str, limit_bytes: int = 0, parent: MemoryTracker | None = None) -> None:
        self.scope = scope
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self._parent = parent
        self._lock = threading.Lock()

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Counts ``size_bytes`` more here and above. Raises 241 (MEMORY_LIMIT_EXCEEDED), and then counts nothing."""
        if self._parent is not None:
            self._parent.allocate(size_bytes, purpose)
        with self._lock:
            wanted = self.used_bytes + size_bytes
            is_too_much = 0 < self.limit_bytes < wanted
            if not is_too_much:
                self.used_bytes = wanted
                self.peak_bytes = max(self.peak_bytes, wanted)
        if is_too_much:
            if self._parent is not None:
                self._parent.free(size_bytes)
            raise UserError(
                "MEMORY_LIMIT_EXCEEDED",
                f"Memory limit ({self.scope}) exceeded: {purpose} would use {wanted} bytes, "
                f"the maximum is {self.limit_bytes} bytes",
            )

    def free(self, size_bytes: int) -> None:
        """Gives back what :meth:`allocate` counted."""
        with self._lock:
            assert size_bytes <= self.used_bytes, (self.scope, size_bytes, self.used_bytes)
            self.used_bytes -= size_bytes
        if self._parent is not None:
            self._parent.free(size_bytes)

    @contextmanager
    def holding(self, size_bytes: int, purpose: str) -> Iterator[None]:
        """Accounts for as long as the block runs. Raises 241 before it is entered."""
        self.allocate(size_bytes, purpose)
        try:
            yield
        finally:
            self.free(size_bytes)


class QueryStatus:
    """One running statement. ``deadline`` is in seconds of ``clock``; ``None`` is none."""

    def __init__(
        self,
        memory: MemoryTracker | None = None,
        max_execution_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.memory = memory if memory is not None else MemoryTracker("for query")
        self.max_execution_seconds = max_execution_seconds
        self._clock = clock
        self._deadline = clock() + max_execution_seconds if max_execution_seconds > 0 else None
        self.reason: PandoError | None = None
        """Why the query must end; ``None`` while it may go on."""

    @property
    def is_stopped(self) -> bool:
        return self.reason is not None

    def stop(self, reason: PandoError | None = None) -> None:
        """The next :meth:`check` raises ``reason``: by default 394 (QUERY_WAS_CANCELLED)."""
        if self.reason is None:
            self.reason = reason if reason is not None else CancelledError()

    def check(self) -> None:
        """Raises 394 when the query was cancelled, 159 (TIMEOUT_EXCEEDED) when its time is over."""
        if self.reason is None and self._deadline is not None and self._clock() >= self._deadline:
            self.stop(self.timeout_error())
        if self.reason is not None:
            raise self.reason

    def timeout_error(self) -> UserError:
        return UserError(
            "TIMEOUT_EXCEEDED",
            f"Timeout exceeded: the query ran longer than max_execution_time = {self.max_execution_seconds:g} seconds",
        )
