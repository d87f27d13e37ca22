"""The statements running now: seen in ``system.processes``, ended by KILL QUERY, a client's leaving or a limit.

Memory is counted on three levels: a query's tracker under its user's, and that under the server's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.session import QueryStatistics
from parts.errors import CancelledError, PandoError, UserError
from parts.query_status import MemoryTracker, QueryStatus
from sql.settings.session import Settings


@dataclass(eq=False)
class Process:
    query_id: str
    query: str
    user: str
    statistics: QueryStatistics
    started: float
    """Seconds since 1970."""
    refresh: Callable[[], None] = lambda: None
    """Brings ``statistics`` up to date."""
    status: QueryStatus = field(default_factory=QueryStatus)
    """What the code that works for the statement looks at."""
    is_working: bool = True
    """Not so while the client is to take what was made for it."""

    def stop(self, reason: PandoError | None = None) -> None:
        self.status.stop(reason)

    @property
    def is_cancelled(self) -> bool:
        return self.status.is_stopped

    def translate(self, error: PandoError) -> PandoError:
        """A cancellation is told with its reason (a limit)."""
        reason = self.status.reason
        return reason if isinstance(error, CancelledError) and reason is not None else error


class ProcessList:
    """Thread-safe registry of processes. ``monotonic`` measures their time; ``memory`` is the server's."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        memory: MemoryTracker | None = None,
        on_add: Callable[[], None] = lambda: None,
    ) -> None:
        self._monotonic = monotonic
        self.memory = memory if memory is not None else MemoryTracker("total")
        self._on_add = on_add
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._users: dict[str, MemoryTracker] = {}

    def __iter__(self) -> Iterator[Process]:
        with self._lock:
            return iter(list(self._processes.values()))

    def new_status(self, user: str, settings: Settings) -> QueryStatus:
        """The status of a statement of ``user``. As in ClickHouse the user's newest query says the user's limit."""
        with self._lock:
            tracker = self._users.setdefault(user, MemoryTracker("for user", parent=self.memory))
        tracker.limit_bytes = settings.max_memory_usage_for_user
        memory = MemoryTracker("for query", settings.max_memory_usage, parent=tracker)
        return QueryStatus(memory, settings.max_execution_time, self._monotonic)

    def of_users(self) -> list[tuple[MemoryTracker, list[Process]]]:
        """Every user's tracker with the processes it counts."""
        with self._lock:
            users, processes = dict(self._users), list(self._processes.values())
        return [(tracker, [item for item in processes if item.user == name]) for name, tracker in users.items()]

    def add(self, process: Process) -> Callable[[], None]:
        """Registers; returns what ends the registration. Raises 216 when the id is in use."""
        with self._lock:
            if process.query_id in self._processes:
                raise UserError(
                    "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", f"Query with id = {process.query_id} is already running"
                )
            self._processes[process.query_id] = process
        self._on_add()

        def remove() -> None:
            with self._lock:
                if self._processes.get(process.query_id) is process:
                    del self._processes[process.query_id]

        return remove

    def while_idle(self, action: Callable[[], None]) -> None:
        """Carries it out unless a statement runs; one that begins meanwhile waits for its end."""
        with self._lock:
            if not self._processes:
                action()

    def kill(self, query_id: str) -> bool:
        with self._lock:
            process = self._processes.get(query_id)
        if process is None:
            return False
        process.stop()
        return True
