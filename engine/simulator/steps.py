"""What stands in for a server's threads and for its end: tasks run when somebody steps them, a crash is raised."""

from __future__ import annotations

from collections.abc import Sequence

from engine.background import Task


class Crash(BaseException):
    """The node's process is gone."""


class StepPool:
    """Stands in for ``BackgroundPool``: holds tasks, runs none by itself."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def add(self, task: Task, delay_seconds: float = 0.0) -> Task:
        task.pool = self  # type: ignore[assignment]
        self.tasks.append(task)
        return task

    def wake(self, task: Task, delay_seconds: float = 0.0) -> None:
        return

    def wake_one(self, tasks: Sequence[Task]) -> None:
        return

    def remove(self, task: Task, timeout_seconds: float = 0.0) -> None:
        if task in self.tasks:
            self.tasks.remove(task)

    def stop(self) -> None:
        self.tasks.clear()
