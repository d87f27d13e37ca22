"""Mutations of replicated tables: all replicas change the same rows, whatever comes between."""

from __future__ import annotations

import pytest

from parts.common.query_status import QueryStatus
from tests.engine.tables.replicated.mutations import MakeColony, code, kill, mutate, shown, values


def old(*keys: int) -> dict[int, str]:
    return {key: f"value {key}" for key in keys}


def new(*keys: int) -> dict[int, str]:
    return dict.fromkeys(keys, "new")


UPDATE = "UPDATE v = 'new' WHERE k % 2 = 0"


def test_all_replicas_change_the_same_rows(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1, 2])
    two.insert(2, [3, 4])
    colony.settle()
    assert mutate(one, UPDATE) == "0000000000"
    three.insert(1, [6])  # comes behind it
    colony.settle()
    colony.check_equal()
    for node in colony:
        assert values(node) == old(1, 3, 6) | new(2, 4)
        assert {name.count("_") for name in node.parts()} == {3, 4}
        (mutation,) = shown(node)
        assert mutation.is_done
        assert mutation.parts_to_do == []
        assert mutation.numbers == {"1": 1, "2": 1}
    mutate(two, "DELETE IN PARTITION ID '1' WHERE k >= 2")
    colony.settle()
    one.optimize()
    colony.settle()
    colony.check_equal()
    for node in colony:
        assert values(node) == old(1, 3) | new(4)
        assert len(node.parts()) == 2


def test_sync_replica_knows_of_every_mutation_made_before(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    two.keeper._child_watches.clear()  # what a watch tells comes late
    mutate(one, UPDATE)
    assert shown(two) == []
    two.call(lambda table: table.replication.sync(10.0, QueryStatus()))
    assert [mutation.is_done for mutation in shown(two)] == [False]


def test_waiting(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    one.insert(1, [1, 2])
    colony.settle()
    mutate(two, UPDATE, sync=1)
    assert values(two) == old(1) | new(2)
    mutate(two, "UPDATE v = 'two' WHERE k = 2", sync=2)
    assert values(one) == values(two) == values(three) == old(1) | {2: "two"}
    three.is_frozen = True
    assert code(lambda: mutate(one, UPDATE, sync=2, timeout_seconds=5.0)) == 341
    assert values(one) == values(two) == old(1) | new(2)
    with pytest.raises(Exception, match="replicas r3 have not carried it out yet"):
        mutate(one, UPDATE, sync=2, timeout_seconds=5.0)
    three.is_frozen = False
    colony.settle()
    colony.check_equal()
    three.crash()
    colony.end_zombies()
    mutate(one, "UPDATE v = 'three' WHERE k = 2", sync=2)  # who is not active is not waited for
    three.start()
    colony.settle()
    assert values(three) == old(1) | {2: "three"}


def test_a_mutation_that_fails_is_shown_and_killed(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    assert code(lambda: mutate(one, "UPDATE v = toString(toUInt8(v)) WHERE 1", sync=1)) == 341
    for _ in range(30):
        colony.now += 1
        one.step_all()
        two.step_all()
    for node in colony:
        (mutation,) = shown(node)
        assert not mutation.is_done
        assert mutation.failure.part == "1_0_0_0"
        assert "value 1" in mutation.failure.reason
        assert list(map(str, mutation.parts_to_do)) == ["1_0_0_0"]
        assert values(node) == old(1, 2)
    assert not kill(two, "0000000007")
    assert kill(two, "0000000000")
    colony.settle()
    colony.check_equal()
    assert shown(one) == shown(two) == []
    assert values(one) == values(two) == old(1, 2)
    mutate(one, UPDATE, sync=1)
    colony.settle()
    assert values(two) == old(1) | new(2)
    assert not kill(two, "0000000001")  # it is done
