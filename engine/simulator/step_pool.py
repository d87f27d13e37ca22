"""What stands in for a server's threads and for its end: tasks run when somebody steps them, a crash is raised."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence

from engine.server.background_pool import BackgroundTask

logger = logging.getLogger(__name__)

_MOST_ROUNDS = 10_000


class Crash(BaseException):
    """The node's process is gone."""


class StepPool:
    """Stands in for ``BackgroundPool``: holds tasks and when each is due, runs none by itself."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.tasks: list[BackgroundTask] = []
        self._monotonic = monotonic
        self._due: dict[BackgroundTask, float] = {}
        self.running: set[BackgroundTask] = set()
        """Those that are being stepped."""

    def add(self, task: BackgroundTask, delay_seconds: float = 0.0) -> BackgroundTask:
        task.pool = self  # type: ignore[assignment]
        self.tasks.append(task)
        self.wake(task, delay_seconds)
        return task

    def wake(self, task: BackgroundTask, delay_seconds: float = 0.0) -> None:
        """Never puts off what is due earlier."""
        if task in self.tasks:
            self._due[task] = min(self._due.get(task, math.inf), self._monotonic() + delay_seconds)

    def wake_one(self, tasks: Sequence[BackgroundTask]) -> None:
        free = [task for task in tasks if task not in self.running]
        for task in free[:1] or tasks:
            self.wake(task)

    def due(self) -> list[BackgroundTask]:
        """The tasks that threads would run now."""
        now = self._monotonic()
        return [task for task in self.tasks if self._due[task] <= now and task not in self.running]

    def each_due(self) -> Iterator[BackgroundTask]:
        """Those, each time one is due, until none is."""
        for _ in range(_MOST_ROUNDS):
            if not (due := self.due()):
                return
            yield from due
        raise AssertionError(f"these never rest: {[task.name for task in due]}")

    def run(self, task: BackgroundTask) -> None:
        """One step, unless the task is being stepped further up. A task that fails is due at once."""
        if task in self.running:
            return
        self.running.add(task)
        self._due[task] = math.inf
        delay = 0.0
        try:
            delay = task.run_once()
        except OSError:  # as a pool of threads does
            logger.info("task %s failed", task.name, exc_info=True)
        finally:
            self.running.discard(task)
            self.wake(task, delay)

    def remove(self, task: BackgroundTask, timeout_seconds: float = 0.0) -> None:
        if task in self.tasks:
            self.tasks.remove(task)

    def ran(self, task: BackgroundTask, pause_seconds: float) -> None:
        """The task has had a turn, and wants the next after a pause."""

    def stop(self) -> None:
        self.tasks.clear()
