"""A thread that stops statements which exceed their time or memory limits, many times a second.

Time: a statement past its ``max_execution_time`` is stopped. A stopped statement is interrupted again at every check,
because an interrupt before its query has begun is lost.

Memory: what statements account themselves is exact. What foreign code takes for them (DuckDB's vectors and hash tables,
Arrow, Python) is measured as the growth of the process since it was idle, and divided: growth between two checks
belongs in equal parts to the statements that worked then. With one working statement the measure is exact; with several
it is fair, not exact. A statement over its own limit is stopped; over a user's or the server's limit the statement that
holds most is stopped. DuckDB's own limit follows the running statements: it may hold three quarters of the sum of their
limits, and spills to disk beyond that.

Invariants

- The sum of ``measured_bytes`` of all statements is the process's growth minus what they accounted.
- After the last statement, memory that a big one left with the allocators is returned to the system: at once if it is
  much, else after a second without statements (the next one would only allocate it again).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from engine.queries.process_list import Process, ProcessList
from parts.common.process_memory import get_available_bytes, get_held_bytes, release_memory
from parts.common.query_status import MemoryTracker
from sql.run.duckdb import database

logger = logging.getLogger(__name__)

CHECK_INTERVAL_SECONDS = 0.02
_DUCKDB_SHARE = 0.75
_IDLE_BYTES = 1 << 30
"""DuckDB's limit until the first check of a query."""
_WORTH_RELEASING_BYTES = 32 << 20
_RELEASED_AT_ONCE_BYTES = 512 << 20
_SMALL_SHARE = 100
"""A statement below one hundredth of the server's limit is not stopped for it: that would not help."""
_QUIET_SECONDS = 1.0
_RELEASES = 2
"""Memory is released twice, because ending threads and destructors free some of it late."""
_LOOKS_BEFORE_LOWERING = 3


