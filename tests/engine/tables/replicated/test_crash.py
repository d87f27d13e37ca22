"""A process dies at every named place; after its restart every acknowledged row is there exactly once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]


def crash_at(colony: SimulatedCluster, name: str, node: SimulatedNode | None = None) -> None:
    """The next node (or just this one) that passes the failpoint dies there."""

    def at(passing: SimulatedNode, failpoint: str) -> None:
        if failpoint == name and (node is None or passing is node):
            colony.on_failpoint = lambda *_: None
            passing.crash_here()

    colony.on_failpoint = at


INSERT_PLACES = ["insert.after_temporary_part", "insert.after_rename", "insert.before_commit", "insert.after_commit"]
PRODUCE_PLACES = ["fetch.after_temporary_part", "produced.after_rename", "produced.after_commit"]
MERGE_PLACES = ["merge.after_temporary_part", "produced.after_rename", "produced.after_commit"]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("place", INSERT_PLACES)
def test_insert(make_colony: MakeColony, place: str, replicas: int) -> None:
    colony = make_colony(replicas)
    one = colony.nodes["r1"]
    one.insert(1, [1])
    crash_at(colony, place)
    with pytest.raises(Crash):
        one.insert(1, [2, 3])
    colony.heal()
    colony.check_equal()
    stored = one.keys()
    assert stored == ([1, 2, 3] if place == "insert.after_commit" else [1])
    assert one.insert(1, [2, 3]) == (0 if place == "insert.after_commit" else 2)
    colony.settle()
    colony.check_equal()
    assert one.keys() == [1, 2, 3]


@pytest.mark.parametrize("place", PRODUCE_PLACES)
def test_fetch(make_colony: MakeColony, place: str) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    one.insert(1, list(range(10, 100)))
    crash_at(colony, place, two)
    for _ in range(10):
        two.step_all()
    assert not two.is_up
    colony.heal()
    colony.check_equal()
    assert two.keys() == [1, *range(10, 100)]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("place", MERGE_PLACES)
def test_merge(make_colony: MakeColony, place: str, replicas: int) -> None:
    """With one replica nobody else has the sources: they must survive the result that was never committed."""
    colony = make_colony(replicas)
    one = colony.nodes["r1"]
    for key in range(6):
        one.insert(1, [key])
    colony.settle()
    before = one.parts()
    crash_at(colony, place, one)
    with pytest.raises(Crash):
        one.call(lambda table: table.optimize(_final()))
    colony.heal()
    colony.check_equal()
    assert one.keys() == list(range(6))
    assert len(one.parts()) == 1 < len(before) or replicas == 1


def _final() -> object:
    from engine.tables.statement_options import OptimizeOptions

    return OptimizeOptions(final=True)


def test_restart_after_a_merge_is_not_suspicious(make_colony: MakeColony) -> None:
    """The sources of a merge wait on disk and on ZooKeeper's list for their deletion."""
    colony = make_colony(1)
    (one,) = colony
    for key in range(6):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(_final()))
    one.restart()
    assert one.table.state.readonly_reason == ""
    assert one.keys() == list(range(6))
    assert not one.table.replication.queue.list_entries()
    colony.now += 1000
    colony.settle()
    colony.check_equal()
    assert len(one.directories()) == 1


def test_insert_cut_short_under_a_merge_of_others_is_not_suspicious(make_colony: MakeColony) -> None:
    """Its block number is free again, and a part that was merged over it does not contain its rows."""
    colony = make_colony(2)
    one, two = colony
    two.insert(1, [1])
    colony.settle()
    crash_at(colony, "insert.after_rename", one)
    with pytest.raises(Crash):
        one.insert(1, [2, 3, 4])
    colony.end_zombies()
    two.insert(1, [5])
    two.call(lambda table: table.optimize(_final()))
    assert sorted(two.parts()) == ["1_0_2_1"]
    one.start()
    assert one.table.state.readonly_reason == ""
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == [1, 5]
    assert one.table.store.list_detached() == ["ignored_1_1_1_0"]


