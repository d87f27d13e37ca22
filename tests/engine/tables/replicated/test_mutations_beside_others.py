"""Mutations beside inserts, quorums, drops, transactions, clones and losses: which rows they change."""

from __future__ import annotations

import pytest

from coordination.transactions.commit_request import Overwrite
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.stopped_actions import StoppableAction
from parts.common.part_name import PartName
from tests.coordination.real_time import drop_partition
from tests.engine.tables.replicated.beside import at_failpoint, during_insert, settle, step
from tests.engine.tables.replicated.mutations import MakeColony, code, mutate, shown, values
from tests.engine.tables.replicated.staging import commit, stage
from tests.engine.tables.replicated.test_attaching_in_colony import attach
from tests.engine.tables.replicated.test_mutations_in_colony import UPDATE, new, old


def test_a_block_between_its_number_and_its_commit_is_changed(make_colony: MakeColony) -> None:
    """Its number is below the mutation's."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    seen: list[object] = []

    def meanwhile() -> None:
        mutate(two, UPDATE)
        step(colony, two)
        seen.append((values(two), [mutation.is_done for mutation in shown(two)]))

    done = during_insert(colony, one, meanwhile)
    one.insert(1, [3, 4])
    assert done
    assert seen == [(old(1) | new(2), [False])]  # it may still come
    one.insert(1, [5, 6])
    settle(colony, old(1, 3, 5, 6) | new(2, 4))


def test_waiting_for_a_block_that_is_being_committed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    answers: list[int] = []
    done = during_insert(
        colony, one, lambda: answers.append(code(lambda: mutate(two, UPDATE, sync=1, timeout_seconds=3.0)))
    )
    one.insert(1, [1, 2])
    assert done
    assert answers == [341]
    settle(colony, old(1) | new(2))


def test_inserts_are_deduplicated_as_before(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    mutate(two, UPDATE, sync=2)
    assert one.insert(1, [1, 2]) == 0
    mutate(two, "DELETE WHERE k = 2", sync=2)
    assert two.insert(1, [1, 2]) == 0
    settle(colony, old(1))


def test_a_part_that_awaits_its_quorum_is_not_changed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    two.table.allow(StoppableAction.FETCHES, False)
    assert code(lambda: one.insert(1, [3, 4], quorum=2, quorum_timeout_seconds=3.0)) == 319
    mutate(one, UPDATE)
    step(colony, one, two)
    assert values(one) == old(1, 3, 4) | new(2)
    assert not shown(one)[0].is_done
    two.table.allow(StoppableAction.FETCHES, True)
    settle(colony, old(1, 3) | new(2, 4))


def test_a_quorum_that_fails(make_colony: MakeColony) -> None:
    """The mutation has nothing to do there any more."""
    colony = make_colony(3)
    one, two, three = colony
    for node in (two, three):
        node.table.allow(StoppableAction.FETCHES, False)
    assert code(lambda: one.insert(1, [3, 4], quorum=3, quorum_timeout_seconds=3.0)) == 319
    mutate(two, UPDATE)
    one.crash()
    colony.end_zombies()
    for node in (two, three):
        node.table.allow(StoppableAction.FETCHES, True)
    for _ in range(30):
        colony.now += 7
        two.step_all()
        three.step_all()
    one.start()
    settle(colony, {})


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("point", ["mutation.after_temporary_part", "produced.after_rename", "produced.after_commit"])
def test_a_drop_in_the_middle(make_colony: MakeColony, point: str, detach: bool) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(2, [3, 4])
    colony.settle()

    def drop() -> None:
        other = two if colony.stack[-1] is one else one
        drop_logged(other, "1", detach=detach)

    done = at_failpoint(colony, point, drop)
    mutate(one, UPDATE)
    settle(colony, old(3) | new(4))
    assert done
    one.insert(1, [1, 2])  # may come again, and is behind the mutation
    settle(colony, old(1, 2, 3) | new(4))


def drop_logged(node: SimulatedNode, partition: str, *, detach: bool = False) -> None:
    """Does not wait until it is carried out."""

    def drop(table: object) -> None:
        state = node.table.state
        with state.hold_write_access() as (keeper, _):
            last_blocks = node.table.log_pull.last_blocks(keeper)
            drop_partition(
                keeper, state.paths, node.name, partition, detach=detach, clock=lambda: 0.0, last_blocks=last_blocks
            )

    node.call(drop)


def test_truncate_of_what_is_half_changed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    two.table.allow(StoppableAction.MERGES, False)
    two.table.allow(StoppableAction.FETCHES, False)
    mutate(one, UPDATE, sync=1)
    two.truncate()
    two.table.allow(StoppableAction.MERGES, True)
    two.table.allow(StoppableAction.FETCHES, True)
    settle(colony, {})
    mutate(one, UPDATE, sync=2)
    settle(colony, {})


def test_a_number_taken_before_a_drop_and_a_mutation_behind_it(make_colony: MakeColony) -> None:
    """The drop has a smaller number than the mutation, whose parts it takes all the same."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    done: list[str] = []

    def on_request(who: SimulatedNode, kind: str, path: str) -> None:
        if who is one and kind == "multi" and path == who.table.replication.paths.log_prefix and not done:
            done.append(path)
            mutate(two, UPDATE)
            step(colony, two)
            assert list(two.parts()) == ["1_0_0_0_2"]

    colony.on_request = on_request
    drop_logged(one, "1")
    assert done
    settle(colony, {})


