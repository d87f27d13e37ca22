"""Transactions whose requests fail and whose replicas die, at every point: all or nothing, once."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import NoReturn

import pytest

from coordination.keeper.interface import KeeperConnectionLoss, Op
from coordination.keeper.memory_keeper import Fault, MemoryKeeper
from coordination.transactions.commit_request import CommitRequest, Overwrite
from coordination.transactions.transaction_nodes import clean_transactions, transaction_node_name
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.statement_options import CommitOptions
from parts.common.errors import PandoError
from tests.engine.tables.replicated.staging import NEW, OLD, MakeColony, commit, finish, keys, scenario, stage
from tests.faults import FAULTS, hit_request
from tests.portions import one_in


def watch_what_is_seen(colony: SimulatedCluster) -> Callable[[], None]:
    """Every reader sees the old rows or the new ones, at every moment."""

    @cache
    def read_keys(path: str, _: str) -> tuple[int, ...]:
        from pathlib import Path

        from parts.read.part_reader import open_part

        part = open_part(Path(path))
        return tuple(key for batch in part.read(["k"]) for key in batch.column(0).to_pylist())

    seen: dict[str, list[tuple[str, str]]] = {}

    def look() -> None:
        for node in colony:
            if not node.is_up:
                continue
            parts = [(str(part.path), part.content_hash) for part in node.table.store.list_active()]
            if parts != seen.get(node.name):
                found = sorted(key for part in parts for key in read_keys(*part))
                assert found in (OLD, NEW), (node.name, found)
                seen[node.name] = parts

    return look


def requests_of_a_commit(make_colony: MakeColony) -> int:
    colony = make_colony(2)
    one, _ = scenario(colony)
    count = 0

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        nonlocal count
        count += 1

    colony.on_request = on_request
    commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    finish(colony)
    remove(colony)
    return count


@pytest.mark.parametrize("fault", one_in(5, FAULTS), ids=str)
@pytest.mark.long
def test_a_commit_that_is_hit_at_any_request(make_colony: MakeColony, fault: Fault | str) -> None:
    total = requests_of_a_commit(lambda n: make_colony(n))
    assert total > 40
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 4
    for number in range(1 + FAULTS.index(fault) % 2, total + 1, step):
        hit(make_colony, number, fault)


def remove(colony: SimulatedCluster) -> None:
    """The next colony in the same place has another ZooKeeper, and must not find these disks."""
    colony.end()
    for node in colony:
        shutil.rmtree(node.path)


def hit(make_colony: MakeColony, number: int, fault: Fault | str) -> None:
    colony = make_colony(2)
    one, _ = scenario(colony)
    look = watch_what_is_seen(colony)
    hit_request(colony, number, fault, look)
    with contextlib.suppress(PandoError, Crash):
        # What was hit comes back only when all is calm: so long it would be waited for in vain.
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4, timeout_seconds=3.0)
    look()
    colony.calm()
    colony.on_request = lambda node, kind, path: look()
    colony.settle()
    look()
    colony.on_request = lambda node, kind, path: None
    finish(colony)
    remove(colony)


@pytest.mark.parametrize("victim", ["r1", "r2"])
@pytest.mark.parametrize(
    "point", ["transaction.after_commit", "exchange.before", "exchange.after", "fetch.after_temporary_part"]
)
def test_a_replica_that_dies_in_the_middle(make_colony: MakeColony, point: str, victim: str) -> None:
    colony = make_colony(2)
    one, _ = scenario(colony)
    look = watch_what_is_seen(colony)
    died = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        look()
        if name == point and node.name == victim and not died:
            died.append(name)
            node.crash_here()

    colony.on_failpoint = on_failpoint
    with contextlib.suppress(PandoError, Crash):
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    with contextlib.suppress(AssertionError):
        colony.settle(10)
    look()
    assert died or (point, victim) == ("transaction.after_commit", "r2")
    finish(colony)


@pytest.mark.parametrize("point", ["stage.after_move", "stage.after_told"])
def test_an_insert_that_dies_is_repeated_on_another_replica(make_colony: MakeColony, point: str) -> None:
    colony = make_colony(2)
    one, two = colony

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == point:
            node.crash_here()

    colony.on_failpoint = on_failpoint
    with pytest.raises(Crash):
        stage(one, 1, [1, 2])
    colony.heal()
    assert stage(two, 1, [1, 2]) == (0 if point == "stage.after_told" else 2)
    assert commit(two, rows=2).rows == 2
    colony.settle()
    colony.check_equal()
    assert keys(one) == [1, 2]


def test_an_insert_of_more_parts_than_a_request_tells_of_leaves_nothing(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    colony = make_colony(2)
    one, two = colony
    monkeypatch.setattr("coordination.keeper.request_limits.MAX_REQUEST_BYTES", 3000)
    with pytest.raises(PandoError) as large:
        one.insert(list(range(20)), list(range(20)), transaction="x")
    monkeypatch.undo()
    assert large.value.code == 290
    assert not one.table.store.staged.list_places(transaction_node_name("x"))
    stage(one, 1, [1])
    assert commit(two, rows=1).rows == 1


@pytest.mark.parametrize("point", ["exchange.before", "exchange.after"])
def test_a_replica_that_dies_while_a_merged_part_comes_instead(make_colony: MakeColony, point: str) -> None:
    """A start takes the merged part for what it is, and shows the transaction whole."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    two.is_frozen = True
    stage(one, 1, [10])
    stage(one, 2, [11])
    commit(one)
    one.optimize()
    for _ in range(20):
        colony.now += 1000
        one.step_all()
    died: list[str] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == point and node is two and not died:
            died.append(name)
            node.crash_here()

    colony.on_failpoint = on_failpoint
    two.is_frozen = False
    for _ in range(20):
        if two.is_up:
            two.step_all()
    assert died
    seen: set[tuple[int, ...]] = set()
    colony.calm()
    colony.on_request = lambda node, kind, path: seen.add(tuple(keys(two))) if node is one else None
    colony.settle()
    colony.on_request = lambda node, kind, path: None
    colony.check_equal()
    assert seen <= ({(1, 10, 11)} if point == "exchange.after" else {(1,), (1, 10, 11)})
    assert not list(two.path.glob("detached/*"))


