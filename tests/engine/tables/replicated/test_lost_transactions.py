"""Rows of transactions that went with a disk or a replica: given up whole, or brought back."""

from __future__ import annotations

import pytest

from coordination.replicas.table_nodes import drop_replica
from coordination.transactions.commit_request import Overwrite
from coordination.transactions.transaction_nodes import transaction_node_name
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.errors import PandoError
from tests.engine.tables.replicated.staging import MakeColony, commit, keys, stage


def test_a_disk_that_lost_staged_rows_refuses_the_commit(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    two.insert(1, [1])
    stage(one, 1, [10])
    stage(two, 1, [11])
    colony.settle()
    one.crash()
    one.wipe()
    colony.end_zombies()
    with pytest.raises(PandoError, match="'r1', which holds rows") as away:
        commit(two)
    assert away.value.code == 242
    one.start()
    colony.settle(200)
    with pytest.raises(PandoError, match="replica r1 lost 1 rows") as lost:
        commit(two)
    assert lost.value.code == 649
    colony.settle()
    assert keys(two) == [1]
    colony.now += 3600
    colony.settle()
    assert not two.table.store.staged.list_transactions()


@pytest.mark.parametrize("overwrite", [Overwrite.NOTHING, Overwrite.TABLE])
def test_a_committed_transaction_that_nobody_has_is_given_up_whole(
    make_colony: MakeColony, overwrite: Overwrite, caplog: pytest.LogCaptureFixture
) -> None:
    """The only disk with one of its parts is lost before another replica has fetched it."""
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1])
    colony.settle()
    stage(one, 1, [10])
    stage(two, 2, [11])
    for node in colony:
        node.is_frozen = True
    with pytest.raises(PandoError, match="repeat the COMMIT"):
        commit(two, overwrite=overwrite)
    one.crash()
    one.wipe()
    colony.end_zombies()
    two.is_frozen = three.is_frozen = False
    for _ in range(40):  # it may come back with its disk
        colony.now += 30.0
        two.step_all()
    assert two.table.replication.queue.is_queued(transaction_node_name("x"))
    one.is_frozen = False
    one.force_restore_all = True
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert [keys(node) for node in colony] == [[1]] * 3
    assert "2 rows of it are lost: no replica has 1_" in caplog.text
    assert not any(node.table.store.staged.list_transactions() for node in colony)
    with pytest.raises(PandoError, match="2 rows of it are lost") as told:
        commit(two)
    assert told.value.code == 649
    two.insert(1, [2])
    two.optimize()
    colony.settle()
    colony.check_equal()
    assert keys(three) == [1, 2]


def test_a_lost_transaction_that_comes_along_with_another_is_given_up(make_colony: MakeColony) -> None:
    """It drops some of the rows of the one before, so a replica that has neither brings both in one step."""
    colony = make_colony(3)
    one, two, three = colony
    one.is_frozen = three.is_frozen = True
    for partition in (1, 2):
        stage(two, partition, [10 + partition])
    commit(two)
    two.is_frozen = True
    stage(one, 2, [22], transaction="y")
    stage(two, 3, [23], transaction="y")
    with pytest.raises(PandoError, match="repeat the COMMIT"):
        commit(two, "y", overwrite=Overwrite.PARTITIONS)
    one.crash()
    one.wipe()
    colony.end_zombies()
    for node in colony:
        node.is_frozen = False
    one.force_restore_all = True
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert [keys(node) for node in colony] == [[11, 12]] * 3


def catch_up(colony: SimulatedCluster, late: SimulatedNode, wanted: set[tuple[int, ...]]) -> None:
    """What the replica shows meanwhile, at every request of anybody, is among ``wanted``."""
    seen: set[tuple[int, ...]] = set()
    for _ in range(20):  # the parts as they were committed are gone
        colony.now += 1000
        for node in colony:
            if not node.is_frozen:
                node.step_all()
    late.is_frozen = False
    colony.on_request = lambda node, kind, path: seen.add(tuple(keys(late))) if node is not late else None
    colony.on_failpoint = lambda node, name: seen.add(tuple(keys(late)))
    colony.settle()
    colony.on_request, colony.on_failpoint = lambda node, kind, path: None, lambda node, name: None
    seen.add(tuple(keys(late)))
    colony.check_equal()
    assert seen <= wanted, seen


def test_an_insert_that_is_only_left_merged_with_rows_of_a_transaction(make_colony: MakeColony) -> None:
    """The merged part must not come for the INSERT alone: it would show some of the transaction."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    two.is_frozen = True
    one.insert(1, [1])
    stage(one, 1, [10])
    stage(one, 2, [11])
    commit(one)
    one.optimize()
    catch_up(colony, two, {(), (1,), (1, 10, 11)})


def test_rows_of_two_transactions_that_are_only_left_merged(make_colony: MakeColony) -> None:
    """The merged part comes for both in one step."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    two.is_frozen = True
    for number, partition in enumerate((2, 3, 4)):
        stage(one, 1, [number], transaction=f"{number}")
        stage(one, partition, [10 + number], transaction=f"{number}")
        commit(one, f"{number}")
    one.optimize()
    catch_up(colony, two, {(), (0, 10), (0, 1, 10, 11), (0, 1, 2, 10, 11, 12)})


def test_rows_of_a_transaction_of_which_the_next_has_taken_some_places(make_colony: MakeColony) -> None:
    """The first is never seen without those."""
    colony = make_colony(2, old_parts_lifetime=1)
    one, two = colony
    one.insert(1, [1])
    one.insert(2, [2])
    colony.settle()
    two.is_frozen = True
    for partition in (1, 2):
        stage(one, partition, [10 + partition])
    commit(one, overwrite=Overwrite.PARTITIONS)
    for partition in (2, 3):
        stage(one, partition, [20 + partition], transaction="y")
    commit(one, "y", overwrite=Overwrite.PARTITIONS)
    catch_up(colony, two, {(1, 2), (11, 12), (11, 22, 23)})


def test_a_replica_that_is_dropped_takes_its_staged_rows_along(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    stage(one, 1, [10])
    stage(two, 1, [11])
    one.crash()
    colony.end_zombies()
    drop_replica(two.keeper, two.table.replication.paths, "r1", own_session=False)
    with pytest.raises(PandoError, match="replica r1, which held rows of it, was dropped") as gone:
        commit(two)
    assert gone.value.code == 649
    two.step_all()
    colony.now += 3600
    two.step_all()
    assert keys(two) == []
    assert not two.table.store.staged.list_transactions()


def test_what_a_lost_disk_listed_and_another_has_still_staged_comes_back(make_colony: MakeColony) -> None:
    """r1 has carried the entry out and loses its disk, while r2, which staged half of it, stands still."""
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1])
    colony.settle()
    stage(two, 1, [10])
    stage(two, 2, [11])
    two.is_frozen = three.is_frozen = True
    commit(one)
    assert keys(one) == [1, 10, 11]
    one.crash()
    one.wipe()
    colony.end_zombies()
    one.force_restore_all = True
    one.start()
    for _ in range(60):
        colony.now += 30.0
        one.step_all()
    two.is_frozen = three.is_frozen = False
    colony.settle(300)
    colony.check_equal()
    assert keys(one) == keys(two) == keys(three) == [1, 10, 11]
