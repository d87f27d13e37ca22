"""Background work as tasks of small steps; each step returns the seconds until the next.

Invariants:

- A task never runs twice at the same time, and never sleeps or loops by itself.
- ``wake`` during a run makes the task run once more right after it.
- After ``remove`` returns the task is not running and will not run again.
- Of the idle threads one waits for the next due time and the others wait to be notified. A thread that takes a task
  notifies another if more tasks are scheduled.

The server runs tasks on the threads of a :class:`BackgroundPool`; the simulator calls ``run_once`` itself.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from parts.common.errors import CancelledError

logger = logging.getLogger(__name__)

_FAILURE_SECONDS = 5.0


@dataclass(eq=False)
class BackgroundTask:
    """One repeated step. ``run_once`` returns the seconds until it wants to run next."""

    name: str
    run_once: Callable[[], float]
    pool: BackgroundPool | None = field(default=None, repr=False)

    def wake(self, delay_seconds: float = 0.0) -> None:
        """Makes the task run as soon as a thread is free, or after the delay. Never blocks; thread-safe."""
        if self.pool is not None:
            self.pool.wake(self, delay_seconds)


def wake_one_task(tasks: Sequence[BackgroundTask]) -> None:
    """Wakes one of several tasks of one pool that do the same work."""
    if tasks[0].pool is not None:
        tasks[0].pool.wake_one(tasks)


class BackgroundPool:
    """Threads that run tasks at their due times."""

    def __init__(self, name: str, threads: int) -> None:
        lock = threading.RLock()
        self._condition = threading.Condition(lock)
        self._ended = threading.Condition(lock)
        self._due: list[tuple[float, int, BackgroundTask]] = []
        self._due_at: dict[BackgroundTask, float] = {}
        self._running: set[BackgroundTask] = set()
        self._rerun: dict[BackgroundTask, float] = {}
        self._order = itertools.count()
        self._awaited = math.inf
        """The earliest due time that a thread waits for."""
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run_tasks, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, task: BackgroundTask, delay_seconds: float = 0.0) -> BackgroundTask:
        """Schedules a task and returns it."""
        task.pool = self
        with self._condition:
            self._schedule(task, time.monotonic() + delay_seconds)
        return task

    def wake(self, task: BackgroundTask, delay_seconds: float = 0.0) -> None:
        """Makes the task due after the delay, unless it is due earlier anyway."""
        with self._condition:
            at = time.monotonic() + delay_seconds
            if task in self._running:
                self._rerun[task] = min(at, self._rerun.get(task, at))
            elif task in self._due_at and at < self._due_at[task]:
                self._schedule(task, at)

    def wake_one(self, tasks: Sequence[BackgroundTask]) -> None:
        """Wakes one of the tasks that are not running; when all are running, each runs once more afterwards."""
        with self._condition:
            task = next((task for task in tasks if task not in self._running), None)
            for one in tasks if task is None else (task,):
                self.wake(one)

    def remove(self, task: BackgroundTask, timeout_seconds: float = 60.0) -> None:
        """Unschedules the task and waits for its running step to end. Must not be called by the task itself."""
        with self._condition:
            self._due_at.pop(task, None)
            task.pool = None
            self._ended.wait_for(lambda: task not in self._running, timeout_seconds)
            self._due_at.pop(task, None)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Stops the threads after their running steps; waits at most the timeout."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _schedule(self, task: BackgroundTask, at: float) -> None:
        self._due_at[task] = at
        heapq.heappush(self._due, (at, next(self._order), task))
        if at < self._awaited:
            self._condition.notify()

    def _take_next_task(self) -> BackgroundTask | None:
        """Waits for the next due task; returns ``None`` when the pool stops."""
        with self._condition:
            while not self._stopping:
                at = self._next_due_time()
                pause = at - time.monotonic()
                if pause <= 0:
                    _, _, task = heapq.heappop(self._due)
                    del self._due_at[task]
                    self._running.add(task)
                    if self._due:
                        self._condition.notify()
                    return task
                if self._awaited <= at:
                    self._condition.wait()
                    continue
                self._awaited = at
                self._condition.wait(pause)
                if self._awaited == at:
                    self._awaited = math.inf
            return None

    def _next_due_time(self) -> float:
        """Returns the earliest due time, or infinity; drops outdated heap entries of rescheduled tasks."""
        while self._due:
            at, _, task = self._due[0]
            if self._due_at.get(task) == at:
                return at
            heapq.heappop(self._due)
        return math.inf

    def _run_tasks(self) -> None:
        while (task := self._take_next_task()) is not None:
            try:
                delay = task.run_once()
            except CancelledError as error:
                logger.info("background task %s was given up: %s", task.name, error.message)
                delay = _FAILURE_SECONDS
            except Exception:
                logger.exception("background task %s failed; it runs again in %s s", task.name, _FAILURE_SECONDS)
                delay = _FAILURE_SECONDS
            with self._condition:
                self._running.discard(task)
                at = min(time.monotonic() + delay, self._rerun.pop(task, math.inf))
                if task.pool is self:
                    self._schedule(task, at)
                self._ended.notify_all()
