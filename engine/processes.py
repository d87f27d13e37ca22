"""The statements running now: seen in ``system.processes``, ended by KILL QUERY, a client's leaving or a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.session import QueryStatistics
from parts.errors import CancelledError, PandoError, UserError


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
    timed_out_after: float | None = None
    is_cancelled: bool = False

    def stop(self) -> None:
        self.is_cancelled = True
        self.cancel()

    def translate(self, error: PandoError) -> PandoError:
        """A cancellation that a time limit caused is told as such."""
        if isinstance(error, CancelledError) and self.timed_out_after is not None:
            return UserError(
                "TIMEOUT_EXCEEDED", f"Timeout exceeded: the query ran longer than {self.timed_out_after} s"
            )
        return error


class ProcessList:
    """Thread-safe registry of processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}

    def __iter__(self) -> Iterator[Process]:
        with self._lock:
            return iter(list(self._processes.values()))

    def add(self, process: Process, limit_seconds: float = 0.0) -> Callable[[], None]:
        """Registers; returns what ends the registration. Raises 216 when the id is in use."""
        with self._lock:
            if process.query_id in self._processes:
                raise UserError(
                    "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", f"Query with id = {process.query_id} is already running"
                )
            self._processes[process.query_id] = process
        timer = threading.Timer(limit_seconds, self._time_out, (process, limit_seconds)) if limit_seconds > 0 else None
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
    def _time_out(process: Process, limit_seconds: float) -> None:
        process.timed_out_after = limit_seconds
        process.stop()
