"""The statements running now: seen in ``system.processes``, ended by KILL QUERY, a client's leaving or a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.session import QueryStatistics
from parts.errors import CancelledError, PandoError, UserError
from parts.query_status import QueryStatus


@dataclass
class Process:
    query_id: str
    query: str
    user: str
    statistics: QueryStatistics
    started: float = field(default_factory=time.time)
    cancel: Callable[[], None] = lambda: None
    refresh: Callable[[], None] = lambda: None
    """Brings ``statistics`` up to date."""
    status: QueryStatus = field(default_factory=QueryStatus)
    """What the code that works for the statement looks at."""

    def stop(self, reason: PandoError | None = None) -> None:
        self.status.stop(reason)
        self.cancel()

    @property
    def is_cancelled(self) -> bool:
        return self.status.is_stopped

    def translate(self, error: PandoError) -> PandoError:
        """A cancellation is told with its reason (a time limit)."""
        reason = self.status.reason
        return reason if isinstance(error, CancelledError) and reason is not None else error


class ProcessList:
    """Thread-safe registry of processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}

    def __iter__(self) -> Iterator[Process]:
        with self._lock:
            return iter(list(self._processes.values()))

    def add(self, process: Process) -> Callable[[], None]:
        """Registers; returns what ends the registration. Raises 216 when the id is in use."""
        limit_seconds = process.status.max_execution_seconds
        with self._lock:
            if process.query_id in self._processes:
                raise UserError(
                    "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", f"Query with id = {process.query_id} is already running"
                )
            self._processes[process.query_id] = process
        timer = threading.Timer(limit_seconds, self._time_out, (process,)) if limit_seconds > 0 else None
        if timer is not None:
            timer.daemon = True
            timer.start()

        def remove() -> None:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._processes.pop(process.query_id, None)

        return remove

    def kill(self, query_id: str) -> bool:
        with self._lock:
            process = self._processes.get(query_id)
        if process is None:
            return False
        process.stop()
        return True

    @staticmethod
    def _time_out(process: Process) -> None:
        process.stop(process.status.timeout_error())
