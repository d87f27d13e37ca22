"""A step that looks at ZooKeeper after changes looks again if looking fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordination.keeper.interface import Keeper, Watch
from engine.server.background_pool import BackgroundTask
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.watched_step import WatchedStep
from parts.common.errors import UnavailableError


class Replica:
    """Stands for the state of a replica, which may be active."""

    def __init__(self) -> None:
        self.activation: object | None = object()
        self.is_session_expired = False
        self.definition = SimpleNamespace(full_name="d.t")
        self.lock = threading.Lock()

    def make_task(self, name: str, step: Callable[[], float]) -> BackgroundTask:
        return BackgroundTask(name, step)

    @contextmanager
    def hold_write_access(self) -> Iterator[tuple[object, object]]:
        with self.lock:
            yield object(), self.activation


class Looking:
    """What a step does when it looks: fails with the next error, if there is one."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0
        self.watch: Watch = lambda path: None

    def __call__(self, keeper: Keeper, watch: Watch) -> None:
        self.times += 1
        self.watch = watch
        if self.errors:
            raise self.errors.pop(0)


def make_step(replica: Replica, look: Looking) -> WatchedStep:
    return WatchedStep(cast(ReplicaState, replica), "look", "things", cast(Any, look))


def test_it_looks_once_and_after_each_change() -> None:
    look = Looking()
    step = make_step(Replica(), look)
    assert [step.run(), step.run(), look.times] == [600.0, 600.0, 1]
    look.watch("/changed")
    assert [step.run(), step.run(), look.times] == [600.0, 600.0, 2]


@pytest.mark.parametrize("error", [UnavailableError("KEEPER_EXCEPTION", "gone"), OSError(28, "No space left")])
def test_it_looks_again_after_a_failure(error: Exception) -> None:
    """Also after one of the disk, by which a part was not moved."""
    look = Looking(error, error)
    step = make_step(Replica(), look)
    assert [step.run(), step.run(), step.run(), step.run()] == [1.0, 1.0, 600.0, 600.0]
    assert look.times == 3


def test_it_waits_for_the_activation() -> None:
    replica, look = Replica(), Looking()
    replica.activation = None
    step = make_step(replica, look)
    assert [step.run(), look.times] == [600.0, 0]
    replica.activation = object()
    assert [step.run(), look.times] == [600.0, 1]
