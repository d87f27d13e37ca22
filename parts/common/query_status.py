"""A running query as the code that works for it sees it: may it go on, and may it take more memory.

One object is made for each statement and handed down to whatever may take long or grow: compiling, parsing input,
sorting, merging, writing, encoding a result. Such code calls :meth:`QueryStatus.check` between pieces of work of some
milliseconds, and accounts what it holds with :class:`MemoryTracker`. Work in foreign code that cannot call ``check``
registers with :meth:`QueryStatus.interrupting` what ends it.

Invariants
- ``stop`` may be called from any thread, any number of times; the first reason stays.
- ``check`` takes no lock, so that it may stand in a tight loop.
- A tracker never counts below zero, and what was allocated is in every tracker above it too.

Source: ClickHouse's ``QueryStatus`` and ``MemoryTracker``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parts.common.errors import CancelledError, PandoError, UserError


class MemoryTracker:
    """Counts the bytes that a query, a user's queries or a whole server hold; refuses what passes its limit.

    ``limit_bytes`` 0 is no limit. ``scope`` names the holder in the message: ``for query``, ``for user``, ``total``.
    ``measured_bytes`` is what the holder takes beside what it accounted, as somebody who measures the process sees it.
    """

    def __init__(self, scope: str, limit_bytes: int = 0, parent: MemoryTracker | None = None) -> None:
        self.scope = scope
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.measured_bytes = 0
        self.peak_bytes = 0
        self._parent = parent
        self._lock = threading.Lock()

    @property
    def total_bytes(self) -> int:
        return self.used_bytes + self.measured_bytes

    @property
    def is_exceeded(self) -> bool:
        return 0 < self.limit_bytes < self.total_bytes

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Counts ``size_bytes`` more here and above. Raises 241 (MEMORY_LIMIT_EXCEEDED), and then counts nothing."""
        if self._parent is not None:
            self._parent.allocate(size_bytes, purpose)
        with self._lock:
            wanted = self.total_bytes + size_bytes
            is_too_much = 0 < self.limit_bytes < wanted
            if not is_too_much:
                self.used_bytes += size_bytes
                self.peak_bytes = max(self.peak_bytes, wanted)
        if is_too_much:
            if self._parent is not None:
                self._parent.free(size_bytes)
            raise self.error(wanted, purpose)

    def free(self, size_bytes: int) -> None:
        """Gives back what :meth:`allocate` counted."""
        with self._lock:
            assert size_bytes <= self.used_bytes, (self.scope, size_bytes, self.used_bytes)
            self.used_bytes -= size_bytes
        if self._parent is not None:
            self._parent.free(size_bytes)

    def check_available(self, size_bytes: int, purpose: str) -> None:
        """Raises 241 if so many bytes more are not allowed here or above; counts nothing."""
        tracker: MemoryTracker | None = self
        while tracker is not None:
            if 0 < tracker.limit_bytes < tracker.total_bytes + size_bytes:
                raise tracker.error(tracker.total_bytes + size_bytes, purpose)
            tracker = tracker._parent

    @contextmanager
    def hold(self, size_bytes: int, purpose: str) -> Iterator[None]:
        """Accounts for as long as the block runs. Raises 241 before it is entered."""
        self.allocate(size_bytes, purpose)
        try:
            yield
        finally:
            self.free(size_bytes)

    def measure(self, size_bytes: int) -> None:
        """Sets ``measured_bytes``. Raises nothing: who measures decides what follows."""
        with self._lock:
            self.measured_bytes = size_bytes
            self.peak_bytes = max(self.peak_bytes, self.total_bytes)

    def error(self, wanted_bytes: int, purpose: str = "the query") -> UserError:
        setting = {"for query": "max_memory_usage", "for user": "max_memory_usage_for_user"}.get(
            self.scope, "max_server_memory_usage"
        )
        return UserError(
            "MEMORY_LIMIT_EXCEEDED",
            f"Memory limit ({self.scope}) exceeded: {purpose} would use {wanted_bytes} bytes, "
            f"the maximum is {self.limit_bytes} bytes ({setting})",
        )


def _no_clock() -> float:
    raise AssertionError("a limit of time needs a clock")


class Witness:
    """Is told what whoever guards the limits from outside must know of a query. Quick; from any thread."""

    def works(self) -> None:
        """From now on the query computes."""

    def waits(self) -> None:
        """It waits for its client or for another process: its time passes, but nothing can be done about that."""

    def hands_over(self) -> None:
        """A piece of its result is with whoever asked for it. Who serves a connection tells its own waits instead."""

    def must_end(self, reason: PandoError) -> None:
        """A limit or KILL QUERY ends it. The first reason counts."""

    def holds(self, size_bytes: int) -> None:
        """So much memory is counted as its."""

    def serves(self, connection: int) -> None:
        """It is the query of that connection's request."""


class QueryStatus:
    """One running statement. A limit of time, 0 for none, needs a ``clock`` of seconds."""

    def __init__(
        self,
        memory: MemoryTracker | None = None,
        max_execution_seconds: float = 0.0,
        clock: Callable[[], float] = _no_clock,
        began: float = 0.0,
    ) -> None:
        """``began`` is when its time began, by the clock; 0: now."""
        self.memory = memory if memory is not None else MemoryTracker("for query")
        self.max_execution_seconds = max_execution_seconds
        self._clock = clock
        self.began = began or (clock() if max_execution_seconds > 0 else 0.0)
        self._deadline = self.began + max_execution_seconds if max_execution_seconds > 0 else None
        self._interrupts: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.reason: PandoError | None = None
        """Why the query must end; ``None`` while it may go on."""
        self.witness = Witness()

    @property
    def is_stopped(self) -> bool:
        return self.reason is not None

    def stop(self, reason: PandoError | None = None) -> None:
        """The next :meth:`check` raises ``reason``: by default 394 (QUERY_WAS_CANCELLED)."""
        if self.reason is None:
            self.reason = reason if reason is not None else CancelledError()
        if reason is not None:
            self.witness.must_end(reason)
        self.interrupt()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For a block that waits for the client or for another process."""
        self.witness.waits()
        try:
            yield
        finally:
            self.witness.works()

    def interrupt(self) -> None:
        """Ends what was registered with :meth:`register_interrupt`; again for what overheard it the first time."""
        with self._lock:
            interrupts = list(self._interrupts)
        for end in interrupts:
            end()

    def register_interrupt(self, end: Callable[[], None]) -> Callable[[], None]:
        """Calls ``end`` (from any thread, perhaps several times) when the query must stop; returns what takes it back.

        A query that is stopped already calls it at once.
        """
        with self._lock:
            self._interrupts.append(end)
        if self.is_stopped:
            end()

        def forget() -> None:
            with self._lock:
                if end in self._interrupts:
                    self._interrupts.remove(end)

        return forget

    def expire(self) -> None:
        """Stops the query when its time is over."""
        if self.reason is None and self._deadline is not None and self._clock() >= self._deadline:
            self.stop(self.timeout_error())

    def check(self) -> None:
        """Raises 394 when the query was cancelled, 159 (TIMEOUT_EXCEEDED) when its time is over."""
        self.expire()
        if self.reason is not None:
            raise self.reason

    def timeout_error(self) -> UserError:
        return UserError(
            "TIMEOUT_EXCEEDED",
            f"Timeout exceeded: the query ran longer than max_execution_time = {self.max_execution_seconds:g} seconds",
        )