@pytest.mark.parametrize("is_merged", [False, True])
def test_dropped_rows_do_not_return_with_a_restart(make_colony: MakeColony, is_merged: bool) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(1, [key])
    if is_merged:
        one.call(lambda table: table.optimize(_final()))
    colony.settle()
    one.call(lambda table: table.truncate())
    one.restart()
    two.restart()
    colony.settle()
    assert one.keys() == two.keys() == []
    assert one.table.state.readonly_reason == two.table.state.readonly_reason == ""
    assert not one.table.store.list_detached()
    assert one.insert(1, [0]) == 1  # its block id went with the rows
    colony.settle()
    colony.check_equal()
    assert two.keys() == [0]


@pytest.mark.parametrize("after_requests", range(1, 40, 3))
def test_crash_during_a_truncate(make_colony: MakeColony, after_requests: int) -> None:
    """At any request: after healing, either all rows are there or none, on both replicas alike."""
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(_final()))
    one.insert(1, [10])
    colony.settle()
    _crash_after(colony, after_requests)
    with contextlib.suppress(Crash):
        one.call(lambda table: table.truncate())
    colony.heal()
    colony.check_equal()
    assert one.keys() == two.keys()
    assert one.keys() in ([], [0, 1, 2, 3, 10])


@pytest.mark.parametrize("after_requests", one_in(3, range(1, 30)))
def test_crash_at_any_request_of_a_start(make_colony: MakeColony, after_requests: int) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(key % 2, [key])
        two.insert(key % 2, [10 + key])
    one.crash()
    two.insert(0, [20])
    _crash_after(colony, after_requests)
    with contextlib.suppress(Crash):
        one.start()
    colony.heal()
    colony.check_equal()
    assert one.keys() == [0, 1, 2, 3, 10, 11, 12, 13, 20]


@pytest.mark.parametrize("after_requests", one_in(3, range(1, 60, 2)))
def test_crash_at_any_request_of_a_clone(make_colony: MakeColony, after_requests: int) -> None:
    colony = make_colony(1)
    one = colony.nodes["r1"]
    for key in range(6):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(_final()))
    one.insert(1, [10])
    _crash_after(colony, after_requests, "r2")
    with contextlib.suppress(Crash):
        colony.add_node("r2")
    if not colony.nodes["r2"].keeper.exists("/tables/t/replicas/r2/host") if colony.nodes["r2"].is_up else False:
        return
    colony.on_request = lambda *_: None
    exists = one.keeper.exists("/tables/t/replicas/r2/host") is not None
    if not exists:  # CREATE TABLE itself was cut short: it is repeated
        colony.nodes["r2"].start(is_new=True)
    colony.heal()
    colony.check_equal()
    assert colony.nodes["r2"].keys() == [0, 1, 2, 3, 4, 5, 10]


def _crash_after(colony: SimulatedCluster, requests: int, name: str = "r1") -> None:
    left = [requests]

    def count(node: object, kind: str, path: str) -> None:
        if node is colony.nodes.get(name) and colony.stack.count(node) == 1:  # type: ignore[arg-type]
            left[0] -= 1
            if left[0] == 0:
                node.crash_here()  # type: ignore[attr-defined]

    colony.on_request = count  # type: ignore[assignment]


def test_killed_replica_does_not_wait_for_its_old_session(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    crash_at(colony, "insert.before_commit")
    with pytest.raises(Crash):
        one.insert(1, [2])
    assert colony.zombies
    one.start()
    assert one.table.state.readonly_reason == ""
    assert one.insert(1, [3]) == 1
    colony.settle()
    one.call(lambda table: table.optimize(_final()))  # the lock of the insert that died does not stand in the way
    assert len(one.parts()) == 1
    colony.end_zombies()
    colony.settle()
    colony.check_equal()
    assert two.keys() == [1, 3]


def test_same_replica_name_on_another_server(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    one = colony.nodes["r1"]
    one.insert(1, [1])
    copy = type(one)(colony, "r1")
    copy.path = colony.root / "copy"
    import shutil

    shutil.copytree(one.path, copy.path)
    copy.start()
    assert "253" in copy.table.state.readonly_reason
    with pytest.raises(PandoError) as refused:
        copy.insert(1, [2])
    assert refused.value.code == 242
    assert copy.keys() == [1]
    assert one.insert(1, [3]) == 1
