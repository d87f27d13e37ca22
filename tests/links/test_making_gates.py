"""Gates of tables that an older version made: they come when all replicas know them, and no commit slips past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryKeeper
from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.replica_activation import FEATURE_GATE, FEATURES, ReplicaAddress
from coordination.nodes.table_gate import make_gate_if_known, move_gate
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.common.errors import PandoError
from tests.engine.tables.replicated.lost_zookeeper import lose, restore

MakeColony = Callable[..., SimulatedCluster]
OLD_FEATURES = tuple(name for name in FEATURES if name != FEATURE_GATE)
BAR = Bar("a test", KeptOut.COMMITS, reason="closed by a test")


@pytest.fixture
def colony(tmp_path: Path) -> SimulatedCluster:
    """Two replicas of a table that an older version made; r2 is of that version."""
    colony = SimulatedCluster(tmp_path, 2, 0)
    colony.settle()
    become(colony.nodes["r2"], OLD_FEATURES)
    keeper = colony.ensemble.connect()
    keeper.delete_tree(colony.nodes["r1"].table.replication.paths.links)
    for node in reversed(list(colony)):
        begin_anew(node)
    colony.settle()
    return colony


def become(node: SimulatedNode, features: tuple[str, ...]) -> None:
    node.replication.address = replace(node.replication.address, features=features)


def begin_anew(node: SimulatedNode) -> None:
    node.call(lambda table: table.replication.restart())
    node.step_all()


def gates(colony: SimulatedCluster) -> list[Gate | None]:
    return [node.table.state.gate.gate for node in colony]


def has_gate(colony: SimulatedCluster) -> bool:
    return colony.ensemble.connect().exists(colony.nodes["r1"].table.replication.paths.gate) is not None


def close(colony: SimulatedCluster) -> None:
    move_gate(colony.ensemble.connect(), colony.nodes["r1"].table.replication.paths, lambda gate: gate.with_bar(BAR))


def test_a_new_table_has_its_gate_from_the_first_moment(tmp_path: Path) -> None:
    colony = SimulatedCluster(tmp_path, 2, 0)
    one, two = gates(colony)
    assert one is not None
    assert one == two
    assert one.epoch.startswith("1-")
    assert not one.bars
    keeper = colony.ensemble.connect()
    paths = colony.nodes["r1"].table.replication.paths
    assert keeper.get(paths.gate)[1].created_zxid == keeper.get(paths.root)[1].created_zxid


def test_two_tables_have_two_epochs(tmp_path: Path) -> None:
    found = [gates(SimulatedCluster(tmp_path / str(seed), 1, seed))[0] for seed in (1, 2)]
    assert None not in found
    assert found[0] != found[1]


def test_no_gate_beside_a_replica_that_would_not_check_it(colony: SimulatedCluster) -> None:
    assert not has_gate(colony)
    for node in colony:
        node.insert(1, [int(node.name[1:])])
    with pytest.raises(PandoError, match="runs a version that does not know it"):
        close(colony)


def test_the_gate_comes_with_the_last_replica_that_is_upgraded(colony: SimulatedCluster) -> None:
    become(colony.nodes["r2"], FEATURES)
    begin_anew(colony.nodes["r2"])
    assert has_gate(colony)
    colony.nodes["r1"].insert(1, [1])
    colony.nodes["r2"].insert(1, [2])
    assert gates(colony)[0] == gates(colony)[1] is not None
    colony.settle()
    assert colony.nodes["r1"].keys() == [1, 2]


def test_a_commit_that_saw_no_gate_does_not_pass_a_closed_one(colony: SimulatedCluster) -> None:
    """r1 has looked before r2 made the gate."""
    one, two = colony
    become(two, FEATURES)
    closed: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is one and kind == "multi" and path == one.table.replication.paths.log_prefix and not closed:
            closed.append(path)
            begin_anew(two)
            close(colony)

    colony.on_request = on_request
    with pytest.raises(PandoError, match="closed by a test"):
        one.insert(1, [1])
    assert closed
    colony.settle()
    assert one.keys() == two.keys() == []


@pytest.mark.parametrize("joins", [True, False])
def test_a_replica_of_an_older_version_that_comes_meanwhile(colony: SimulatedCluster, joins: bool) -> None:
    """It is activated, or it joins, between the look at all replicas and the gate."""
    one, two = colony
    become(two, FEATURES)
    begin_anew_without_gate(two)
    keeper = colony.ensemble.connect()
    paths = one.table.replication.paths
    come = iter([True])

    def multi(ops: object, send: Callable[..., object] = keeper.multi) -> object:
        if next(come, False):
            other = colony.ensemble.connect()
            if joins:
                other.set(paths.replicas, b"")
            else:
                other.set(paths.replica("r2").host, ReplicaAddress("h", 1, features=OLD_FEATURES).to_bytes())
        return send(ops)

    keeper.multi = multi  # type: ignore[method-assign, assignment]
    assert not make_gate_if_known(keeper, paths, "1-0")
    assert not has_gate(colony)


def begin_anew_without_gate(node: SimulatedNode) -> None:
    keeper, paths = node.cluster.ensemble.connect(), node.table.replication.paths
    keeper.set(paths.replica(node.name).host, ReplicaAddress("h", 1).to_bytes())


def test_a_gate_whose_parent_was_left_is_made_again(tmp_path: Path) -> None:
    colony = SimulatedCluster(tmp_path, 1, 0)
    (node,) = colony
    colony.ensemble.connect().delete(node.table.replication.paths.gate)
    begin_anew(node)
    assert has_gate(colony)
    node.insert(1, [1])


def test_whoever_makes_it_at_the_same_time_agrees(colony: SimulatedCluster) -> None:
    one, two = colony
    become(two, FEATURES)
    begin_anew_without_gate(two)
    paths = one.table.replication.paths
    keeper: MemoryKeeper = colony.ensemble.connect()
    first: Iterator[bool] = iter([True])

    def multi(ops: object, send: Callable[..., object] = keeper.multi) -> object:
        if next(first, False):
            assert make_gate_if_known(colony.ensemble.connect(), paths, "1-1")
        return send(ops)

    keeper.multi = multi  # type: ignore[method-assign, assignment]
    assert make_gate_if_known(keeper, paths, "1-2")
    assert Gate.parse(keeper.get(paths.gate)[0]).epoch == "1-1"


def test_a_restored_table_has_a_new_epoch(tmp_path: Path) -> None:
    """Its first gate is gone with all that ZooKeeper knew, its bars too."""
    colony = SimulatedCluster(tmp_path, 2, 0)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    former = one.table.state.gate.gate
    close(colony)
    for node in colony:
        node.crash()
    colony.end_zombies()
    lose(one, one.table.replication.paths.root)
    for node in colony:
        node.start()
    for node in colony:
        restore(node)
    colony.settle()
    assert gates(colony)[0] == gates(colony)[1]
    new = gates(colony)[0]
    assert former is not None
    assert new is not None
    assert new.epoch != former.epoch
    assert not new.bars
    two.insert(1, [3])
    colony.settle()
    assert one.keys() == [1, 2, 3]


def test_a_replica_that_comes_later_takes_the_gate_as_it_is(tmp_path: Path) -> None:
    colony = SimulatedCluster(tmp_path, 1, 0)
    close(colony)
    colony.add_node("r2")
    colony.settle()
    assert gates(colony)[1] == gates(colony)[0]
    with pytest.raises(PandoError, match="closed by a test"):
        colony.nodes["r2"].insert(1, [1])
