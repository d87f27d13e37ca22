"""A replica that is being cloned needs what the others clean up: the log behind its pointer, and mutations."""

from __future__ import annotations

from collections.abc import Callable

from coordination.nodes.paths import parse_sequence_number
from coordination.replicas.clone import needs_clone
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from tests.engine.tables.replicated.beside import settle, step
from tests.engine.tables.replicated.mutations import MakeColony, mutate, values


def lose_last(colony: SimulatedCluster) -> SimulatedNode:
    """The last replica was down for so long that it is marked as lost."""
    node = list(colony)[-1]
    node.crash()
    colony.end_zombies()
    next(iter(colony)).keeper.set(node.table.replication.replica.is_lost, b"1")
    return node


def start_cloning(colony: SimulatedCluster, node: SimulatedNode, meanwhile: Callable[[], object]) -> list[str]:
    """Starts the replica. ``meanwhile`` is called once, when pointer and queue are copied and the replica is still
    marked as lost. The list has one item for each time that it is cloned."""
    cloned: list[str] = []

    def on_request(who: SimulatedNode, kind: str, path: str) -> None:
        if who is node and kind == "multi" and path == node.table.replication.replica.is_lost:
            cloned.append(path)
            if len(cloned) == 1:
                meanwhile()

    colony.on_request = on_request
    node.start()
    node.step(node.task("ZooKeeper session"))
    return cloned


def test_the_log_is_kept_for_a_replica_that_is_being_cloned(make_colony: MakeColony) -> None:
    """Trimmed below its pointer it would have to be cloned again, under INSERTs for ever."""
    colony = make_colony(3, min_replicated_logs_to_keep=1, cleanup_delay_period=1)
    one, two, _ = colony
    one.insert(1, [0])
    colony.settle()
    three = lose_last(colony)
    kept: list[int] = []

    def meanwhile() -> None:
        pointer = int(one.keeper.get(three.table.replication.replica.log_pointer)[0])
        for key in range(1, 10):
            one.insert(1, [key])
        step(colony, one, two)
        kept.extend(
            i - pointer
            for i in map(parse_sequence_number, one.keeper.children(one.table.replication.paths.log))
            if i >= pointer
        )

    cloned = start_cloning(colony, three, meanwhile)
    assert kept == list(range(9))
    colony.settle()
    colony.check_equal()
    assert len(cloned) == 1, "it need not be cloned again"
    assert three.keys() == list(range(10))
    assert len(one.keeper.children(one.table.replication.paths.log)) == 1


def test_a_mutation_is_kept_for_a_replica_that_is_being_cloned(make_colony: MakeColony) -> None:
    """It has copied the work of the mutation from another replica, which then carries it out and is done with it."""
    colony = make_colony(3, finished_mutations_to_keep=0, cleanup_delay_period=1)
    one, two, _ = colony
    one.insert(1, [1, 2])
    colony.settle()
    three = lose_last(colony)
    mutate(one, "UPDATE v = 'new' WHERE k = 1")
    for task in ("mutations", "pull log"):  # assigned, and not carried out
        one.step(one.task(task))
    assert one.table.replication.queue.list_entries()

    def meanwhile() -> None:
        step(colony, one, two)
        assert not one.table.replication.queue.list_entries()
        colony.cuts |= {frozenset(("r1", "r3")), frozenset(("r2", "r3"))}

    assert start_cloning(colony, three, meanwhile)
    step(colony, *colony)
    assert values(three) == {1: "new", 2: "value 2"}, "it needs nobody to carry the mutation out"
    colony.cuts.clear()
    settle(colony, {1: "new", 2: "value 2"})
    assert not one.keeper.children(one.table.replication.paths.mutations)


def test_the_last_replica_is_not_lost_when_the_log_has_gone_on_without_it(make_colony: MakeColony) -> None:
    """Marked as lost, none could be cloned from it."""
    colony = make_colony(2)
    one, _ = colony
    one.insert(1, [0])
    colony.settle()
    two = lose_last(colony)
    one.is_frozen = True
    for key in range(1, 4):
        one.insert(1, [key])
    log = one.table.replication.paths.log
    for name in one.keeper.children(log)[:-1]:
        one.keeper.delete(f"{log}/{name}")
    one.table.replication.restart()
    step(colony, one)
    assert "must be cloned" in one.table.state.readonly_reason
    assert not needs_clone(one.keeper, one.table.replication.replica)
    assert needs_clone(one.keeper, two.table.replication.replica)
    assert one.keys() == [0, 1, 2, 3]
