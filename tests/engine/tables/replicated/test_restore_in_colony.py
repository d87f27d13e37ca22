"""SYSTEM RESTORE REPLICA: ZooKeeper has lost a table, or is from the past, and the disks have the rows."""

from __future__ import annotations

from contextlib import suppress

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from tests.engine.tables.replicated.lost_zookeeper import (
    MakeColony,
    check_all,
    insert,
    lose,
    put_back,
    read_keys,
    reason,
    restore,
    restored_from_older_snapshot,
)
from tests.engine.tables.replicated.mutations import mutate
from tests.portions import one_in


def test_older_snapshot_is_overcome_by_restoring_every_replica(make_colony: MakeColony) -> None:
    colony = restored_from_older_snapshot(make_colony)
    for node in colony:
        restore(node)
    check_all(colony, read_keys(0, 16))
    for node in colony:
        assert node.table.store.list_detached() == []
    insert(colony.nodes["r2"], 16, 2, quorum=3)
    check_all(colony, read_keys(0, 18))
    for node in colony:
        node.optimize()
    check_all(colony, read_keys(0, 18))
    colony.nodes["r3"].restart()
    check_all(colony, read_keys(0, 18))


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5])
def test_sessions_of_the_snapshot_do_not_hinder_restoring(make_colony: MakeColony, seconds: float) -> None:
    """ZooKeeper ends them at the first tick behind their time-out, which is a second here and two ticks at least. A
    replica that took them for servers would join the old table, and put aside what was merged since."""
    colony = make_colony(3)
    insert(colony.nodes["r1"], 0, 2)
    colony.settle()
    past = colony.ensemble.snapshot()
    insert(colony.nodes["r1"], 2, 3, quorum=3)
    colony.nodes["r1"].optimize()
    colony.settle()
    put_back(colony, past, ends_sessions=False)
    assert len(colony.zombies) == 3
    end = colony.now + seconds

    def wait() -> None:
        if colony.now >= end:
            colony.end_zombies()
        colony.step_others()

    colony.on_wait = wait
    for node in colony:
        restore(node)
    colony.end_zombies()
    check_all(colony, read_keys(0, 5))
    assert [node.table.store.list_detached() for node in colony] == [[], [], []]
    insert(colony.nodes["r2"], 5, 1, quorum=3)
    check_all(colony, read_keys(0, 6))