def test_drop_of_a_part(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    two.table.allow(StoppableAction.MERGES, False)
    two.table.allow(StoppableAction.FETCHES, False)
    mutate(one, UPDATE, sync=1)

    def drop(name: str, *, detach: bool = False) -> int:
        return code(lambda: two.call(lambda t: t.partitions.drop_part(PartName.parse(name), detach=detach)))

    assert drop("1_0_0_0") == 384  # its mutation is assigned
    two.table.allow(StoppableAction.MERGES, True)
    two.table.allow(StoppableAction.FETCHES, True)
    colony.settle()
    assert drop("1_0_0_0_2", detach=True) == 0
    settle(colony, old(3) | new(4))


def test_what_was_detached_comes_back_as_it_was(make_colony: MakeColony) -> None:
    """Behind the mutation: it has another number."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(2, [3, 4])
    colony.settle()
    one.call(lambda table: table.partitions.drop("1", detach=True))
    mutate(two, UPDATE)
    attach(one, "1")
    settle(colony, old(1, 2, 3) | new(4))
    mutate(two, UPDATE)
    settle(colony, old(1, 3) | new(2, 4))
    two.call(lambda table: table.partitions.drop("1", detach=True))
    attach(two, "1")
    settle(colony, old(1, 3) | new(2, 4))


@pytest.mark.parametrize("overwrite", list(Overwrite))
def test_a_transaction_beside_it(make_colony: MakeColony, overwrite: Overwrite) -> None:
    """What is staged has no number yet: it is behind a mutation that comes before its commit."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    stage(one, 1, [3, 4])
    stage(two, 1, [5, 6])
    one.is_frozen = True
    mutate(two, UPDATE)
    commit(two, overwrite=overwrite)
    one.is_frozen = False
    kept = old(1) | new(2) if overwrite is Overwrite.NOTHING else {}
    settle(colony, dict(sorted((kept | old(3, 4, 5, 6)).items())))
    mutate(one, UPDATE)
    kept = old(1) | new(2) if overwrite is Overwrite.NOTHING else {}
    settle(colony, dict(sorted((kept | old(3, 5) | new(4, 6)).items())))


def test_a_transaction_between_its_numbers_and_its_commit(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    stage(one, 1, [3, 4])
    stage(one, 1, [5, 6])
    colony.settle()
    done = during_insert(colony, one, lambda: mutate(two, UPDATE))
    commit(one)
    assert done
    settle(colony, old(1, 3, 5) | new(2, 4, 6))


def test_who_joins_later_and_who_was_lost(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    two.crash()
    colony.end_zombies()
    mutate(one, UPDATE, sync=1)
    one.insert(1, [3, 4])
    one.table.allow(StoppableAction.MERGES, False)
    mutate(one, "UPDATE v = 'later' WHERE k < 4")
    one.keeper.set(two.table.replication.replica.is_lost, b"1")
    colony.add_node("r3")
    two.start()
    one.table.allow(StoppableAction.MERGES, True)
    settle(colony, dict.fromkeys((1, 2, 3), "later") | old(4))


def test_a_source_that_is_missing_is_not_needed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    two.crash()
    colony.end_zombies()
    one.insert(1, [3, 4])
    mutate(one, UPDATE, sync=1)
    one.table.store.delete(one.table.store.list_deletable(one.clock.monotonic() + 1e6))
    two.start()
    settle(colony, old(1, 3) | new(2, 4))


def test_the_sole_holder_is_gone(make_colony: MakeColony) -> None:
    """Nobody can make the part any more: it is given up, and the mutation ends."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    two.is_frozen = True
    one.insert(1, [3, 4])
    mutate(one, UPDATE, sync=1)
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    two.is_frozen = False
    one.start()
    colony.settle(400)
    settle(colony, old(1) | new(2))
    one.insert(1, [3, 4])  # the block is free again
    settle(colony, old(1, 3, 4) | new(2))


def test_two_at_once(make_colony: MakeColony) -> None:
    """One comes before the other, on all replicas."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    done: list[str] = []

    def on_request(who: SimulatedNode, kind: str, path: str) -> None:
        if who is one and kind == "multi" and path == who.table.replication.paths.mutation_prefix and not done:
            done.append(path)
            mutate(two, "UPDATE v = concat(v, ' b') WHERE 1")

    colony.on_request = on_request
    assert mutate(one, "UPDATE v = concat(v, ' a') WHERE 1") == "0000000001"
    assert done
    settle(colony, {1: "value 1 b a", 2: "value 2 b a"})


def test_a_result_that_differs_is_fetched(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, _ = colony
    one.insert(1, [1, 2])
    colony.settle()
    command = "UPDATE v = toString(rand()) WHERE 1"
    assert code(lambda: mutate(one, command)) == 36
    assert code(lambda: mutate(one, "DELETE WHERE k IN (SELECT 1)")) == 36
    mutate(two, command, may_differ=True)
    settle(colony)
    assert values(one) not in ({}, old(1, 2))
