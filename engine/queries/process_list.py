"""The list of running statements, shown in ``system.processes``, and how they are stopped.

Memory is counted on three levels: a query's tracker is below its user's, which is below the server's.

Invariants, which hold whenever the lock is free

- An id is in ``_processes`` exactly while this process has claimed it from the server's other processes.
- The number of statements that other processes see is that of ``_processes``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.queries.other_processes import OtherProcesses
from engine.queries.session import QueryStatistics
from parts.common.errors import CancelledError, PandoError, UserError
from parts.common.query_status import MemoryTracker, QueryStatus
from sql.settings.supported_settings import (
    Settings,
)

_COUNTS = ("rows_read", "bytes_read", "written_rows", "written_bytes", "result_rows", "deduplicated_blocks")


@dataclass(eq=False)
class Process:
    """A running statement."""

    query_id: str
    query: str
    user: str
    statistics: QueryStatistics
    started: float
    """Seconds since 1970."""
    refresh_statistics: Callable[[], None] = lambda: None
    """Brings ``statistics`` up to date."""
    status: QueryStatus = field(default_factory=QueryStatus)
    """Cancellation, time and memory, checked by all code that works for the statement."""
    check_limits: Callable[[], None] = lambda: None
    """Called many times a second; may stop the statement."""
    is_working: bool = True
    """False while the statement waits for the client to take its rows."""
    database: str = ""
    """The current database of its session."""

    def stop(self, reason: PandoError | None = None) -> None:
        """Stops the statement with the error ``reason``, or as cancelled."""
        self.status.stop(reason)

    def facts(self) -> dict[str, Any]:
        """Returns the fields that :class:`OtherProcess` shows in another process."""
        return {
            "process": (self.query_id, self.query, self.user, self.started, self.is_cancelled, self.database),
            "memory": (self.status.memory.total_bytes, self.status.memory.peak_bytes),
            "counts": {name: getattr(self.statistics, name) for name in _COUNTS},
        }

    @property
    def is_cancelled(self) -> bool:
        """Whether the statement was stopped."""
        return self.status.is_stopped

    def explain_cancellation(self, error: PandoError) -> PandoError:
        """Returns the reason of the stop (such as a limit) in place of a plain cancellation."""
        reason = self.status.reason
        return reason if isinstance(error, CancelledError) and reason is not None else error


class OtherProcess(Process):
    """A statement of another process of this server; ``kill`` ends it there."""

    def __init__(self, facts: Mapping[str, Any], kill: Callable[[str], object]) -> None:
        query_id, query, user, started, is_cancelled, database = facts["process"]
        statistics = QueryStatistics(**facts["counts"])
        super().__init__(query_id, query, user, statistics, started, database=database)
        self._kill = kill
        memory = self.status.memory
        memory.used_bytes, memory.peak_bytes = facts["memory"]
        if is_cancelled:
            self.status.stop()

    def stop(self, reason: PandoError | None = None) -> None:
        """Kills the statement in its process."""
        self._kill(self.query_id)


class ProcessList:
    """A thread-safe registry of processes. ``monotonic`` measures their time; ``memory`` is the server's."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        memory: MemoryTracker | None = None,
        on_add: Callable[[], None] = lambda: None,
        other_processes: OtherProcesses | None = None,
    ) -> None:
        self._monotonic = monotonic
        self.memory = memory if memory is not None else MemoryTracker("total")
        self._on_add = on_add
        self.other_processes = other_processes or OtherProcesses()
        # Reentrant: the garbage collector may end an unclosed statement in a thread that holds this lock.
        self._lock = threading.RLock()
        self._processes: dict[str, Process] = {}
        self._users: dict[str, MemoryTracker] = {}

    def __iter__(self) -> Iterator[Process]:
        with self._lock:
            return iter(list(self._processes.values()))

    def new_status(self, user: str, settings: Settings, began: float = 0.0) -> QueryStatus:
        """Returns the status of a statement that began at ``began`` (0: now).

        As in ClickHouse, a user's newest query sets the user's memory limit.
        """
        with self._lock:
            tracker = self._users.setdefault(user, MemoryTracker("for user", parent=self.memory))
        tracker.limit_bytes = settings.max_memory_usage_for_user
        memory = MemoryTracker("for query", settings.max_memory_usage, parent=tracker)
        return QueryStatus(memory, settings.max_execution_time, self._monotonic, began)

    def group_by_user(self) -> list[tuple[str, MemoryTracker, list[Process]]]:
        """Returns every user with the user's memory tracker and processes."""
        with self._lock:
            users, processes = dict(self._users), list(self._processes.values())
        return [(name, tracker, [item for item in processes if item.user == name]) for name, tracker in users.items()]

    def add(self, process: Process) -> Callable[[], None]:
        """Registers a process; returns the function that removes it.

        Raises 216 (QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING).
        """
        with self._lock:
            if process.query_id in self._processes:
                raise _already_running(process.query_id)
            if not self.other_processes.claim_query_id(process.query_id, process.status):
                raise _already_running(process.query_id)
            self._processes[process.query_id] = process
            self.other_processes.publish_query_count(len(self._processes))
        self._on_add()

        def remove() -> None:
            with self._lock:
                if self._processes.get(process.query_id) is process:
                    del self._processes[process.query_id]
                    self.other_processes.release_query_id(process.query_id)
                    self.other_processes.publish_query_count(len(self._processes))

        return remove

    def is_free(self, query_id: str) -> bool:
        """Returns whether no statement with this id runs, in any process of the server."""
        with self._lock:
            if query_id in self._processes or not self.other_processes.claim_query_id(query_id):
                return False
            self.other_processes.release_query_id(query_id)
        return True

    def run_if_idle(self, action: Callable[[], None]) -> None:
        """Runs the action unless a statement runs; a statement that begins meanwhile waits for it."""
        with self._lock:
            if not self._processes:
                action()

    def kill(self, query_id: str) -> bool:
        """Cancels the query with this id; returns whether it runs in this process."""
        with self._lock:
            process = self._processes.get(query_id)
        if process is None:
            return False
        process.stop(CancelledError())
        return True


def _already_running(query_id: str) -> UserError:
    return UserError("QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", f"Query with id = {query_id} is already running")
