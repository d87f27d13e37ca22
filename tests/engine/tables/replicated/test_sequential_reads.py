"""A sequential read beside everything that moves a part: tried in every order of their requests to ZooKeeper.

The other side stops before each of its writes and at its failpoints (a part that is named and not committed, committed
and not active); the read stops before every path that it asks for. What the other side reads makes no difference.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Op
from coordination.keeper.memory_keeper import MemoryKeeper
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.errors import UnavailableError, UnknownOutcomeError
from tests.engine.tables.replicated.interleaving import Turns, every_order

MakeColony = Callable[..., SimulatedCluster]
_HAS_TIME = "PANDO_SIMULATION_SEEDS" in os.environ
_WRITES = ("create", "set", "delete", "multi")
_READS = ("get", "exists", "children", "sync")
_PIPELINES = ("get_many", "exists_many", "children_many")


@dataclass
class Answer:
    """What a sequential read said."""

    keys: list[int] = field(default_factory=list)
    code: int = 0
    is_late: bool = False
    """It began when the other side had ended."""
    are_all_confirmed: bool = True
    """When it ended no part of the table was unconfirmed."""


def _matters(asked: str | Sequence[Op]) -> bool:
    """Whether a request is to be tried on both sides of the others: not if nobody here changes, or reads, the path."""
    path = asked if isinstance(asked, str) else asked[0].path
    return not path.endswith(("/tables/t", "/host", "/last_part", "/failed_parts", "/quorum/status", "_insert_time"))


class Stepped:
    """Sequential reads of ``node`` beside actions there; between runs the node goes its usual way."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self._turns = Turns()
        self._reader: threading.Thread | None = None
        self._observer = node.cluster.ensemble.connect()
        for name in (*_WRITES, *_READS, *_PIPELINES):
            setattr(node.keeper, name, self._stepped(name))
        node.cluster.on_failpoint = self._on_failpoint
        node.cluster.on_wait = self._wait

    def _stepped(self, name: str) -> Callable[..., object]:
        request = getattr(MemoryKeeper, name)

        def stepped(asked: Any, *more: object, **options: object) -> object:
            is_reading = threading.current_thread() is self._reader
            if is_reading and name in _PIPELINES:
                return [stepped_one(path)[0] for path in asked]  # others come between the paths of a pipeline
            if (name in _WRITES) != is_reading and _matters(asked):
                self._turns.point()
            return request(self.node.keeper, asked, *more, **options)

        def stepped_one(path: str) -> Any:
            if _matters(path):
                self._turns.point()
            return request(self.node.keeper, [path])

        return stepped

    def _on_failpoint(self, _: SimulatedNode, name: str) -> None:
        if name.endswith("after_commit"):  # not active yet
            self._turns.point()

    def _wait(self) -> None:
        if threading.current_thread() is self._reader:
            self._turns.point(is_waiting=True)
        else:
            for node in self.node.cluster:
                if not node.is_frozen and node is not self.node:
                    step(node, *FETCH)

    def race(
        self, action: Callable[[], object], order: Sequence[int], most_interruptions: int | None
    ) -> tuple[Turns, Answer]:
        answer, is_over = Answer(), threading.Event()

        def read() -> None:
            self._reader = threading.current_thread()
            answer.is_late = is_over.is_set()
            try:
                answer.keys = self.node.keys(sequential=True)
            except UnavailableError as error:
                answer.code = error.code
            answer.are_all_confirmed = not read_unconfirmed_parts(self._observer, self.node.table.replication.paths)

        def act() -> None:
            action()
            is_over.set()

        turns = self._turns = Turns(read, act, most_interruptions=most_interruptions)
        turns.run(order)
        self._turns, self._reader = Turns(), None
        return turns, answer


def in_every_order(
    node: SimulatedNode,
    prepare: Callable[[int], object],
    action: Callable[[int], object],
    check: Callable[[int, Answer], None],
    *,
    most_interruptions: int = 1,
) -> Counter[str]:
    """Each order gets a key of its own, which ``prepare`` inserts. Returns how many orders there are, and answers.

    ``most_interruptions``: of the read by the other side in one order. All orders are tried when there is time.
    """
    stepped, keys, counts = Stepped(node), itertools.count(1), Counter[str]()

    def run(order: Sequence[int]) -> Turns:
        key = next(keys)
        prepare(key)
        turns, answer = stepped.race(lambda: action(key), order, None if _HAS_TIME else most_interruptions)
        counts["refused" if answer.code else "shown" if key in answer.keys else "not shown"] += 1
        check(key, answer)
        return turns

    counts["orders"] = sum(1 for _ in every_order(run))
    print(counts)
    return counts


FETCH = ("pull log", "execute queue 0")


def step(node: SimulatedNode, *tasks: str) -> None:
    for task in tasks:
        node.step(node.task(task))


def catch_up(*nodes: SimulatedNode) -> None:
    for node in nodes:
        step(node, *FETCH, "execute queue 0")
        assert not node.table.replication.queue.list_entries(), node.explain()


def begin_anew(colony: SimulatedCluster, key: int) -> None:
    """Now and then without parts, or every read takes longer than the last."""
    catch_up(*colony)
    if key % 50 == 0:
        next(iter(colony)).truncate()
        catch_up(*colony)


