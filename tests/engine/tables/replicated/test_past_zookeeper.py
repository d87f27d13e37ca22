"""ZooKeeper is from the past: what a replica refuses, what it says, and what it lists by itself."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

from coordination.nodes.part_record import PartRecord
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from recovery import force_restore_flag
from recovery.replica_inspection import ReplicaInspection, inspect_replica
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


def test_older_snapshot_is_refused_by_every_replica(make_colony: MakeColony) -> None:
    colony = restored_from_older_snapshot(make_colony)
    for node in colony:
        assert "231" in reason(node)
        assert "ZooKeeper is from the past: 12 parts with 24 rows" in reason(node)
        assert "SYSTEM RESTORE REPLICA db.t" in reason(node)
        assert node.keys() == read_keys(0, 16), "SELECT goes on"
        assert node.table.store.list_detached() == []
        with pytest.raises(PandoError) as refused:
            insert(node, 100, 1)
        assert refused.value.code == 242
    for node in colony:
        node.step_all()
        assert node.table.store.list_detached() == []


def test_older_snapshot_is_noticed_by_running_servers(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 2)
    colony.settle()
    past = colony.ensemble.snapshot()
    insert(one, 2, 3)
    colony.settle()
    for owner in colony.ensemble.restore(past):
        colony.ensemble.end_session(owner)
    for node in colony:
        node.keeper.reconnect()
        node.step_all()
    assert "from the past: 3 parts" in reason(one)
    assert "from the past: 3 parts" in reason(two)


def test_inspection_tells_of_the_past_and_knows_marks_of_drops(make_colony: MakeColony) -> None:
    """``pando recovery status``. ``dropped_1_1_1_0`` reads as the name of a part, too."""
    colony = make_colony(1)
    (one,) = colony
    insert(one, 0, 3)
    one.call(lambda table: table.store.drop_active([PartName.parse("1_1_1_0")]))

    def inspect() -> ReplicaInspection:
        return inspect_replica(one.keeper, one.table.replication.replica, one.path, 0.5, "db.t")

    assert (inspect().broken, inspect().forgotten) == ([], [])
    past = colony.ensemble.snapshot()
    insert(one, 3, 1)
    put_back(colony, past)
    assert [str(part) for part in inspect().forgotten] == ["1_3_3_0"]
    assert "SYSTEM RESTORE REPLICA db.t" in inspect().refusal


def test_forced_restore_from_an_older_snapshot_keeps_all_in_detached(make_colony: MakeColony) -> None:
    colony = restored_from_older_snapshot(make_colony)
    for node in colony:
        force_restore_flag.set_flag(node.keeper, node.table.replication.replica)
    check_all(colony, read_keys(0, 4))
    for node in colony:
        assert len(node.table.store.list_detached()) == 12


def test_merges_that_the_snapshot_does_not_know_are_refused(make_colony: MakeColony) -> None:
    """No new block number tells; but the merged part is on two disks."""
    colony = make_colony(2, old_parts_lifetime=1)
    one = colony.nodes["r1"]
    insert(one, 0, 20)
    colony.settle()
    one.optimize()
    colony.settle()
    big = next(iter(one.parts()))
    insert(one, 20, 2)
    colony.settle()
    past = colony.ensemble.snapshot()
    one.optimize()
    colony.settle()
    assert next(iter(one.parts())) != big
    put_back(colony, past)
    for node in colony:
        node.restart()
        assert "from the past: 1 parts with 44 rows" in reason(node)
    for node in colony:
        restore(node)
    check_all(colony, read_keys(0, 22))


def test_numbers_that_were_given_twice_are_refused(make_colony: MakeColony) -> None:
    """One replica knows no more than ZooKeeper and goes on; the blocks that it inserts have the numbers of other's."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 2)
    colony.settle()
    past = colony.ensemble.snapshot()
    colony.cuts.add(frozenset(("r1", "r2")))
    insert(two, 2, 3)
    put_back(colony, past)
    assert reason(one) == ""
    two.crash()
    insert(one, 10, 3)
    colony.cuts.clear()
    colony.end_zombies()
    two.start()
    assert "from the past: 3 parts with 6 rows" in reason(two)
    assert two.keys() == read_keys(0, 5)
    insert(one, 13, 1)
    restore(two)
    check_all(colony, [*read_keys(0, 2), *read_keys(10, 4)])
    assert sorted(two.table.store.list_detached()) == ["clone_1_2_2_0", "clone_1_3_3_0", "clone_1_4_4_0"]


