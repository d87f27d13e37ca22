"""ZooKeeper loses its data, or gets them back from an older snapshot; and the remedy."""

from __future__ import annotations

from collections.abc import Callable

from coordination.keeper.memory_tree import Snapshot
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.query_status import QueryStatus

MakeColony = Callable[..., SimulatedCluster]


def put_back(colony: SimulatedCluster, past: Snapshot, *, ends_sessions: bool = True) -> None:
    """All servers are down meanwhile, and start behind it. Without ``ends_sessions`` those of the copy still last."""
    for node in colony:
        if node.is_up:
            node.crash()
    colony.zombies = colony.ensemble.restore(past)
    if ends_sessions:
        colony.end_zombies()
    for node in colony:
        node.start()


def lose(node: SimulatedNode, path: str) -> None:
    """Somebody deletes the node and all below it, whatever depends on it."""
    keeper = node.cluster.ensemble.connect()
    keeper.delete_tree(path)


def restore(node: SimulatedNode, timeout_seconds: float = 60.0) -> None:
    node.call(lambda table: table.replication.restore(timeout_seconds, QueryStatus()))


def reason(node: SimulatedNode) -> str:
    return node.table.state.readonly_reason


def insert(node: SimulatedNode, first: int, count: int, **options: object) -> None:
    for number in range(first, first + count):
        node.insert(1, [10 * number, 10 * number + 1], **options)


def read_keys(first: int, count: int) -> list[int]:
    return [key for number in range(first, first + count) for key in (10 * number, 10 * number + 1)]


def restored_from_older_snapshot(make_colony: MakeColony, replicas: int = 3) -> SimulatedCluster:
    """Of 16 blocks that all replicas have confirmed, ZooKeeper knows 4."""
    colony = make_colony(replicas)
    one = colony.nodes["r1"]
    insert(one, 0, 4, quorum=replicas)
    colony.settle()
    past = colony.ensemble.snapshot()
    insert(one, 4, 12, quorum=replicas)
    colony.settle()
    put_back(colony, past)
    return colony


def check_all(colony: SimulatedCluster, keys: list[int]) -> None:
    colony.settle()
    colony.check_equal()
    for node in colony:
        assert node.keys() == keys, node.name
