"""What happens at chosen moments beside a mutation, and what all replicas have in the end."""

from __future__ import annotations

from collections.abc import Callable

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from tests.engine.tables.replicated.mutations import shown, values


def settle(colony: SimulatedCluster, *expected: dict[int, str]) -> None:
    colony.settle()
    colony.check_equal()
    for node in colony:
        for wanted in expected:
            assert values(node) == wanted, node.name
        assert all(mutation.is_done for mutation in shown(node)), node.name


def step(colony: SimulatedCluster, *nodes: SimulatedNode) -> None:
    for _ in range(5):
        colony.now += 7
        for node in nodes:
            node.step_all()


def at_failpoint(colony: SimulatedCluster, name: str, action: Callable[[], object]) -> list[str]:
    """Once, whoever passes it."""
    done: list[str] = []

    def on_failpoint(node: SimulatedNode, point: str) -> None:
        if point == name and not done:
            done.append(node.name)
            action()

    colony.on_failpoint = on_failpoint
    return done


def during_insert(colony: SimulatedCluster, node: SimulatedNode, action: Callable[[], object]) -> list[str]:
    """Between the number of its block and the commit."""
    done: list[str] = []

    def on_request(who: SimulatedNode, kind: str, path: str) -> None:
        if who is node and kind == "multi" and path == who.table.replication.paths.log_prefix and not done:
            done.append(path)
            action()

    colony.on_request = on_request
    return done
