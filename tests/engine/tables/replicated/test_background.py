"""The threads that run background tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.server.background_pool import BackgroundPool, BackgroundTask, wake_one_task
from parts.common.errors import CancelledError

IDLE_SECONDS = 3600.0
"""What a task returns that only wants to be woken."""

WAIT_SECONDS = 30.0


@pytest.fixture
def pool() -> Iterator[BackgroundPool]:
    pool = BackgroundPool("test", 3)
    yield pool
    pool.stop()


class Sleeper:
    """A task whose step is held up until ``go``; ``ran`` counts the steps that began."""

    def __init__(self, pool: BackgroundPool) -> None:
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.ran = 0
        self.task = pool.add(BackgroundTask("sleeper", self.run_once), IDLE_SECONDS)

    def run_once(self) -> float:
        self.ran += 1
        self.began.release()
        assert self.go.acquire(timeout=WAIT_SECONDS)
        return IDLE_SECONDS


def test_one_of_several_tasks_is_woken_and_then_the_next(pool: BackgroundPool) -> None:
    sleepers = [Sleeper(pool) for _ in range(2)]
    tasks = [sleeper.task for sleeper in sleepers]
    wake_one_task(tasks)
    assert sleepers[0].began.acquire(timeout=WAIT_SECONDS)
    assert sleepers[1].ran == 0
    wake_one_task(tasks)
    assert sleepers[1].began.acquire(timeout=WAIT_SECONDS)
    for sleeper in sleepers:
        sleeper.go.release()


def test_when_all_run_each_runs_once_more(pool: BackgroundPool) -> None:
    sleepers = [Sleeper(pool) for _ in range(2)]
    tasks = [sleeper.task for sleeper in sleepers]
    for sleeper in sleepers:
        wake_one_task(tasks)
        assert sleeper.began.acquire(timeout=WAIT_SECONDS)
    wake_one_task(tasks)
    for sleeper in sleepers:
        sleeper.go.release(2)
        assert sleeper.began.acquire(timeout=WAIT_SECONDS)


def test_tasks_that_are_due_together_run_together(pool: BackgroundPool) -> None:
    sleepers = [Sleeper(pool) for _ in range(3)]
    for sleeper in sleepers:
        sleeper.task.wake(0.01)
    for sleeper in sleepers:  # each is held up until all have begun
        assert sleeper.began.acquire(timeout=WAIT_SECONDS)
    for sleeper in sleepers:
        sleeper.go.release()


def test_what_becomes_due_sooner_is_not_kept_waiting(pool: BackgroundPool) -> None:
    sleepers = [Sleeper(pool) for _ in range(3)]
    for delay_seconds, sleeper in zip([2 * WAIT_SECONDS, WAIT_SECONDS, 0.0], sleepers, strict=True):
        sleeper.task.wake(delay_seconds)
    assert sleepers[2].began.acquire(timeout=WAIT_SECONDS / 2)
    sleepers[1].task.wake(0.01)
    assert sleepers[1].began.acquire(timeout=WAIT_SECONDS / 2)
    for sleeper in sleepers:
        sleeper.go.release()


def test_a_removed_task_keeps_nobody_from_running(pool: BackgroundPool) -> None:
    gone, other = Sleeper(pool), Sleeper(pool)
    gone.task.wake(0.2)
    pool.remove(gone.task)
    other.task.wake(0.3)
    assert other.began.acquire(timeout=WAIT_SECONDS)
    other.go.release()
    assert gone.ran == 0


def test_tasks_of_no_pool_are_left_alone() -> None:
    wake_one_task([BackgroundTask("none", lambda: 0.0)])


@pytest.mark.parametrize(("error", "is_fault"), [(CancelledError("dropped"), False), (OSError("disk"), True)])
def test_work_that_was_cancelled_is_no_fault(
    pool: BackgroundPool, error: Exception, is_fault: bool, caplog: pytest.LogCaptureFixture
) -> None:
    began = threading.Event()

    def step() -> float:
        began.set()
        raise error

    task = pool.add(BackgroundTask("ends badly", step))
    assert began.wait(WAIT_SECONDS)
    pool.remove(task)
    assert any(record.exc_info for record in caplog.records) == is_fault
