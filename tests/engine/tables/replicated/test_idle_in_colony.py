"""A table that has nothing to do asks ZooKeeper for little, and sleeps; whatever happens wakes those it concerns.

Here a task runs only when it is due or was woken, in virtual time: a wake that is missing is a test that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_table import TABLE
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction
from parts.merge.merge_selector import SMALL_PARTS_PER_MERGE
from tests.engine.tables.replicated.mutations import kill, mutate, shown, values

MakeColony = Callable[..., SimulatedCluster]

SOON = 2.0
"""Seconds within which what woke a task is done: far less than a task sleeps by itself."""
LISTED = 600.0
"""Seconds after which the log is listed without any news."""
MERGED = 7.0
"""Merges are looked for every five seconds while something changes."""
HOUR = 3600.0


def pass_time(colony: SimulatedCluster, seconds: float, step_seconds: float = 1.0) -> int:
    """Every node runs what is due while time passes. Returns how many steps that were."""
    steps, end = 0, colony.now + seconds
    while colony.now < end:
        colony.now += step_seconds
        for node in colony:
            if node.is_up:
                for task in node.pool.iterate_due():
                    node.step(task)
                    steps += 1
    return steps


def comes_true(colony: SimulatedCluster, condition: Callable[[], bool], seconds: float) -> bool:
    end = colony.now + seconds
    while not condition() and colony.now < end:
        pass_time(colony, 0.1, 0.1)
    return condition()


@pytest.fixture
def colony(make_colony: MakeColony) -> SimulatedCluster:
    """Two replicas with one part, which rest."""
    colony = make_colony(2, selects_merges=True)
    colony.nodes["r1"].insert(1, [1])
    pass_time(colony, HOUR)
    return colony


def pair(colony: SimulatedCluster) -> tuple[SimulatedNode, SimulatedNode]:
    return colony.nodes["r1"], colony.nodes["r2"]


def insert_many(node: SimulatedNode, first: int, count: int = SMALL_PARTS_PER_MERGE) -> None:
    """Parts that are merged whatever their age: by the colony's time files are from the future."""
    for key in range(first, first + count):
        node.insert(1, [key])


# -- what rest costs --------------------------------------------------------------------------------------------


def test_a_table_at_rest_asks_zookeeper_for_little(colony: SimulatedCluster) -> None:
    before = colony.ensemble.requests
    pass_time(colony, HOUR)
    assert (colony.ensemble.requests - before) / HOUR / 2 < 0.1


def test_a_table_at_rest_runs_few_steps(colony: SimulatedCluster) -> None:
    assert pass_time(colony, HOUR) / HOUR / 2 < 0.1


