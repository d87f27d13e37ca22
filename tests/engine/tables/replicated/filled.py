"""Colonies whose replicas have parts, for tests that take some of them away."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode

MakeColony = Callable[..., SimulatedCluster]


def filled(make_colony: MakeColony, replicas: int = 2, parts: int = 10) -> SimulatedCluster:
    """Every part has two rows and files of its own."""
    colony = make_colony(replicas, min_bytes_for_full_part_storage=0)
    for number in range(parts):
        colony.nodes["r1"].insert(1, [10 * number, 10 * number + 1])
    colony.settle()
    return colony


def delete_parts(node: SimulatedNode, count: int) -> None:
    for directory in node.directories()[:count]:
        shutil.rmtree(directory)
