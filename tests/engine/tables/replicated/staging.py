"""Rows that are staged for a transaction, and its commit."""

from __future__ import annotations

from collections.abc import Callable

from coordination.transactions.commit_request import CommitOutcome, CommitRequest, Overwrite
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import CommitOptions

MakeColony = Callable[..., SimulatedCluster]

OLD = [1, 2, 3]

NEW = [10, 11, 12, 13]


def stage(node: SimulatedNode, partition: int, keys: list[int], attempt: str = "", transaction: str = "x") -> int:
    token = f"{partition}:{keys}"
    return node.insert(partition, keys, transaction=transaction, transaction_attempt=attempt, deduplication_token=token)


def commit(
    node: SimulatedNode, transaction: str = "x", *, timeout_seconds: float = 60.0, **wishes: object
) -> CommitOutcome:
    request = CommitRequest(transaction, **wishes)  # type: ignore[arg-type]
    options = CommitOptions(timeout_seconds=timeout_seconds)
    outcome = node.call(lambda table: table.transactions.commit(request, options))
    assert isinstance(outcome, CommitOutcome)
    return outcome


def keys(node: SimulatedNode) -> list[int]:
    return node.keys()


def scenario(colony: SimulatedCluster) -> tuple[SimulatedNode, SimulatedNode]:
    one, two = colony
    one.insert(1, [1, 2])
    two.insert(2, [3])
    colony.settle()
    stage(one, 1, [10, 11])
    stage(two, 2, [12])
    stage(two, 3, [13])
    stage(one, 3, [99], attempt="failed")
    return one, two


def finish(colony: SimulatedCluster) -> None:
    """The driver repeats its commit, on the other replica, until it is told what became of it."""
    colony.heal()
    for node in reversed(list(colony)):
        outcome = commit(node, overwrite=Overwrite.TABLE, attempts=("",), rows=4)
        assert outcome.rows == 4
    colony.settle()
    colony.check_equal()
    assert [keys(node) for node in colony] == [NEW, NEW]
