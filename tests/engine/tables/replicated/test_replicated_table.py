"""Replicated tables against each other: inserts, merges, crashes, recovery, quorum."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.services import Slots
from parts.common.part_name import PartName


def test_inserts_through_all_replicas_converge(tmp_path: Path) -> None:
    colony = SimulatedCluster(tmp_path, 3)
    for number, node in enumerate([*colony.nodes.values()] * 3):
        assert node.insert(number % 2, [number * 10, number * 10 + 1]) == 2
    colony.settle()
    expected = sorted(n * 10 + i for n in range(9) for i in range(2))
    contents = [node.parts() for node in colony.nodes.values()]
    assert [node.keys() for node in colony.nodes.values()] == [expected] * 3
    assert contents[0] == contents[1] == contents[2]
    for node in colony.nodes.values():
        assert node.list_zookeeper_parts() == set(node.parts())


def test_repeated_block_is_dropped_on_every_replica(tmp_path: Path) -> None:
    colony = SimulatedCluster(tmp_path, 2)
    one, two = colony.nodes.values()
    assert one.insert(1, [1, 2]) == 2
    assert two.insert(1, [1, 2]) == 0
    assert one.insert(1, [1, 2]) == 0
    assert two.insert(1, [1, 2], deduplicate=False) == 2
    colony.settle()
    assert one.keys() == two.keys() == [1, 1, 2, 2]


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_fetches_at_a_time_than_the_server_may_make(tmp_path: Path, most: int) -> None:
    colony = SimulatedCluster(tmp_path, 2)
    one, two = colony
    two.is_frozen = True
    two.table.services.fetches = Slots(most)
    for key in range(3):
        one.insert(1, list(range(key * 20_000, (key + 1) * 20_000)))  # too large to be brought with others
    two.step(two.task("pull log"))
    at_a_time: list[int] = []

    def on_copy(part: PartName, source: SimulatedNode) -> None:
        at_a_time.append(len(list(two.path.glob("tmp_fetch_*"))))
        for number in (1, 2):
            two.step(two.task(f"execute queue {number}"))

    colony.on_copy = on_copy
    two.step(two.task("execute queue 0"))
    assert max(at_a_time) == most
    assert two.table.services.fetches.free == most
    two.is_frozen = False
    colony.settle()
    colony.check_equal()