def test_an_insert_whose_answer_was_lost_takes_nothing_away(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The COMMIT took it, and its keys are forgotten, before it asks what became of it."""
    colony = make_colony(2)
    one, two = colony
    stage(two, 1, [1])

    def lose_answer(keeper: MemoryKeeper, ops: Sequence[Op]) -> NoReturn:
        monkeypatch.undo()
        keeper.multi(ops)
        late = CommitOptions(timeout_seconds=0.0)
        with pytest.raises(PandoError, match="repeat the COMMIT"):
            two.call(lambda table: table.transactions.commit(CommitRequest("x"), late))
        clean_transactions(two.keeper, two.table.replication.paths)
        raise KeeperConnectionLoss

    monkeypatch.setattr(MemoryKeeper, "multi", lose_answer)
    with pytest.raises(PandoError, match="was committed before") as unknown:
        stage(one, 1, [2])
    assert unknown.value.code == 319
    colony.settle()
    colony.check_equal()
    assert keys(two) == [1, 2]


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_a_commit_that_loses_its_connection_leaves_no_numbers(make_colony: MakeColony, fault: Fault) -> None:
    """Its session lives on, and merges would wait for them."""
    colony = make_colony(2)
    one, _ = scenario(colony)

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        return fault if node is one and kind == "multi" and "/log/" in path else None

    colony.on_request = on_request
    with pytest.raises(PandoError):
        commit(one, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
    colony.on_request = lambda node, kind, path: None
    one.keeper.reconnect()
    colony.settle()
    colony.check_equal()
    finish(colony)