def test_replica_that_the_snapshot_does_not_know_is_restored_first(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    one = colony.nodes["r1"]
    insert(one, 0, 2)
    past = colony.ensemble.snapshot()
    three = colony.add_node("r3")
    insert(one, 2, 2)
    colony.settle()
    colony.cuts.add(frozenset(("r1", "r3")))
    insert(three, 4, 1)
    colony.cuts.clear()
    put_back(colony, past)
    assert "The replica is missing" in reason(three)
    restore(three)
    assert three.keys() == read_keys(0, 5)
    assert reason(one)
    restore(one)
    check_all(colony, read_keys(0, 5))
    assert three.table.store.list_detached() == []


@pytest.mark.parametrize("lost", ["table", "tree"])
def test_metadata_lost_in_zookeeper(make_colony: MakeColony, lost: str) -> None:
    """Merged parts, several partitions and a replica that is behind among them."""
    colony = make_colony(3)
    one, two, three = colony
    insert(one, 0, 5)
    one.insert(2, [1000, 1001])
    colony.settle()
    one.optimize()
    colony.settle()
    insert(two, 5, 2)
    colony.settle()
    three.is_frozen = True
    insert(one, 7, 3)
    two.step_all()
    two.step_all()
    for node in colony:
        node.crash()
    colony.end_zombies()
    three.is_frozen = False
    keeper = colony.ensemble.connect()
    root = one.table.replication.paths.root
    keeper.delete_tree(root if lost == "table" else "/" + root.split("/")[1])
    for node in colony:
        node.start()
        assert "SYSTEM RESTORE REPLICA db.t" in reason(node)
    restore(three)
    restore(one)
    restore(two)
    check_all(colony, sorted([*read_keys(0, 10), 1000, 1001]))
    insert(three, 10, 2)
    two.optimize()
    check_all(colony, sorted([*read_keys(0, 12), 1000, 1001]))


def test_block_numbers_go_on_behind_the_parts(make_colony: MakeColony) -> None:
    """In every partition, and behind mutations too."""
    colony = make_colony(1)
    (one,) = colony
    insert(one, 0, 3)
    one.insert(2, [1000])
    mutate(one, "DELETE WHERE k = 11")
    colony.settle()
    one.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    one.start()
    restore(one)
    insert(one, 3, 1)
    one.insert(2, [1001])
    one.insert(3, [1002])
    mutate(one, "DELETE WHERE k = 20")
    colony.settle()
    numbers = sorted(part.name.min_block for part in one.table.store.list_active())
    assert numbers == [0, 0, 1, 2, 4, 4, 4]
    one.optimize()
    check_all(colony, [0, 1, 10, 21, 30, 31, 1000, 1001, 1002])


def test_truncate_is_the_first_thing_after_a_restore(make_colony: MakeColony) -> None:
    """Before any INSERT: the parts that were listed have lower block numbers than their partition will ever give."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 3)
    one.insert(2, [1000])
    colony.settle()
    for node in colony:
        node.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
        restore(node)
    colony.settle()
    two.truncate()
    check_all(colony, [])
    insert(one, 0, 1)
    check_all(colony, read_keys(0, 1))


def test_nothing_is_copied_where_hashes_agree(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one = colony.nodes["r1"]
    insert(one, 0, 6)
    colony.settle()
    for node in colony:
        node.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    copied: list[str] = []
    colony.on_copy = lambda part, node: copied.append(f"{part} from {node.name}")
    for node in colony:
        node.start()
    for node in colony:
        restore(node)
    check_all(colony, read_keys(0, 6))
    assert copied == []


def test_what_only_one_has_comes_to_all(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 2)
    colony.settle()
    colony.cuts.add(frozenset(("r1", "r2")))
    insert(one, 2, 2)
    insert(two, 4, 2)
    for node in colony:
        node.crash()
    colony.cuts.clear()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
    restore(two)
    restore(one)
    check_all(colony, read_keys(0, 6))


def test_parts_that_share_blocks_with_others_are_put_aside_and_not_doubled(make_colony: MakeColony) -> None:
    """One has merged what the other has not: the rows are there once, whoever comes first."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 6)
    colony.settle()
    two.is_frozen = True
    one.optimize()
    one.step_all()
    for node in colony:
        node.crash()
    colony.end_zombies()
    two.is_frozen = False
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
    restore(one)
    restore(two)
    check_all(colony, read_keys(0, 6))
    assert all(name.startswith("clone_") for name in two.table.store.list_detached())
    assert len(two.table.store.list_detached()) == 6


def test_merged_sources_on_the_disk_are_not_put_aside(make_colony: MakeColony) -> None:
    """Their rows are in the part that stays: attached again they would be there twice."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 4)
    colony.settle()
    one.optimize()
    colony.settle()
    for node in colony:
        assert len(node.directories()) == 5
        node.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
    for node in colony:
        restore(node)
    check_all(colony, read_keys(0, 4))
    assert two.table.store.list_detached() == []


def test_own_nodes_lost(make_colony: MakeColony) -> None:
    """Of a table that is not lost nothing is added that others do not have: they may have dropped it."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 4)
    colony.settle()
    two.crash()
    colony.end_zombies()
    lose(one, two.table.replication.replica.root)
    one.truncate()
    insert(one, 4, 2)
    two.start()
    assert "The replica is missing in ZooKeeper" in reason(two)
    restore(two)
    check_all(colony, read_keys(4, 2))
    assert len(two.table.store.list_detached()) == 4


def test_restore_is_refused_when_there_is_nothing_to_restore(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 1)
    colony.settle()
    with pytest.raises(PandoError, match="must be readonly") as refused:
        restore(one)
    assert refused.value.code == 36
    two.keeper.expire()
    two.table.state.set_readonly("a test")
    two.keeper.reconnect()
    with pytest.raises(PandoError, match="nothing to restore") as refused:
        restore(two)
    assert refused.value.code == 36
    check_all(colony, read_keys(0, 1))


def lost_table(make_colony: MakeColony, way: str) -> SimulatedCluster:
    """Two replicas that have 6 blocks together, one each alone, and ZooKeeper knows nothing, or too little."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 2)
    colony.settle()
    past = colony.ensemble.snapshot()
    insert(one, 2, 2)
    colony.settle()
    colony.cuts.add(frozenset(("r1", "r2")))
    insert(one, 4, 1)
    insert(two, 5, 1)
    colony.cuts.clear()
    if way == "past":
        put_back(colony, past)
        return colony
    for node in colony:
        node.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
    return colony


def try_to_restore(node: SimulatedNode, *codes: int) -> None:
    """In five seconds; ``codes``: of the errors that may be."""
    try:
        restore(node, timeout_seconds=5)
    except PandoError as error:
        if error.code not in codes:
            raise


@pytest.mark.parametrize("way", ["lost", "past"])
@pytest.mark.parametrize("number", one_in(7, range(1, 120, 17)))
def test_crash_at_every_request_of_a_restore(make_colony: MakeColony, way: str, number: int) -> None:
    """Of either replica. Where the mark is there the restart alone goes on, else the statement is repeated."""
    colony = lost_table(make_colony, way)
    left = [number]

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            node.crash_here()

    colony.on_request = on_request
    for node in colony:
        with suppress(Crash, PandoError):
            restore(node)
    colony.on_request = lambda node, kind, path: None
    colony.end_zombies()
    for _ in range(2):
        for node in colony:
            if not node.is_up:
                node.start()
        for node in colony:
            if reason(node):
                try_to_restore(node, 36, 159)
    check_all(colony, read_keys(0, 6))


@pytest.mark.parametrize("way", ["lost", "past"])
@pytest.mark.parametrize("number", [3, 5, 12, 15, 20, 24, 30])
def test_two_replicas_are_restored_at_once(make_colony: MakeColony, way: str, number: int) -> None:
    colony = lost_table(make_colony, way)
    one, two = colony
    left = [number]

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is not one:
            return
        left[0] -= 1
        if left[0] == 0:
            try_to_restore(two, 159, 999)

    colony.on_request = on_request
    restore(one)
    colony.on_request = lambda node, kind, path: None
    if reason(two):
        restore(two)
    check_all(colony, read_keys(0, 6))
