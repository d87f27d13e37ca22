"""A server whose replica another server has taken over, while its own ZooKeeper session lives on, changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.keeper.interface import Keeper
from coordination.nodes.replica_activation import ReplicaAddress
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import PandoError
from tests.coordination.real_time import activate

MakeColony = Callable[..., SimulatedCluster]


def take_over(colony: SimulatedCluster, node: SimulatedNode) -> Keeper:
    """Another server on the same data becomes active as this replica; closing the keeper ends it."""
    replica = node.table.replication.replica
    keeper = colony.ensemble.connect()
    identity = keeper.get(replica.is_active)[0].decode()
    activate(keeper, replica, ReplicaAddress("127.0.0.1", 99), identity, wait_seconds=1.0, takes_over=True)
    return keeper


def state_of(node: SimulatedNode) -> object:
    """Whatever a server writes on behalf of its replica."""
    paths, replica, keeper = node.table.replication.paths, node.table.replication.replica, node.keeper
    nodes = [replica.log_pointer, replica.min_unprocessed_insert_time, paths.log, paths.blocks, paths.block_numbers]
    parents = [paths.log, paths.blocks, replica.parts, replica.queue, paths.partition("1"), paths.quorum_parallel]
    return [keeper.get_many(nodes), [keeper.children(path) for path in parents]]


ACTIONS: dict[str, Callable[[SimulatedNode], object]] = {
    "insert": lambda node: node.insert(1, [7]),
    "insert with quorum": lambda node: node.insert(1, [8], quorum=2, quorum_timeout_seconds=1.0),
    "pull": lambda node: node.step(node.task("pull log")),
    "execute": lambda node: node.step(node.task("execute queue 0")),
    "clean": lambda node: (node.step(node.task("clean up log")), node.step(node.task("clean up"))),
    "optimize": lambda node: node.call(lambda table: table.optimize(OptimizeOptions(final=True))),
    "truncate": lambda node: node.call(lambda table: table.truncate()),
}
PLACES = [
    ("insert.after_temporary_part", "insert"),
    ("insert.before_commit", "insert"),
    ("insert.before_commit", "insert with quorum"),
    ("fetch.after_temporary_part", "execute"),
    ("produced.after_rename", "execute"),
    ("merge.after_temporary_part", "optimize"),
    ("produced.after_rename", "optimize"),
    *(("", name) for name in ACTIONS),
]


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_server_that_was_taken_over_commits_nothing(make_colony: MakeColony, place: str, name: str) -> None:
    """``place``: the failpoint that the action has come to when the other server appears; "" before it begins."""
    colony = make_colony(2, queue_wait_seconds=0.1)
    one, two = colony
    for key in range(3):
        one.insert(1, [key])
    if name == "execute":
        two.step(two.task("pull log"))
    else:
        colony.settle()
        one.insert(1, [3])
    one.is_frozen = True
    others: list[Keeper] = []
    states: list[object] = []

    def displace() -> None:
        others.append(take_over(colony, two))
        states.append(state_of(two))

    def at(node: SimulatedNode, failpoint: str) -> None:
        if node is two and failpoint == place and not others:
            displace()

    colony.on_failpoint = at
    if not place:
        displace()
    with contextlib.suppress(PandoError):
        ACTIONS[name](two)
    assert others, "the action did not come to its place"
    for action in ACTIONS.values():
        with contextlib.suppress(PandoError):
            action(two)
    assert state_of(two) == states[0]
    two.step_all()
    assert "still holds" in two.table.state.readonly_reason, "it does not take its place back by force"
    others[0].close()
    one.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert two.insert(1, [100]) == 1