@pytest.mark.long
def test_parts_that_cannot_be_merged_cost_little(colony: SimulatedCluster) -> None:
    """A block with a number between them is being inserted; on either side there are too few."""
    one, _ = pair(colony)
    insert_many(one, 2, SMALL_PARTS_PER_MERGE // 2)
    others = colony.ensemble.connect()
    lock = others.create(f"{TABLE.root}/block_numbers/1/block-", b"r9", ephemeral=True, sequential=True)
    insert_many(one, 200, SMALL_PARTS_PER_MERGE // 2)
    pass_time(colony, HOUR)
    assert len(one.parts()) == 1 + SMALL_PARTS_PER_MERGE
    before = colony.ensemble.requests
    pass_time(colony, HOUR)
    assert (colony.ensemble.requests - before) / HOUR / 2 < 0.3
    others.delete(lock)  # nobody tells of that
    assert comes_true(colony, lambda: len(one.parts()) == 1, 61)


# -- what happens elsewhere -------------------------------------------------------------------------------------


def test_an_entry_of_another_replica_is_carried_out_soon(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    for _ in range(4):
        one.insert(2, [2 + len(two.keys())])
        assert comes_true(colony, lambda: two.keys() == one.keys(), SOON)
        pass_time(colony, 50)


@pytest.mark.parametrize("ends", ["the connection", "the session"])
def test_what_was_logged_while_a_replica_was_away_is_carried_out_soon(colony: SimulatedCluster, ends: str) -> None:
    one, two = pair(colony)
    two.keeper.disconnect() if ends == "the connection" else two.keeper.expire()
    pass_time(colony, 5)
    one.insert(1, [2])
    mutate(one, "UPDATE v = 'new' WHERE k = 1")
    pass_time(colony, 5)
    assert two.keys() == [1]
    two.keeper.reconnect()
    assert comes_true(colony, lambda: values(two) == {1: "new", 2: "value 2"}, SOON)


def test_a_connection_that_is_back_before_anybody_looked_loses_nothing(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    two.keeper.disconnect()
    one.insert(1, [2])
    two.keeper.reconnect()
    assert comes_true(colony, lambda: two.keys() == [1, 2], SOON)
    one.insert(1, [3])  # the watch is there again
    assert comes_true(colony, lambda: two.keys() == [1, 2, 3], SOON)


def test_a_watch_that_is_lost_is_made_up_for(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    two.keeper._data_watches.clear()
    one.insert(1, [2])
    assert not comes_true(colony, lambda: two.keys() == [1, 2], SOON)
    assert comes_true(colony, lambda: two.keys() == [1, 2], LISTED)
    one.insert(1, [3])
    assert comes_true(colony, lambda: two.keys() == [1, 2, 3], SOON)


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.EXPIRE, Fault.EXPIRE_AFTER])
def test_a_pull_that_is_hit_is_made_up_for(colony: SimulatedCluster, fault: Fault) -> None:
    one, two = pair(colony)
    hits: list[str] = []

    def hit(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is two and kind == "multi" and "/queue/" in path and not hits:
            hits.append(path)
            return fault
        return None

    colony.on_request = hit
    one.insert(1, [2])
    assert comes_true(colony, lambda: bool(hits), SOON)
    two.keeper.reconnect()
    assert comes_true(colony, lambda: two.keys() == [1, 2], SOON)


def test_a_replica_whose_is_active_is_removed_is_active_again_soon(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    one.keeper.delete(two.table.replication.replica.is_active)
    assert comes_true(colony, lambda: one.keeper.exists(two.table.replication.replica.is_active) is not None, SOON)
    one.insert(1, [2])
    assert comes_true(colony, lambda: two.keys() == [1, 2], SOON)


def test_a_mutation_of_another_replica_is_carried_out_and_known_to_be_done_soon(colony: SimulatedCluster) -> None:
    one, _ = pair(colony)
    mutate(one, "UPDATE v = 'new' WHERE k = 1")
    assert comes_true(colony, lambda: all(values(node) == {1: "new"} for node in colony), SOON)
    assert comes_true(colony, lambda: all(shown(node)[0].is_done for node in colony), SOON)


def test_a_mutation_that_another_replica_kills_lets_its_entries_go_soon(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    id_ = mutate(one, "UPDATE v = toString(throwIf(k = 1)) WHERE 1")
    assert comes_true(colony, lambda: bool(two.table.replication.queue.list_entries()), SOON)
    pass_time(colony, 300)
    assert kill(one, id_)
    assert comes_true(colony, lambda: not one.table.replication.queue.list_entries() and not shown(two), SOON)
    assert comes_true(
        colony, lambda: not two.table.replication.queue.list_entries(), 31
    )  # its pause after so many failures


def test_after_a_restart_in_the_same_session_mutations_are_known(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    one.table.replication.restart()
    pass_time(colony, 100)
    mutate(two, "UPDATE v = 'new' WHERE k = 1")
    pass_time(colony, 100)
    one.table.replication.restart()
    assert comes_true(colony, lambda: one.table.state.activation is not None and len(shown(one)) == 1, SOON)
    assert shown(one)[0].is_done


# -- what is due by itself --------------------------------------------------------------------------------------


def test_an_entry_that_failed_is_tried_again_at_its_time(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    colony.cuts.add(frozenset(("r1", "r2")))
    one.insert(1, [2])
    pass_time(colony, 300)
    (item,) = two.table.replication.queue.list_entries()
    assert 8 < item.num_tries < 20
    colony.cuts.clear()
    assert comes_true(colony, lambda: two.keys() == [1, 2], 31)


@pytest.mark.parametrize("slots", ["merging", "fetches"])
def test_what_waits_for_a_slot_of_the_server_finds_it_soon(colony: SimulatedCluster, slots: str) -> None:
    """Another table of the server gives it back, and tells nobody."""
    one, two = pair(colony)
    with ExitStack() as taken:
        for _ in range(16):
            taken.enter_context(getattr(two.table.services, slots).try_take())
        one.insert(1, [2])
        pass_time(colony, 20)
        one.call(lambda table: table.optimize(OptimizeOptions(final=True, waits_for_merges=False)))
        pass_time(colony, 100)
        assert two.table.replication.queue.list_entries()
    assert comes_true(colony, lambda: not two.table.replication.queue.list_entries(), SOON + 1)
    colony.check_equal()


def test_parts_are_merged_soon_after_they_came(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    insert_many(two, 2)
    assert comes_true(colony, lambda: all(len(node.parts()) == 1 for node in colony), MERGED)
    pass_time(colony, HOUR)
    insert_many(one, 200)
    assert comes_true(colony, lambda: all(len(node.parts()) == 1 for node in colony), MERGED)


@pytest.mark.long
def test_parts_that_a_mutation_kept_apart_are_merged_soon_after_it(colony: SimulatedCluster) -> None:
    one, _ = pair(colony)
    for node in colony:
        node.table.allow(StoppableAction.MERGES, False)
    insert_many(one, 2)
    mutate(one, "UPDATE v = 'new' WHERE k < 100")
    insert_many(one, 200)
    pass_time(colony, HOUR)
    for node in colony:
        node.table.allow(StoppableAction.MERGES, True)
    assert comes_true(
        colony, lambda: all(len(node.parts()) == 2 for node in colony), MERGED
    )  # those of before, and others


@pytest.mark.parametrize("action", [StoppableAction.FETCHES, StoppableAction.QUEUES, StoppableAction.PULLING])
def test_what_was_stopped_goes_on_soon_after_its_start(colony: SimulatedCluster, action: StoppableAction) -> None:
    one, two = pair(colony)
    two.table.allow(action, False)
    one.insert(1, [2])
    pass_time(colony, HOUR)
    assert two.keys() == [1]
    two.table.allow(action, True)
    assert comes_true(colony, lambda: two.keys() == [1, 2], SOON)


def test_outdated_parts_go_at_the_end_of_their_lifetime(colony: SimulatedCluster) -> None:
    one, _ = pair(colony)
    one.insert(1, [2])
    one.optimize()
    pass_time(colony, 470)
    assert one.list_outdated()
    pass_time(colony, 80)
    assert not one.list_outdated()
    assert len(one.directories()) == 1


def test_short_lifetimes_of_outdated_parts_are_kept(make_colony: MakeColony) -> None:
    colony = make_colony(1, old_parts_lifetime=1)
    (one,) = colony
    pass_time(colony, HOUR)
    one.insert(1, [1])
    one.insert(1, [2])
    one.optimize()
    assert comes_true(colony, lambda: not one.list_outdated(), 21)


def test_the_log_is_cleaned_soon_after_entries_came(colony: SimulatedCluster) -> None:
    one, _ = pair(colony)
    for key in range(2, 22):
        one.insert(key, [key])
    keeper = one.keeper
    assert comes_true(colony, lambda: len(keeper.children(TABLE.log)) == 10, 60)


def test_the_log_that_waited_for_a_replica_is_cleaned_when_it_is_back(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    two.crash()
    for key in range(2, 22):
        one.insert(key, [key])
    pass_time(colony, HOUR)
    assert len(one.keeper.children(TABLE.log)) == 20
    colony.end_zombies()
    two.start()
    assert comes_true(colony, lambda: len(one.keeper.children(TABLE.log)) == 10, 400)


# -- what stays as it was ---------------------------------------------------------------------------------------


def test_a_resting_replica_is_not_behind_and_one_without_connection_is(colony: SimulatedCluster) -> None:
    _, two = pair(colony)
    pass_time(colony, HOUR)
    assert two.table.replication.delay_seconds() == 0
    two.keeper.disconnect()
    pass_time(colony, 20)
    assert two.table.replication.delay_seconds() == 0
    pass_time(colony, 20)
    assert 39 < two.table.replication.delay_seconds() < 42
    two.keeper.reconnect()
    assert comes_true(colony, lambda: two.table.replication.delay_seconds() == 0, SOON)


def test_a_replica_that_does_not_pull_what_came_is_behind(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    two.table.allow(StoppableAction.PULLING, False)
    pass_time(colony, HOUR)
    assert two.table.replication.delay_seconds() == 0
    one.insert(1, [2])
    pass_time(colony, 100)
    assert 99 < two.table.replication.delay_seconds() < 102


def test_insert_times_are_written_down_soon(colony: SimulatedCluster) -> None:
    one, two = pair(colony)
    now = colony.now
    one.insert(1, [2])

    def written(node: SimulatedNode) -> float:
        return float(node.keeper.get(node.table.replication.replica.max_processed_insert_time)[0] or b"0")

    assert comes_true(colony, lambda: written(two) >= now, 12)
    assert not float(two.keeper.get(two.table.replication.replica.min_unprocessed_insert_time)[0] or b"0")
