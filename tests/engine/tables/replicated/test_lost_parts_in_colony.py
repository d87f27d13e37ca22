"""Parts that no replica has any more, given up while others are away or answers are lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.keeper.interface import Create, Delete
from coordination.keeper.memory_keeper import Fault
from coordination.nodes.part_record import PartRecord
from coordination.replicas.table_nodes import drop_dead_replica
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import PandoError
from tests.coordination.real_time import drop_partition

MakeColony = Callable[..., SimulatedCluster]


def lose_merged_part(colony: SimulatedCluster, *sleepers: SimulatedNode) -> None:
    """Blocks 0 and 1 are on all replicas; 2 and 3, and the merge of all four, were on r1's disk alone."""
    one = colony.nodes["r1"]
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    for node in colony:
        node.is_frozen = node is not one
    for key in range(2, 4):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    for node in sleepers:
        node.crash()
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    for node in colony:
        node.is_frozen = False
    one.start()


def test_merges_that_stand_on_a_lost_part_are_given_up_one_after_the_other(make_colony: MakeColony) -> None:
    """The one would make what the other lacks, and the other covers what the one lacks: neither is there."""
    colony = make_colony(3)
    one, two, three = colony
    for key in range(2):
        one.insert(1, [key])
    one.optimize()
    colony.settle()
    two.is_frozen = three.is_frozen = True
    one.insert(1, [2])
    one.optimize()
    assert list(one.parts()) == ["1_0_2_2"]
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    two.is_frozen = three.is_frozen = False
    two.insert(1, [3])
    for _ in range(2):  # the first takes over what is in the log
        two.call(merge_newest)
    assert "1_0_3_3" in [str(item.entry.new_part) for item in two.table.replication.queue.list_entries()]
    one.start()
    colony.settle(300)
    assert [node.keys() for node in colony] == [[0, 1, 3]] * 3
    colony.check_equal()


def merge_newest(table: ReplicatedTable) -> None:
    """The last two parts of the partition."""
    with table.state.hold_write_access() as (keeper, _):
        predicate = table.merge_steps._predicate(keeper, ["1"])
        *_, run = predicate.list_mergeable_runs("1")
        if len(run) > 1:
            assert table.merge_steps._assign(keeper, predicate, [run[-2:]], OptimizeOptions(), "Regular")


@pytest.mark.parametrize("has_pulled", [True, False])
def test_replica_that_slept_while_others_gave_a_part_up_follows_them(make_colony: MakeColony, has_pulled: bool) -> None:
    """It still waits for the lost part, and what the others merged since lies across it."""
    colony = make_colony(3)
    one, two, three = colony
    if has_pulled:
        lose_merged_part(colony)
        one.is_frozen = two.is_frozen = True
        while len(three.table.replication.queue.list_entries()) != 1:
            colony.now += 10.0
            three.step_all()
        three.crash()
        colony.end_zombies()
        one.is_frozen = two.is_frozen = False
    else:
        lose_merged_part(colony, three)
    colony.settle(300)
    assert one.keys() == two.keys() == [0, 1]
    two.insert(1, [4])
    colony.settle()
    with pytest.raises(PandoError, match="was lost, and some replica does not know it yet"):
        two.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    two.call(merge_newest)
    colony.settle()
    three.start()
    colony.settle(300)
    colony.check_equal()
    assert three.keys() == [0, 1, 4]
    for key in range(5, 20):
        one.insert(1, [key])
    colony.settle()
    colony.settle()
    two.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    colony.check_equal()
    assert len(three.parts()) == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.EXPIRE_AFTER, Fault.LOSE_REQUEST])
def test_lost_answer_while_a_part_is_given_up(make_colony: MakeColony, fault: Fault) -> None:
    colony = make_colony(2)
    one, two = colony
    faults = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if kind == "multi" and path.endswith("/log") and node.table.state.activation is not None:
            faults.append(path)
            return fault if len(faults) < 3 else None
        return None

    lose_merged_part(colony)
    colony.on_request = on_request
    for _ in range(100):
        colony.now += 30.0
        for node in colony:
            node.step_all()
            node.keeper.reconnect()
    colony.settle()
    assert len(faults) > 2
    assert one.keys() == two.keys() == [0, 1]
    colony.check_equal()


def wait_in_vain(colony: SimulatedCluster) -> tuple[SimulatedNode, SimulatedNode]:
    """Two replicas wait for blocks 0 and 1 and for the merged part. The third had them, and was dropped."""
    one, two, three = colony
    one.is_frozen = two.is_frozen = True
    for key in range(2):
        three.insert(1, [key])
    three.optimize()
    for node in (one, two):
        node.step(node.task("pull log"))
    three.crash()
    colony.end_zombies()
    drop_dead_replica(one.keeper, one.table.replication.paths, colony.nodes.pop("r3").name)
    assert [str(item.entry.new_part) for item in two.table.replication.queue.list_entries()] == [
        "1_0_0_0",
        "1_1_1_0",
        "1_0_1_1",
    ]
    one.is_frozen = False
    return one, two


def look_while(colony: SimulatedCluster, one: SimulatedNode, two: SimulatedNode, action: Callable[[], object]) -> None:
    """The first replica fetches in vain until it looks whether a part is lost. The action comes when it reads the queue
    of the other."""
    done: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is one and path == two.table.replication.replica.queue and not done:
            done.append(path)
            action()

    colony.on_request = on_request
    while not done:
        colony.now += 10.0
        one.step_all()


def test_a_part_is_not_lost_that_another_replica_commits_merged_meanwhile(make_colony: MakeColony) -> None:
    """It fetched the merged part before the holder was gone, in the place of a source. The rows may not come again."""
    colony = make_colony(3)
    one, two = wait_in_vain(colony)
    paths, (source, *_) = one.table.replication.paths, two.table.replication.queue.list_entries()

    def commit() -> None:
        listed = Create(two.table.replication.replica.part("1_0_1_1"), PartRecord("hash", 2, 10).to_bytes())
        colony.ensemble.connect().multi([Delete(two.table.replication.replica.queue_entry(source.name)), listed])

    look_while(colony, one, two, commit)
    assert len(one.keeper.children(paths.blocks)) == 2
    assert one.keeper.get(paths.lost_part_count)[0] in (b"", b"0")


def test_a_part_that_is_dropped_while_it_is_looked_for_is_not_lost(make_colony: MakeColony) -> None:
    """Nobody misses it: the drop takes it out of the queues."""
    colony = make_colony(3)
    one, two = wait_in_vain(colony)

    def drop() -> None:
        drop_partition(colony.ensemble.connect(), one.table.replication.paths, "r2", "1", clock=lambda: colony.now)

    look_while(colony, one, two, drop)
    two.is_frozen = False
    colony.settle()
    colony.check_equal()
    assert one.keeper.get(one.table.replication.paths.lost_part_count)[0] in (b"", b"0")
    assert one.insert(1, [0]) == 1