class Watchdog:
    """The watchdog of one process. ``check_once`` is one check; ``wake`` starts checking. Thread-safe."""

    def __init__(
        self,
        processes: ProcessList,
        held: Callable[[], int] = get_held_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes = processes
        self._held = held
        self._clock = clock
        self._next_release = 0.0
        self._idle_bytes = held()
        self._peak_growth_bytes = 0
        self._duckdb_limit_bytes = 0
        self._looks_above = 0
        self._releases_due = 0
        self._wake = threading.Event()
        self._is_ending = False
        self._thread: threading.Thread | None = None

    # -- the thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread."""
        self._limit_duckdb([])
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._is_ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Starts checking because a statement begins.

        Memory still held for former statements does not count as the growth of one that runs alone.
        """
        if sum(1 for _ in self._processes) == 1:
            self._set_idle(self._held())
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._is_ending:
            is_busy = self._wake.wait(_QUIET_SECONDS if self._releases_due else None)
            try:
                if is_busy:
                    self._wake.clear()
                else:
                    self._release()
                while is_busy and not self._is_ending:
                    pause.wait(CHECK_INTERVAL_SECONDS)
                    is_busy = self.check_once()
            except Exception:
                logger.exception("the watchdog's look at the running statements failed")
                self._wake.set()

    # -- one look -------------------------------------------------------------------------------------------------

    def check_once(self) -> bool:
        """Checks all statements once; returns whether any is running."""
        running = list(self._processes)
        for process in running:
            process.check_limits()
            process.status.check_deadline()
            if process.is_cancelled:
                process.status.interrupt()
        growth = self._measure(running)
        self._stop_exceeding(running)
        self._limit_duckdb(running)
        if not running:
            self._settle(growth)
        return bool(running)

    def _measure(self, running: Sequence[Process]) -> int:
        accounted = sum(process.status.memory.used_bytes for process in running)
        growth = self._held() - self._idle_bytes - accounted
        if growth < 0:  # the process shrank since it was idle
            self._set_idle(self._idle_bytes + growth)
            growth = 0
        attribute_measured_bytes(growth, running)
        for process in running:
            process.status.witness.record_memory(process.status.memory.total_bytes)
        other_processes, by_user = self._processes.other_processes, {}
        for name, tracker, processes in self._processes.group_by_user():
            here = sum(process.status.memory.measured_bytes for process in processes)
            by_user[name] = here + tracker.used_bytes
            tracker.measure(here + other_processes.read_user_bytes(name))
        largest = max((process.status.memory.total_bytes for process in running), default=0)
        other_processes.publish_statement_bytes(self._idle_bytes + growth + accounted, largest, by_user)
        self._processes.memory.measure(self._idle_bytes + growth + other_processes.read_held_bytes())
        self._peak_growth_bytes = max(self._peak_growth_bytes, growth + accounted)
        return growth

    def _stop_exceeding(self, running: Sequence[Process]) -> None:
        for process in running:
            _stop_if_exceeded(process.status.memory, [process])
        if not self._processes.other_processes.has_largest():
            return  # the process with the largest statement acts first
        for _, tracker, processes in self._processes.group_by_user():
            _stop_if_exceeded(tracker, processes)
        memory = self._processes.memory
        largest = max((process.status.memory.total_bytes for process in running), default=0)
        if largest * _SMALL_SHARE >= memory.limit_bytes:
            _stop_if_exceeded(memory, running)
        elif memory.is_exceeded and self._clock() >= self._next_release:
            self._next_release = self._clock() + _QUIET_SECONDS
            release_memory()

    def _limit_duckdb(self, running: Sequence[Process]) -> None:
        """Sets DuckDB's limit: raises it at once, lowers it only after some checks, which takes time too."""
        if not running and self._duckdb_limit_bytes:
            return
        most = self._processes.memory.limit_bytes or get_available_bytes()
        limits = [process.status.memory.limit_bytes or most for process in running]
        wanted = int(min(sum(limits) or _IDLE_BYTES, most) * _DUCKDB_SHARE)
        self._looks_above = self._looks_above + 1 if wanted < self._duckdb_limit_bytes else 0
        is_due = wanted > self._duckdb_limit_bytes or self._looks_above >= _LOOKS_BEFORE_LOWERING
        if is_due and database.set_memory_limit(wanted):
            self._duckdb_limit_bytes = wanted
            self._looks_above = 0

    def _settle(self, growth: int) -> None:
        """Records the process's idle size after the last statement, and releases memory."""
        growth = max(self._peak_growth_bytes, growth)
        self._peak_growth_bytes = 0
        if growth > _WORTH_RELEASING_BYTES:
            self._releases_due = _RELEASES
        if growth > _RELEASED_AT_ONCE_BYTES:
            self._release()
        elif not any(self._processes):
            self._set_idle(self._held())

    def _release(self) -> None:
        self._releases_due -= 1
        self._processes.run_if_idle(lambda: database.release_memory(self._duckdb_limit_bytes))
        release_memory()
        if not any(self._processes):
            self._set_idle(self._held())

    def _set_idle(self, size_bytes: int) -> None:
        self._idle_bytes = size_bytes
        self._processes.other_processes.publish_idle_bytes(size_bytes)


def attribute_measured_bytes(growth: int, running: Sequence[Process]) -> None:
    """Divides ``growth`` bytes among the statements as their measured bytes."""
    if not running:
        return
    before = sum(process.status.memory.measured_bytes for process in running)
    if growth < before:
        for process in running:
            process.status.memory.measure(process.status.memory.measured_bytes * growth // before)
        return
    working = [process for process in running if process.is_working] or running
    for process in working:
        process.status.memory.measure(process.status.memory.measured_bytes + (growth - before) // len(working))


def _stop_if_exceeded(tracker: MemoryTracker, processes: Sequence[Process]) -> None:
    """Stops the statement that holds most, unless one is ending already."""
    if not tracker.is_exceeded or not processes or any(process.is_cancelled for process in processes):
        return
    hog = max(processes, key=lambda process: process.status.memory.total_bytes)
    error = tracker.error(tracker.total_bytes)
    logger.warning("query %s is stopped: %s", hog.query_id, error)
    hog.stop(error)