def check(key: int, answer: Answer) -> None:
    """Of a part that was confirmed before."""
    assert answer.code in (0, 289)
    assert answer.code or key in answer.keys, "stale"
    assert not (answer.code and answer.is_late)


def test_confirmed_part_is_pulled_and_fetched(make_colony: MakeColony) -> None:
    one, _, three = colony = make_colony(3)
    three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        one.insert(1, [key], quorum=2)

    counts = in_every_order(three, prepare, lambda _: step(three, *FETCH), check)
    assert counts["shown"] > 10
    assert counts["refused"] > 10


@pytest.mark.long
def test_part_that_another_merges_is_fetched_as_the_merged_one(make_colony: MakeColony) -> None:
    """Its entry leaves the queue, and a part that covers it comes."""
    one, two, three = colony = make_colony(3, old_parts_lifetime=0)
    three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        one.insert(1, [key], quorum=2)
        one.optimize()
        step(two, *FETCH, *FETCH)
        for node in (one, two):
            step(node, "clean up")
        step(three, "pull log")

    execute = ("execute queue 0", "execute queue 1")
    counts = in_every_order(three, prepare, lambda _: step(three, *execute), check)
    assert counts["shown"] > 5


def test_pending_part_comes_and_stays_hidden(make_colony: MakeColony) -> None:
    one, two, three = colony = make_colony(3)
    two.is_frozen = three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        with suppress(UnknownOutcomeError):
            one.insert(1, [key], quorum=3, quorum_timeout_seconds=0.0)

    def check_hidden(key: int, answer: Answer) -> None:
        assert (key in answer.keys, answer.code) == (False, 0)
        assert set(three.keys()) >= {key}
        assert not answer.are_all_confirmed

    counts = in_every_order(three, prepare, lambda _: step(three, *FETCH), check_hidden)
    assert counts["orders"] > 10


def test_part_is_confirmed_by_its_fetch(make_colony: MakeColony) -> None:
    """Refused only if it was confirmed when the look began that misses it; shown only if it is confirmed."""
    one, two, three = colony = make_colony(3)
    two.is_frozen = three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        with suppress(UnknownOutcomeError):
            one.insert(1, [key], quorum=2, quorum_timeout_seconds=0.0)

    def check_shown(key: int, answer: Answer) -> None:
        assert answer.code == 0, "this replica has it as soon as it is confirmed"
        assert key not in answer.keys or answer.are_all_confirmed
        assert key in answer.keys or not answer.is_late

    counts = in_every_order(three, prepare, lambda _: step(three, *FETCH), check_shown)
    assert counts["shown"] > 10
    assert counts["not shown"] > 5


@pytest.mark.parametrize("is_queued", [False, True], ids=["held", "queued"])
def test_confirmed_part_is_dropped(make_colony: MakeColony, is_queued: bool) -> None:
    """It is not missing. The partition's last confirmed part names it, and its entry stands before that of the drop."""
    one, two, three = colony = make_colony(3)
    three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        one.insert(1, [key], quorum=2, quorum_parallel=False)
        step(three, "pull log", *(() if is_queued else ("execute queue 0",)))

    def drop(_: int) -> None:
        two.truncate()
        step(three, *FETCH)

    def check_not_missing(key: int, answer: Answer) -> None:
        assert answer.code == 0 or is_queued
        assert not answer.is_late or key not in answer.keys

    counts = in_every_order(three, prepare, drop, check_not_missing)
    assert counts["not shown"] > 5


def test_queued_part_goes_with_the_drop_that_was_logged_before(make_colony: MakeColony) -> None:
    one, two, three = colony = make_colony(3)
    three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        one.insert(1, [key], quorum=2)
        step(three, "pull log")
        two.truncate()

    def check_gone(_: int, answer: Answer) -> None:
        assert (answer.keys, answer.code) == ([], 0)

    assert in_every_order(three, prepare, lambda _: step(three, *FETCH), check_gone)["orders"] > 10


def test_log_is_trimmed_behind_the_pull(make_colony: MakeColony) -> None:
    """The entry has left the log when it is read, and the queue was listed before it came there."""
    one, two, three = colony = make_colony(3, min_replicated_logs_to_keep=0)
    three.is_frozen = True

    def prepare(key: int) -> None:
        begin_anew(colony, key)
        one.insert(1, [key], quorum=2)
        step(two, "pull log")
        step(one, "pull log")

    def pull(_: int) -> None:
        step(three, "pull log")
        step(one, "clean up log")
        assert one.keeper.children(one.table.replication.paths.log) == []

    def check_refused(_: int, answer: Answer) -> None:
        assert answer.code == 289

    assert in_every_order(three, prepare, pull, check_refused)["orders"] > 10


def test_own_insert_becomes_active(make_colony: MakeColony) -> None:
    """Committed, and perhaps confirmed by another, before it is active here."""
    _, two, three = colony = make_colony(3)

    def prepare(key: int) -> None:
        begin_anew(colony, key)

    def check_shown(key: int, answer: Answer) -> None:
        assert answer.code == 0
        assert key not in answer.keys or answer.are_all_confirmed
        assert key in answer.keys or not answer.is_late

    counts = in_every_order(three, prepare, lambda key: three.insert(1, [key], quorum=2), check_shown)
    assert counts["shown"] > 10
    assert two.keys()
