"""One thread that looks at all running statements many times a second: whose time is over, who takes too much memory.

Time: a statement past its ``max_execution_time`` is stopped, and one that was stopped is interrupted again at every
look, because an interrupt that comes before its query has begun is lost.

Memory: what the statements account themselves is exact. What foreign code takes for them (DuckDB's vectors and hash
tables, Arrow, Python) is measured as the growth of the process since it was idle, and shared out: growth between two
looks belongs in equal parts to the statements that worked then. With one statement at work the measure is exact; with
several it is fair, not exact. A statement over its own limit is stopped; over a user's or the server's limit the one
that holds most is. DuckDB's own limit follows the statements that run: it may hold three quarters of the sum of their
limits, and beyond that writes to its spill directory what can be written there.

Invariants
- The sum of ``measured_bytes`` of all statements is the process's growth less what they accounted.
- When the last statement is gone, memory that a big one left with the allocators is given back to the system: at once
  when it is much, else after a second in which nothing ran (the next statement would only ask for it again).
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
"""DuckDB's limit until the watchdog has looked at a query for the first time."""
_WORTH_RELEASING_BYTES = 32 << 20
_RELEASED_AT_ONCE_BYTES = 512 << 20
_SMALL_SHARE = 100
"""Stopping a statement that holds less than so small a share of the server's limit would not bring it below."""
_QUIET_SECONDS = 1.0
_RELEASES = 2
"""Some memory is let go only later: by threads that end, by destructors."""
_LOOKS_BEFORE_LOWERING = 3


class Watchdog:
    """``run_once`` is one look. ``wake`` (from any thread) says that there is something to look at."""

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
        self._limit_duckdb([])
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_ending = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """A statement begins. What the process still holds of those before is not the growth of one that is alone."""
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
                    is_busy = self.run_once()
            except Exception:
                logger.exception("the watchdog's look at the running statements failed")
                self._wake.set()

    # -- one look -------------------------------------------------------------------------------------------------

    def run_once(self) -> bool:
        """Whether there is something to look at again."""
        running = list(self._processes)
        for process in running:
            process.look()
            process.status.check_deadline()
            if process.is_cancelled:
                process.status.interrupt()
        growth = self._measure(running)
        self._stop_hogs(running)
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
            process.status.witness.holds(process.status.memory.total_bytes)
        elsewhere, by_user = self._processes.elsewhere, {}
        for name, tracker, processes in self._processes.group_by_user():
            here = sum(process.status.memory.measured_bytes for process in processes)
            by_user[name] = here + tracker.used_bytes
            tracker.measure(here + elsewhere.user_bytes(name))
        largest = max((process.status.memory.total_bytes for process in running), default=0)
        elsewhere.set_bytes(self._idle_bytes + growth + accounted, largest, by_user)
        self._processes.memory.measure(self._idle_bytes + growth + elsewhere.held_bytes())
        self._peak_growth_bytes = max(self._peak_growth_bytes, growth + accounted)
        return growth

    def _stop_hogs(self, running: Sequence[Process]) -> None:
        for process in running:
            _stop_if_exceeded(process.status.memory, [process])
        if not self._processes.elsewhere.has_largest():
            return  # what other processes do about it comes first
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
        """Raised at once; lowered only for queries that have run for some looks, because that takes time too."""
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
        """Nothing runs: the process is as big as it is when idle."""
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
        self._processes.elsewhere.set_idle_bytes(size_bytes)


def attribute_measured_bytes(growth: int, running: Sequence[Process]) -> None:
    """Sets the measured bytes of the statements so that their sum is ``growth``."""
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
