"""Replicas that are dropped while something waits for a quorum: nothing may wait for them for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.inserts.quorum import QuorumStatus, read_pending_quorums
from coordination.inserts.quorum_settlement import lower_requirement, settle_quorums
from coordination.nodes.gate import format_epoch
from coordination.replicas.table_nodes import SharedDefinition, create_table_or_replica, drop_dead_replica
from coordination.transactions.commit_request import CommitRequest
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import CommitOptions
from parts.common.errors import PandoError
from tests.engine.tables.replicated.staging import stage
from tests.portions import one_in

MakeColony = Callable[..., SimulatedCluster]
ANYHOW = pytest.mark.parametrize("is_parallel", [True, False])
QUICK = {"quorum_timeout_seconds": 5.0}


def refused(action: Callable[[], object]) -> PandoError:
    with pytest.raises(PandoError) as raised:
        action()
    return raised.value


def lose(node: SimulatedNode) -> None:
    """Its server will not come back."""
    node.crash()
    node.cluster.end_zombies()
    del node.cluster.nodes[node.name]


def drop(node: SimulatedNode, *, by: SimulatedNode) -> None:
    """SYSTEM DROP REPLICA."""
    lose(node)
    drop_dead_replica(by.keeper, by.table.replication.paths, node.name)


def statuses(node: SimulatedNode) -> list[QuorumStatus]:
    return [status for status, _, _ in read_pending_quorums(node.keeper, node.table.replication.paths)]


def at_first_wait(colony: SimulatedCluster, action: Callable[[], object]) -> None:
    waits: list[float] = []

    def on_wait() -> None:
        waits.append(colony.now)
        if len(waits) == 1:
            action()
        colony.step_others()

    colony.on_wait = on_wait


def insert_pending(one: SimulatedNode, key: int, quorum: int, *, is_parallel: bool) -> None:
    options = {"quorum": quorum, "quorum_parallel": is_parallel, **QUICK}
    assert refused(lambda: one.insert(1, [key], **options)).code == 319


def check_nothing_waits(colony: SimulatedCluster, *keys: int) -> None:
    """The rows are there, and the partition takes quorums and merges again."""
    one, *_ = colony
    colony.settle()
    colony.check_equal()
    assert statuses(one) == []
    for node in colony:
        assert node.keys(sequential=True) == list(keys)
    assert one.insert(1, [100], quorum=2, quorum_parallel=False) == 1
    one.optimize()
    colony.settle()
    assert [len(node.parts()) for node in colony] == [1] * len(colony.nodes)
    colony.check_equal()


@ANYHOW
def test_quorum_of_more_replicas_than_are_left(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, _, three = colony
    three.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=is_parallel)
    drop(three, by=one)
    assert statuses(one) == []
    assert one.keys(sequential=True) == [1]
    check_nothing_waits(colony, 1)


@ANYHOW
@pytest.mark.parametrize("has_second", [True, False])
def test_waiting_insert_is_told_at_once(make_colony: MakeColony, is_parallel: bool, has_second: bool) -> None:
    """It asked for three copies, and there will not be three: that is no success."""
    colony = make_colony(3)
    one, two, three = colony
    three.is_frozen = True

    def lose_three() -> None:
        if has_second:
            two.step_all()
            two.step_all()
        two.is_frozen = not has_second
        drop(three, by=two)

    at_first_wait(colony, lose_three)
    begun = colony.now
    options = {"quorum": 3, "quorum_parallel": is_parallel, "quorum_timeout_seconds": 600.0}
    error = refused(lambda: one.insert(1, [1], **options))
    assert (error.code, colony.now - begun < 60) == (319, True)
    assert "a replica was dropped meanwhile" in str(error)
    two.is_frozen = False
    check_nothing_waits(colony, 1)


@ANYHOW
def test_drop_table_of_the_replica_itself(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, _, three = colony
    three.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=is_parallel)
    with three.acting():
        three.table.session.drop_replica()
    lose(three)
    check_nothing_waits(colony, 1)


@ANYHOW
def test_drop_that_was_cut_short_is_settled_by_the_clean_up(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, two, three = colony
    three.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=is_parallel)
    lose(three)
    one.keeper.delete(three.table.replication.replica.host)
    assert statuses(one)
    two.step(two.task("clean up log"))
    assert statuses(one) == []
    drop_dead_replica(one.keeper, one.table.replication.paths, "r3")
    check_nothing_waits(colony, 1)


@ANYHOW
def test_insert_that_began_before_the_drop_and_commits_behind_it(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, two, three = colony
    dropped: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is one and kind == "multi" and path == one.table.replication.paths.log_prefix and not dropped:
            dropped.append(path)
            drop(three, by=two)

    colony.on_request = on_request
    error = refused(lambda: one.insert(1, [1], quorum=3, quorum_parallel=is_parallel, quorum_timeout_seconds=600.0))
    assert dropped
    assert (error.code, "a replica was dropped meanwhile" in str(error)) == (319, True)
    check_nothing_waits(colony, 1)


@ANYHOW
def test_dropped_replica_is_no_holder(make_colony: MakeColony, is_parallel: bool) -> None:
    colony = make_colony(4)
    one, two, three, four = colony
    three.is_frozen = four.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=is_parallel)
    assert statuses(one)[0].replicas == ("r1", "r2")
    drop(two, by=one)
    assert (statuses(one)[0].replicas, statuses(one)[0].required) == (("r1",), 3)
    for _ in range(3):
        three.step_all()
    assert three.keys() == [1]
    assert three.keys(sequential=True) == [], "two replicas have it"
    four.is_frozen = False
    check_nothing_waits(colony, 1)


@ANYHOW
def test_owner_is_dropped_before_anybody_had_the_part(make_colony: MakeColony, is_parallel: bool) -> None:
    """Then it is given up."""
    colony = make_colony(3)
    one, two, three = colony
    two.is_frozen = three.is_frozen = True
    insert_pending(one, 1, 2, is_parallel=is_parallel)
    drop(one, by=two)
    two.is_frozen = three.is_frozen = False
    check_nothing_waits(colony)


@ANYHOW
def test_insert_of_a_larger_quorum_than_there_are_replicas(make_colony: MakeColony, is_parallel: bool) -> None:
    one, _ = make_colony(2)
    error = refused(lambda: one.insert(1, [1], quorum=3, quorum_parallel=is_parallel))
    assert (error.code, "the table has only 2" in str(error)) == (285, True)
    assert one.keys() == []


def test_repeat_that_waits_for_more_copies_than_there_will_be(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    three.is_frozen = True
    assert one.insert(1, [1]) == 1
    at_first_wait(colony, lambda: drop(three, by=two))
    begun = colony.now
    error = refused(lambda: one.insert(1, [1], quorum=3, quorum_timeout_seconds=600.0))
    assert (error.code, colony.now - begun < 60) == (319, True)
    assert "the table has 2" in str(error)
    assert one.insert(1, [1], quorum=2) == 0


def test_transaction_that_waits_for_a_dropped_replica(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    stage(one, 1, [10])
    stage(two, 1, [11])
    three.is_frozen = True
    at_first_wait(colony, lambda: drop(three, by=two))
    begun = colony.now
    options = CommitOptions(quorum=3, timeout_seconds=600.0)
    error = refused(lambda: one.call(lambda table: table.transactions.commit(CommitRequest("x"), options)))
    assert (error.code, colony.now - begun < 60) == (341, True)
    assert "a replica was dropped meanwhile" in str(error)
    check_nothing_waits(colony, 10, 11)


def test_what_may_stay_of_a_status() -> None:
    status = QuorumStatus("all_0_0_0", 3, ("r1", "r3"), "r1", "id", ("p_0_0_0",))
    assert lower_requirement(status, ["r1", "r2", "r3", "r4"]) == status
    assert lower_requirement(status, ["r1", "r2", "r4"]) == QuorumStatus(
        "all_0_0_0", 3, ("r1",), "r1", "id", ("p_0_0_0",)
    )
    assert lower_requirement(status, ["r1", "r3"]).is_met
    assert not lower_requirement(status, ["r1", "r2"]).is_met


def at_request_of(colony: SimulatedCluster, number: int, action: Callable[[], object]) -> list[int]:
    """Once, before the request of this number of one who settles. How many requests are left until then."""
    left = [number]
    settler = colony.ensemble.connect()

    def faults(session: int, kind: str, path: str) -> None:
        if session == settler.session_id:
            left[0] -= 1
            if left[0] == 0:
                action()

    faults_before, colony.ensemble.faults = colony.ensemble.faults, faults
    assert settle_quorums(settler, next(iter(colony)).table.replication.paths)
    colony.ensemble.faults = faults_before
    return left


@ANYHOW
@pytest.mark.parametrize("number", one_in(3, range(1, 16)))
def test_fetch_is_committed_while_it_is_settled(make_colony: MakeColony, number: int, is_parallel: bool) -> None:
    colony = make_colony(3)
    one, two, three = colony
    two.is_frozen = three.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=is_parallel)
    two.step(two.task("pull log"))
    lose(three)
    one.keeper.delete(three.table.replication.replica.host)
    left = at_request_of(colony, number, lambda: two.step(two.task("execute queue 0")))
    if left[0] > 0:
        two.step(two.task("execute queue 0"))
    assert statuses(one) == []


@pytest.mark.parametrize("number", range(1, 16))
def test_another_replica_comes_while_it_is_settled(make_colony: MakeColony, number: int) -> None:
    """What is required is not lowered below the replicas that there are."""
    colony = make_colony(3)
    one, two, three = colony
    two.is_frozen = three.is_frozen = True
    insert_pending(one, 1, 3, is_parallel=True)
    lose(three)
    one.keeper.delete(three.table.replication.replica.host)
    paths = one.table.replication.paths
    answers = one.keeper.get_many([paths.metadata, paths.columns])
    definition = SharedDefinition(*(answer[0].decode() for answer in answers if answer is not None))
    required: list[int] = []

    def come() -> None:
        required.append(statuses(one)[0].required)
        create_table_or_replica(
            one.keeper, paths, "r4", definition, epoch=format_epoch(1, 7), wait=lambda event, seconds: None
        )

    left = at_request_of(colony, number, come)
    (status,) = statuses(one)
    if left[0] > 0:
        assert (status.required, number > 5) == (2, True)
    else:
        assert status.required == required[0]
