"""Transactions that wait for a quorum: who counts for it, and who sees them until then."""

from __future__ import annotations

import pytest

from coordination.transactions.commit_request import CommitRequest
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.tables.statement_options import CommitOptions
from parts.common.errors import PandoError
from tests.engine.tables.replicated.staging import MakeColony, keys, stage


def test_the_quorum_is_waited_for(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    two.is_frozen = True
    request, options = CommitRequest("x"), CommitOptions(quorum=2, timeout_seconds=20.0)
    with pytest.raises(PandoError, match="not visible on 2 replicas") as late:
        one.call(lambda table: table.transactions.commit(request, options))
    assert late.value.code == 341
    two.is_frozen = False
    one.call(lambda table: table.transactions.commit(request, options))
    assert keys(two) == [10]
    two.crash()
    colony.end_zombies()
    stage(one, 1, [20], transaction="y")
    with pytest.raises(PandoError) as few:
        one.call(lambda table: table.transactions.commit(CommitRequest("y"), options))
    assert few.value.code == 285


def begin_quorum(colony: SimulatedCluster, required: int) -> tuple[CommitRequest, CommitOptions]:
    """A COMMIT of two parts that waits for its quorum; everybody but the first is frozen."""
    one, two, *_ = colony
    stage(one, 1, [10])
    stage(two, 2, [11])
    for node in list(colony)[1:]:
        node.is_frozen = True
    request, options = CommitRequest("x"), CommitOptions(quorum=required, timeout_seconds=20.0)
    with pytest.raises(PandoError, match="not visible on"):
        one.call(lambda table: table.transactions.commit(request, options))
    return request, options


def test_sequential_reads_see_a_transaction_when_it_has_its_quorum(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    request, options = begin_quorum(colony, 2)
    assert keys(one) == [10, 11]
    assert not one.keys(sequential=True)
    two.is_frozen = False
    one.call(lambda table: table.transactions.commit(request, options))
    assert one.keys(sequential=True) == two.keys(sequential=True) == [10, 11]
    with pytest.raises(PandoError) as behind:
        three.keys(sequential=True)
    assert behind.value.code == 289
    three.is_frozen = False
    colony.settle()
    assert three.keys(sequential=True) == [10, 11]
    one.optimize()
    colony.settle()
    colony.check_equal()


def test_what_a_drop_takes_of_a_waiting_transaction_is_waited_for_no_more(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    begin_quorum(colony, 2)
    one.call(lambda table: table.partitions.drop("1"))
    assert not one.keys(sequential=True)
    two.is_frozen = False
    colony.settle()
    assert one.keys(sequential=True) == two.keys(sequential=True) == [11]


def test_a_clone_counts_for_the_quorum_of_a_transaction(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    begin_quorum(colony, 3)
    three.crash()
    colony.end_zombies()
    two.is_frozen = False
    colony.settle()
    assert not one.keys(sequential=True)
    three.wipe()
    three.force_restore_all = True
    three.is_frozen = False
    three.start()
    colony.settle()
    colony.now += 3_600
    colony.settle()
    assert [node.keys(sequential=True) for node in colony] == [[10, 11]] * 3
