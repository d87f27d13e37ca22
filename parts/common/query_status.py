"""A running query: whether it must stop, and how much memory it uses.

One object is made for each statement and passed to everything that may take long or much memory: compiling, parsing
input, sorting, merging, writing, encoding a result. Such code calls :meth:`QueryStatus.check` between pieces of work of
some milliseconds, and counts its memory with :class:`MemoryTracker`. Work in foreign code that cannot call ``check``
registers a function that ends it with :meth:`QueryStatus.register_interrupt`.

Invariants

- ``stop`` may be called from any thread, any number of times; the first reason stays.
- ``check`` takes no lock, so that it may be called in a tight loop.
- A tracker never counts below zero. Allocated bytes are counted in every parent too.

Source: ClickHouse's ``QueryStatus`` and ``MemoryTracker``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parts.common.errors import CancelledError, PandoError, UserError


class MemoryTracker:
    """Counts the bytes that a query, a user's queries or a whole server hold, up to a limit.

    ``limit_bytes`` 0 is no limit. ``scope`` names the holder in messages: ``for query``, ``for user``, ``total``.
    ``measured_bytes`` is what a measurement of the process found beyond the counted bytes.
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
        """The counted and the measured bytes."""
        return self.used_bytes + self.measured_bytes

    @property
    def is_exceeded(self) -> bool:
        """Whether the total is above the limit."""
        return 0 < self.limit_bytes < self.total_bytes

    def allocate(self, size_bytes: int, purpose: str) -> None:
        """Counts ``size_bytes`` more here and in the parents.

        Raises 241 (MEMORY_LIMIT_EXCEEDED), and then counts nothing.
        """
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
        """Uncounts bytes that :meth:`allocate` counted."""
        with self._lock:
            assert size_bytes <= self.used_bytes, (self.scope, size_bytes, self.used_bytes)
            self.used_bytes -= size_bytes
        if self._parent is not None:
            self._parent.free(size_bytes)

    def check_available(self, size_bytes: int, purpose: str) -> None:
        """Raises 241 if ``size_bytes`` more are not allowed here or in a parent. Counts nothing."""
        tracker: MemoryTracker | None = self
        while tracker is not None:
            if 0 < tracker.limit_bytes < tracker.total_bytes + size_bytes:
                raise tracker.error(tracker.total_bytes + size_bytes, purpose)
            tracker = tracker._parent

    @contextmanager
    def hold(self, size_bytes: int, purpose: str) -> Iterator[None]:
        """Counts the bytes while the block runs. Raises 241 before it is entered."""
        self.allocate(size_bytes, purpose)
        try:
            yield
        finally:
            self.free(size_bytes)

    def measure(self, size_bytes: int) -> None:
        """Sets ``measured_bytes``. Never raises: the caller decides what to do about the limit."""
        with self._lock:
            self.measured_bytes = size_bytes
            self.peak_bytes = max(self.peak_bytes, self.total_bytes)

    def error(self, wanted_bytes: int, purpose: str = "the query") -> UserError:
        """Returns the error 241 (MEMORY_LIMIT_EXCEEDED)."""
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
    """Observer of a query, for a process that enforces its limits from outside.

    Methods are quick and may be called from any thread. This class ignores everything.
    """

    def record_work(self) -> None:
        """The query computes from now on."""

    def record_wait(self) -> None:
        """The query waits for its client or another process; this cannot be interrupted."""

    def record_handover(self) -> None:
        """The receiver has a piece of the result. Code that serves a connection reports its waits instead."""

    def record_end_request(self, reason: PandoError) -> None:
        """A limit or KILL QUERY ends the query. The first reason counts."""

    def record_memory(self, size_bytes: int) -> None:
        """The query holds this much counted memory."""

    def record_connection(self, connection: int) -> None:
        """The query serves the request of that connection."""


class QueryStatus:
    """One running statement. A time limit (0: none) needs a ``clock`` of seconds."""

    def __init__(
        self,
        memory: MemoryTracker | None = None,
        max_execution_seconds: float = 0.0,
        clock: Callable[[], float] = _no_clock,
        began: float = 0.0,
    ) -> None:
        """Starts the time limit at ``began``, by the clock; 0: now."""
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
        """Whether the query must end."""
        return self.reason is not None

    def stop(self, reason: PandoError | None = None) -> None:
        """Makes the next :meth:`check` raise ``reason``, by default 394 (QUERY_WAS_CANCELLED)."""
        if self.reason is None:
            self.reason = reason if reason is not None else CancelledError()
        if reason is not None:
            self.witness.record_end_request(reason)
        self.interrupt()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Marks a block that waits for the client or another process."""
        self.witness.record_wait()
        try:
            yield
        finally:
            self.witness.record_work()

    def interrupt(self) -> None:
        """Calls the functions of :meth:`register_interrupt`. Repeatable, in case one had no effect."""
        with self._lock:
            interrupts = list(self._interrupts)
        for end in interrupts:
            end()

    def register_interrupt(self, end: Callable[[], None]) -> Callable[[], None]:
        """Registers ``end``, which is called when the query must stop. Returns a function that unregisters it.

        ``end`` may be called from any thread, and several times. If the query is stopped already it is called at once.
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

    def check_deadline(self) -> None:
        """Stops the query if its time is over."""
        if self.reason is None and self._deadline is not None and self._clock() >= self._deadline:
            self.stop(self.timeout_error())

    def check(self) -> None:
        """Raises 394 if the query was cancelled, 159 (TIMEOUT_EXCEEDED) if its time is over."""
        self.check_deadline()
        if self.reason is not None:
            raise self.reason

    def timeout_error(self) -> UserError:
        """Returns the error 159 (TIMEOUT_EXCEEDED)."""
        return UserError(
            "TIMEOUT_EXCEEDED",
            f"Timeout exceeded: the query ran longer than max_execution_time = {self.max_execution_seconds:g} seconds",
        )
