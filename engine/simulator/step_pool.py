"""Replaces a server's threads and its end: runs tasks step by step, raises crashes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence

from engine.server.background_pool import BackgroundTask

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 10_000


class Crash(BaseException):
    """Raised when the node's process ends."""


class StepPool:
    """A replacement of ``BackgroundPool`` that holds tasks and their due times, and runs none by itself."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.tasks: list[BackgroundTask] = []
        self._monotonic = monotonic
        self._due: dict[BackgroundTask, float] = {}
        self.running: set[BackgroundTask] = set()
        """The tasks that are being stepped."""

    def add(self, task: BackgroundTask, delay_seconds: float = 0.0) -> BackgroundTask:
        """Adds a task that is due after the delay."""
        task.pool = self  # type: ignore[assignment]
        self.tasks.append(task)
        self.wake(task, delay_seconds)
        return task

    def wake(self, task: BackgroundTask, delay_seconds: float = 0.0) -> None:
        """Makes a task due after the delay, unless it is due earlier."""
        if task in self.tasks:
            self._due[task] = min(self._due.get(task, math.inf), self._monotonic() + delay_seconds)

    def wake_one(self, tasks: Sequence[BackgroundTask]) -> None:
        """Wakes one task that is not being stepped; all if there is none."""
        free = [task for task in tasks if task not in self.running]
        for task in free[:1] or tasks:
            self.wake(task)

    def list_due(self) -> list[BackgroundTask]:
        """Returns the tasks that threads would run now."""
        now = self._monotonic()
        return [task for task in self.tasks if self._due[task] <= now and task not in self.running]

    def iterate_due(self) -> Iterator[BackgroundTask]:
        """Yields due tasks until none is due."""
        for _ in range(_MAX_ROUNDS):
            if not (due := self.list_due()):
                return
            yield from due
        raise AssertionError(f"these never rest: {[task.name for task in due]}")

    def run(self, task: BackgroundTask) -> None:
        """Runs one step, unless the task is being stepped further up. A task that fails is due at once."""
        if task in self.running:
            return
        self.running.add(task)
        self._due[task] = math.inf
        delay = 0.0
        try:
            delay = task.run_once()
        except OSError:  # a pool of threads does so, too
            logger.info("task %s failed", task.name, exc_info=True)
        finally:
            self.running.discard(task)
            self.wake(task, delay)

    def remove(self, task: BackgroundTask, timeout_seconds: float = 0.0) -> None:
        """Removes a task."""
        if task in self.tasks:
            self.tasks.remove(task)

    def ran(self, task: BackgroundTask, pause_seconds: float) -> None:
        """Nothing to do here: :meth:`run` sets the next due time."""

    def stop(self) -> None:
        """Removes all tasks."""
        self.tasks.clear()