def test_interrupted_inserts_are_no_sign_of_the_past(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one = colony.nodes["r1"]
    insert(one, 0, 2)
    colony.settle()

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == "insert.after_rename":
            node.crash_here()

    colony.on_failpoint = on_failpoint
    with pytest.raises(Crash):
        insert(one, 2, 1)
    colony.on_failpoint = lambda node, name: None
    colony.end_zombies()
    assert len(one.directories()) == 3
    one.start()
    assert reason(one) == ""
    check_all(colony, read_keys(0, 2))


def written_anew(make_colony: MakeColony) -> SimulatedCluster:
    """ZooKeeper and the disk of r1 are put back to an older copy, and clients repeat their INSERTs into r1. Of 16
    blocks that r2 has, ZooKeeper lists 4 for it: numbers and contents of the others are as they were."""
    colony = make_colony(2)
    one, _ = colony
    insert(one, 0, 4)
    colony.settle()
    past, copy = colony.ensemble.snapshot(), colony.root / "copy"
    shutil.copytree(one.path, copy)
    insert(one, 4, 12)
    colony.settle()
    for node in colony:
        node.crash()
    colony.zombies = colony.ensemble.restore(past)
    colony.end_zombies()
    one.wipe()
    shutil.copytree(copy, one.path)
    one.start()
    insert(one, 4, 12)
    return colony


def test_parts_that_others_list_with_equal_content_are_listed_too(make_colony: MakeColony) -> None:
    colony = written_anew(make_colony)
    one, two = colony
    fetched: list[PartName] = []
    colony.on_copy = lambda part, _: fetched.append(part)
    two.start()
    assert not reason(two)
    check_all(colony, read_keys(0, 16))
    assert two.table.store.list_detached() == []
    assert not fetched, "what it has is not copied"
    insert(two, 16, 1)
    one.optimize()
    check_all(colony, read_keys(0, 17))
    two.restart()
    check_all(colony, read_keys(0, 17))


def test_beside_parts_that_nobody_lists_the_start_is_refused_as_before(make_colony: MakeColony) -> None:
    """ZooKeeper forgot the ones, and may have forgotten the others: they are not put aside as interrupted INSERTs."""
    colony = written_anew(make_colony)
    one, two = colony
    with suppress(Crash):
        colony.on_failpoint = lambda node, name: node.crash_here() if name == "insert.before_commit" else None
        insert(one, 20, 1)
    (unlisted,) = (path for path in one.directories() if path.name == "1_16_16_0")
    shutil.copytree(unlisted, two.path / unlisted.name)
    colony.on_failpoint = lambda node, name: None
    colony.end_zombies()
    one.start()
    two.start()
    assert "231" in reason(two)
    assert two.table.store.list_detached() == []


def test_a_part_that_others_list_with_other_content_is_not_listed(make_colony: MakeColony) -> None:
    """A merged one, say, of which nothing proves that ZooKeeper is from the past."""
    colony = make_colony(2)
    one, two = colony
    insert(one, 0, 2)
    one.optimize()
    colony.settle()
    insert(one, 2, 6)
    colony.settle()
    (merged,) = (part for part in two.table.store.list_active() if part.name.level)
    lose(two, two.table.replication.replica.part(str(merged.name)))
    keeper = colony.ensemble.connect()
    path = one.table.replication.replica.part(str(merged.name))
    record = PartRecord.parse(keeper.get(path)[0])
    keeper.set(path, replace(record, content_hash="0" * 32).to_bytes())
    two.restart()
    assert not reason(two)
    assert f"ignored_{merged.name}" in two.table.store.list_detached()


def test_pando_recovery_shows_parts_that_would_be_listed(make_colony: MakeColony) -> None:
    colony = written_anew(make_colony)
    two = colony.nodes["r2"]
    found = inspect_replica(colony.ensemble.connect(), two.table.replication.replica, two.path, 0.5, "db.t")
    assert not found.refusal
    assert found.plan is not None
    assert len(found.plan.agreed) == 12
    assert not found.plan.unexpected
