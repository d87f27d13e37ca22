"""SYSTEM STOP and START, and the waits for other replicas, on real replicas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.transactions.commit_request import CommitRequest
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.disk_reservations import DiskReservations
from engine.tables.part_log import PartEventType
from engine.tables.statement_options import CommitOptions, OptimizeOptions, SyncMode
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

MakeColony = Callable[..., SimulatedCluster]


def stop(node: SimulatedNode, action: StoppableAction) -> None:
    node.table.allow(action, False)


def work(colony: SimulatedCluster) -> None:
    """Not to an end: something is stopped."""
    for _ in range(10):
        colony.now += 7.0
        for node in colony:
            if node.is_up and not node.is_frozen:
                node.step_all()


def start(colony: SimulatedCluster, node: SimulatedNode, action: StoppableAction) -> None:
    node.table.allow(action, True)
    colony.now += 60.0
    colony.settle()


def code(action: Callable[[], object]) -> int:
    try:
        action()
    except PandoError as error:
        return error.code
    return 0


@pytest.mark.parametrize("action", [StoppableAction.FETCHES, StoppableAction.QUEUES, StoppableAction.PULLING])
def test_what_is_stopped_on_the_receiving_replica(make_colony: MakeColony, action: StoppableAction) -> None:
    colony = make_colony(2)
    one, two = colony
    stop(two, action)
    one.insert(1, [1])
    work(colony)
    assert two.keys() == []
    assert len(two.table.replication.queue.list_entries()) == (0 if action is StoppableAction.PULLING else 1)
    start(colony, two, action)
    assert two.keys() == [1]
    colony.check_equal()


def test_stopped_sends_are_refused_and_others_are_asked(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    stop(one, StoppableAction.SENDS)
    one.insert(1, [1])
    work(colony)
    assert two.keys() == three.keys() == []
    item = two.table.replication.queue.list_entries()[0]
    assert "Transferring part to replica was cancelled" in item.last_exception
    start(colony, one, StoppableAction.SENDS)
    assert two.keys() == three.keys() == [1]


def test_a_transaction_waits_for_stopped_fetches(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stop(two, StoppableAction.FETCHES)
    one.insert(1, [1], transaction="x", deduplication_token="a")
    one.call(lambda table: table.transactions.commit(CommitRequest("x"), CommitOptions()))
    work(colony)
    assert two.keys() == []
    start(colony, two, StoppableAction.FETCHES)
    assert two.keys() == [1]


def test_stopped_merges_wait_on_one_replica_alone(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    stop(two, StoppableAction.MERGES)
    assert code(two.optimize) == 236
    one.optimize()
    work(colony)
    assert len(one.parts()) == 1
    assert len(two.parts()) == 2
    start(colony, two, StoppableAction.MERGES)
    colony.check_equal()
    assert len(two.parts()) == 1


@pytest.mark.long
def test_syncing_in_three_ways(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    stop(two, StoppableAction.MERGES)
    one.insert(1, [2])
    one.optimize()
    two.call(lambda table: table.replication.sync(10.0, mode=SyncMode.PULL))
    assert "1_0_2_1" in [str(item.entry.new_part) for item in two.table.replication.queue.list_entries()]
    two.call(lambda table: table.replication.sync(60.0, mode=SyncMode.LIGHTWEIGHT))
    assert two.keys() == [0, 1, 2]
    for mode in (SyncMode.DEFAULT, SyncMode.STRICT):
        assert code(lambda mode=mode: two.call(lambda table: table.replication.sync(5.0, mode=mode))) == 159  # type: ignore[misc]
    two.table.allow(StoppableAction.MERGES, True)
    two.call(lambda table: table.replication.sync(60.0, mode=SyncMode.STRICT))
    colony.check_equal()


def test_waiting_for_the_other_replicas(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    stop(two, StoppableAction.MERGES)
    three.crash()
    colony.end_zombies()
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    with pytest.raises(PandoError, match="replicas r2 have not followed yet") as late:
        one.call(lambda table: table.replication.wait_for_others(5.0, QueryStatus()))
    assert late.value.code == 341
    two.table.allow(StoppableAction.MERGES, True)
    one.call(lambda table: table.replication.wait_for_others(60.0, QueryStatus()))
    assert len(two.parts()) == 1


def test_an_optimize_that_nobody_waits_for_is_assigned_though_merges_are_stopped(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    stop(one, StoppableAction.MERGES)
    one.call(lambda table: table.optimize(OptimizeOptions(final=True, waits_for_merges=False)))
    work(colony)
    assert len(two.parts()) == 1
    start(colony, one, StoppableAction.MERGES)
    colony.check_equal()


def merge_kinds(colony: SimulatedCluster) -> dict[str, list[str]]:
    """Which replicas merge, and which fetch, while a merged part comes to all."""
    kinds: dict[str, list[str]] = {"merge.after_temporary_part": [], "fetch.after_temporary_part": []}

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name in kinds:
            kinds[name].append(node.name)

    colony.on_failpoint = on_failpoint
    return kinds


def test_one_replica_merges_for_all(make_colony: MakeColony) -> None:
    colony = make_colony(3, execute_merges_on_single_replica_time_threshold=10_000)
    one, *_ = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    kinds = merge_kinds(colony)
    one.call(lambda table: table.optimize(OptimizeOptions(final=True, waits_for_merges=False)))
    colony.settle()
    colony.check_equal()
    assert [len(names) for names in kinds.values()] == [1, 2]


def test_the_replica_that_merges_for_all_is_not_waited_for_for_ever(make_colony: MakeColony) -> None:
    colony = make_colony(3, execute_merges_on_single_replica_time_threshold=1000)
    for key in range(2):
        colony.nodes["r1"].insert(1, [key])
    colony.settle()
    for node in colony:
        stop(node, StoppableAction.MERGES)
    colony.nodes["r1"].call(lambda table: table.optimize(OptimizeOptions(final=True, waits_for_merges=False)))
    work(colony)
    kinds = merge_kinds(colony)
    for name in ("r1", "r2"):
        colony.nodes[name].table.allow(StoppableAction.MERGES, True)
    colony.now += 2000.0
    work(colony)
    assert sorted(kinds["merge.after_temporary_part"]) == ["r1", "r2"]
    start(colony, colony.nodes["r3"], StoppableAction.MERGES)
    colony.check_equal()


def test_a_merge_that_does_not_fit_waits_for_room(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    two.table.services.disk = DiskReservations(lambda path: 100)
    one.optimize()
    work(colony)
    (item,) = two.table.replication.queue.list_entries()
    assert "is greater than the current maximum (90)" in item.postpone_reason
    two.table.services.disk = DiskReservations(lambda path: 1 << 40)
    colony.now += 60.0
    colony.settle()
    colony.check_equal()


def test_fetched_parts_are_logged_and_seen_on_their_way(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    seen: list[tuple[str, str]] = []

    def on_copy(part: PartName, source: SimulatedNode) -> None:
        seen.extend((str(fetch.part), fetch.source_path) for fetch in two.table.services.running_fetches)

    colony.on_copy = on_copy
    one.insert(1, [1])
    colony.settle()
    assert set(seen) == {("1_0_0_0", "/tables/t/replicas/r1")}
    assert two.table.services.running_fetches == []
    names = [(event.type, str(event.name), event.rows) for event in two.table.services.part_log.events()]
    assert names == [(PartEventType.DOWNLOAD, "1_0_0_0", 1)]
    assert [event.type for event in one.table.services.part_log.events()] == [PartEventType.NEW]
