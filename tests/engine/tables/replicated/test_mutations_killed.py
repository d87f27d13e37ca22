"""Mutations that are killed, lag behind, or whose commit has no answer."""

from __future__ import annotations

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.log.log_entry import EntryType
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from tests.engine.tables.replicated.beside import at_failpoint, settle, step
from tests.engine.tables.replicated.mutations import MakeColony, code, kill, mutate, shown, values
from tests.engine.tables.replicated.test_mutations_in_colony import UPDATE, new, old


@pytest.mark.parametrize("point", ["mutation.after_temporary_part", "produced.after_rename"])
def test_killed_in_the_middle(make_colony: MakeColony, point: str) -> None:
    """Nothing is changed after KILL has answered."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()

    def kill_it() -> None:
        assert kill(two if colony.stack[-1] is one else one, "0000000000")

    done = at_failpoint(colony, point, kill_it)
    mutate(one, UPDATE)
    settle(colony, old(1, 2))
    assert done
    assert shown(one) == []


def test_killed_while_somebody_waits(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    for node in colony:
        node.table.allow(StoppableAction.MERGES, False)
    is_killed: list[bool] = []

    def on_wait() -> None:
        if not is_killed:
            is_killed.append(kill(two, "0000000000"))
        colony.step_others()

    colony.on_wait = on_wait
    with pytest.raises(PandoError, match="Mutation 0000000000 was killed") as caught:
        mutate(one, UPDATE, sync=2)
    assert caught.value.code == 341


def test_some_parts_were_changed_before_the_kill(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    done = at_failpoint(colony, "produced.after_commit", lambda: kill(one, "0000000000"))
    mutate(two, UPDATE)
    colony.settle()
    colony.check_equal()
    assert done
    assert values(one) == values(two)
    changed = {key for key, value in values(one).items() if value == "new"}
    assert changed in ({2}, {4})
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    settle(colony)
    assert len(one.parts()) == 1


def test_old_ones_are_removed(make_colony: MakeColony) -> None:
    colony = make_colony(2, finished_mutations_to_keep=1, cleanup_delay_period=1)
    one, two = colony
    one.insert(1, [1, 2])
    for number in range(3):
        mutate(one, f"UPDATE v = '{number}' WHERE 1")
    colony.settle()
    step(colony, one, two)
    assert [mutation.id for mutation in shown(one)] == [mutation.id for mutation in shown(two)] == ["0000000002"]
    settle(colony, {1: "2", 2: "2"})


def test_merges_wait_for_those_that_lag_behind(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, _ = colony
    one.insert(1, [1, 2])
    colony.settle()
    for node in colony:
        node.is_frozen = True
    mutate(one, UPDATE)
    one.insert(1, [3, 4])
    assert code(one.optimize) == 388
    for node in colony:
        node.is_frozen = False
    settle(colony, old(1, 3, 4) | new(2))
    one.optimize()
    settle(colony, old(1, 3, 4) | new(2))
    assert list(one.parts()) == ["1_0_2_1_1"]


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST], ids=str)
def test_a_commit_whose_answer_is_lost(make_colony: MakeColony, fault: Fault) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    done: list[str] = []

    def on_request(who: SimulatedNode, kind: str, path: str) -> Fault | None:
        mutating = [
            item.name for item in who.table.replication.queue.list_entries() if item.entry.type is EntryType.MUTATE_PART
        ]
        if kind == "multi" and path in map(who.table.replication.replica.queue_entry, mutating) and len(done) < 2:
            done.append(who.name)
            return fault
        return None

    colony.on_request = on_request
    mutate(one, UPDATE)
    step(colony, one, two)
    colony.heal()
    assert done
    settle(colony, old(1) | new(2))


@pytest.mark.parametrize("fault", list(Fault), ids=str)
def test_nobody_waits_for_numbers_of_a_mutation_that_may_have_been_made(make_colony: MakeColony, fault: Fault) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()

    def on_request(who: SimulatedNode, kind: str, path: str) -> Fault | None:
        return fault if kind == "multi" and path == who.table.replication.paths.mutation_prefix else None

    colony.on_request = on_request
    answer = code(lambda: mutate(one, UPDATE))
    colony.calm()
    settle(colony)  # no number is left behind
    assert values(one) in {0: [old(1) | new(2)], 341: [old(1, 2), old(1) | new(2)]}.get(answer, [old(1, 2)])
    two.insert(1, [3])
    one.optimize()
    settle(colony)
    assert len(one.parts()) == 1
