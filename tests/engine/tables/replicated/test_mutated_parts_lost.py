"""A mutated part is lost while its source is still on a disk: the source comes back, and is mutated again."""

from __future__ import annotations

import shutil

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from tests.engine.tables.replicated.mutations import MakeColony, mutate, shown, values


def left(*keys: int) -> dict[int, str]:
    return {key: f"value {key}" for key in keys}


def lose(colony: SimulatedCluster, *names: str) -> None:
    """Every replica loses the parts, which are mutated, and finds the sources when it starts."""
    for node in colony:
        node.crash()
        for name in names:
            shutil.rmtree(node.path / name, ignore_errors=True)
    colony.end_zombies()
    for node in colony:
        node.force_restore_all = True
        node.start()


def check(colony: SimulatedCluster, expected: dict[int, str]) -> None:
    colony.settle(300)
    colony.check_equal()
    for node in colony:
        assert values(node) == expected, node.name
        assert all(mutation.is_done for mutation in shown(node))


@pytest.mark.parametrize("replicas", [1, 2])
def test_deleted_rows_do_not_come_back(make_colony: MakeColony, replicas: int) -> None:
    colony = make_colony(replicas)
    one = colony.nodes["r1"]
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    mutate(one, "DELETE WHERE k = 2")
    mutate(one, "UPDATE v = 'new' WHERE k = 3")
    check(colony, left(1, 4) | {3: "new"})
    lose(colony, *one.parts())
    check(colony, left(1, 4) | {3: "new"})


def test_only_what_the_remnant_lacks_is_done_again(make_colony: MakeColony) -> None:
    """The first mutation is older than the part that is left; it stays done."""
    colony = make_colony(1)
    (one,) = colony
    one.insert(1, [1, 2])
    mutate(one, "UPDATE v = concat(v, ' a') WHERE 1")
    colony.settle()
    one.insert(1, [3, 4])
    mutate(one, "DELETE WHERE k = 3")
    expected = {1: "value 1 a", 2: "value 2 a", 4: "value 4"}
    check(colony, expected)
    lose(colony, "1_2_2_0_3")
    check(colony, expected)


def test_a_merged_part_is_lost(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one = colony.nodes["r1"]
    one.insert(1, [1, 2])
    one.insert(1, [3, 4])
    colony.settle()
    mutate(one, "DELETE WHERE k = 2")
    colony.settle()
    one.optimize()
    check(colony, left(1, 3, 4))
    lose(colony, "1_0_1_1_2", "1_0_0_0_2", "1_1_1_0_2")
    check(colony, left(1, 3, 4))


def test_a_mutation_that_is_not_known_any_more_is_told_of(
    make_colony: MakeColony, caplog: pytest.LogCaptureFixture
) -> None:
    colony = make_colony(1, finished_mutations_to_keep=0, old_parts_lifetime=1_000_000)
    (one,) = colony
    one.insert(1, [1, 2])
    mutate(one, "DELETE WHERE k = 2")
    colony.settle()
    forget_mutations(colony, one)
    lose(colony, *one.parts())
    colony.settle(300)
    assert values(one) == left(1, 2)
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert any("1_0_0_0_1" in text and "part 1_0_0_0 of" in text and "repeat the mutations" in text for text in told), (
        told
    )


def forget_mutations(colony: SimulatedCluster, node: SimulatedNode) -> None:
    for _ in range(20):
        colony.now += 100
        node.step_all()
    assert node.keeper.children(node.table.replication.paths.mutations) == []
