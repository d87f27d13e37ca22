"""Wall clocks of servers are wrong, and step: nothing goes early for one that is ahead, nothing waits for one that went
back."""

from __future__ import annotations

import pytest

from coordination.transactions.commit_request import CommitVerdict
from coordination.transactions.transaction_nodes import transaction_node_name
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.merges.ttl_merges import TtlMergeSelector
from engine.tables.statement_options import OptimizeOptions
from parts.common.part_name import PartName
from parts.merge.ttl_merge_selector import TTL_DELETE, TtlMerge
from tests.engine.tables.replicated.staging import MakeColony, commit, keys, stage

_DAY = 86_400.0
_HOUR = 3_600.0


def step(node: SimulatedNode, seconds: float) -> None:
    node.clock.skew += seconds


def pass_time(colony: SimulatedCluster, seconds: float) -> None:
    """In small steps, with everybody at work; far less than a wall clock steps here."""
    for _ in range(int(seconds)):
        colony.now += 1.0
        colony.step_others()


@pytest.fixture
def two_replicas(make_colony: MakeColony) -> tuple[SimulatedCluster, SimulatedNode, SimulatedNode]:
    colony = make_colony(2, cleanup_delay_period=5)
    one, two = colony
    return colony, one, two


def test_a_server_ahead_aborts_nobodys_transaction(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, two = two_replicas
    stage(one, 1, [10])
    step(two, 10 * _DAY)
    pass_time(colony, 30)
    assert one.table.store.staged.list_transactions() == [transaction_node_name("x")]
    stage(two, 1, [11])
    assert commit(one).verdict is CommitVerdict.COMMITTED
    colony.settle()
    assert keys(one) == keys(two) == [10, 11]


def test_a_server_ahead_forgets_no_decision(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, two = two_replicas
    stage(one, 1, [10])
    commit(one)
    step(two, 30 * _DAY)
    pass_time(colony, 30)
    assert commit(two).verdict is CommitVerdict.REPEATED
    assert keys(one) == [10]


def test_ages_are_told_by_zookeeper(two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode]) -> None:
    """What is left open is aborted after a day, what is decided is forgotten after a week."""
    colony, one, two = two_replicas
    stage(one, 1, [10])
    stage(one, 1, [20], transaction="y")
    commit(one, "y")
    for node in colony:
        step(node, -365 * _DAY)
    colony.now += 1.1 * _DAY
    pass_time(colony, 30)
    assert one.table.store.staged.list_transactions() == []
    assert two.keeper.exists(two.table.replication.paths.transaction(transaction_node_name("y"))) is not None
    colony.now += 7 * _DAY
    pass_time(colony, 30)
    assert two.keeper.children(two.table.replication.paths.transactions) == []


def test_a_failed_entry_is_tried_again_though_the_clock_went_back(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, two = two_replicas
    colony.cuts.add(frozenset(("r1", "r2")))
    one.insert(1, [1, 2])
    pass_time(colony, 5)
    (item,) = two.table.replication.queue.list_entries()
    assert item.last_exception
    assert abs(item.last_exception_time - two.clock.wall()) < 60  # what is shown is the wall clock's
    assert abs(item.last_attempt_time - two.clock.wall()) < 60
    step(two, -_HOUR)
    colony.cuts.clear()
    pass_time(colony, 60)
    assert two.keys() == [1, 2]


def test_a_postponed_entry_is_taken_up_though_the_clock_went_back(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, two = two_replicas
    one.insert(1, [1, 2])
    two.step(two.task("pull log"))
    (item,) = two.table.replication.queue.list_entries()
    action = two.call(
        lambda table: table.replication.queue.take_next_action(
            table.queue_steps._local_parts, table.queue_steps._local_parts.limits()
        )
    )
    assert action is not None
    two.table.replication.queue.postpone(item.name, "not now", pause_seconds=1.0)
    assert abs(two.table.replication.queue.list_entries()[0].last_postpone_time - two.clock.wall()) < 60
    step(two, -_HOUR)
    pass_time(colony, 10)
    assert two.keys() == [1, 2]


def test_a_part_is_checked_again_though_the_clock_went_back(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    colony, one, two = two_replicas
    one.insert(1, [1, 2])
    colony.settle()
    (directory,) = two.directories()
    data = next(directory.glob("*.bin"))
    content = data.read_bytes()
    data.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    one.crash()
    two.call(lambda table: table.part_checks.schedule_check(PartName.parse(directory.name)))
    pass_time(colony, 5)  # nobody has another copy
    step(two, -_HOUR)
    one.start()
    pass_time(colony, 60)
    assert two.keys() == [1, 2]
    assert not len(two.table.part_checks)


def test_outdated_parts_live_as_long_as_they_are_to(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, _ = two_replicas
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    one.optimize()
    step(one, 10 * _DAY)
    colony.now += 60.0
    one.step(one.task("clean up"))
    assert len(one.list_outdated()) == 2
    step(one, -20 * _DAY)
    colony.now += 600.0
    one.step(one.task("clean up"))
    assert not one.list_outdated()


def test_times_of_inserts_are_saved_though_the_clock_went_back(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, two = two_replicas
    one.insert(1, [1])
    pass_time(colony, 60)
    path = two.table.replication.replica.max_processed_insert_time
    before = two.keeper.get(path)[0]
    step(two, -_HOUR)
    one.insert(1, [2])
    pass_time(colony, 60)
    assert two.keeper.get(path)[0] != before


def test_the_replica_that_merges_for_all_is_given_up_by_a_server_behind(make_colony: MakeColony) -> None:
    """How long an entry waits counts from when it was taken up, not from what another server's clock showed."""
    colony = make_colony(3, execute_merges_on_single_replica_time_threshold=60)
    for key in range(2):
        colony.nodes["r1"].insert(1, [key])
    colony.settle()
    for node in colony:
        step(node, -10 * _DAY if node.name == "r2" else 0.0)
    colony.nodes["r1"].call(lambda table: table.optimize(OptimizeOptions(final=True, waits_for_merges=False)))
    for name in ("r1", "r3"):
        colony.nodes[name].is_frozen = True  # one of them is to merge for all
        colony.cuts.add(frozenset((name, "r2")))
    pass_time(colony, 120)
    assert "1_0_1_1" in colony.nodes["r2"].parts()


def test_a_rest_between_merges_of_expired_rows_ends(
    two_replicas: tuple[SimulatedCluster, SimulatedNode, SimulatedNode],
) -> None:
    colony, one, _ = two_replicas
    one.insert(1, [1])
    expiring = TtlMergeSelector(one.table.state)
    part = PartName.parse("1_0_0_0")
    expiring.note(TtlMerge([part], TTL_DELETE))
    assert expiring._resting(TTL_DELETE) == {"1"}
    step(one, -10 * _DAY)
    colony.now += one.table.definition.settings.merge_with_ttl_timeout + 1
    assert not expiring._resting(TTL_DELETE)
