"""Disk and ZooKeeper disagree: what is mended, what is refused, and how the operator insists."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coordination.inserts.block_numbers import BlockLock, allocate_block_number, release_block_number
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import CorruptionError, PandoError
from recovery import force_restore_flag
from tests.engine.tables.replicated.filled import MakeColony, delete_parts, filled


def test_emptied_directory_is_filled_from_the_others(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    expected = one.keys()
    two.crash()
    two.wipe()
    colony.end_zombies()
    one.insert(1, [1000])
    two.start()
    assert two.table.state.readonly_reason == ""
    colony.settle()
    colony.check_equal()
    assert two.keys() == [*expected, 1000]


def test_empty_disk_of_the_sole_holder_is_refused(make_colony: MakeColony) -> None:
    """It may not be mounted. Nobody else has the parts, so ZooKeeper's list must not be given up lightly."""
    colony = filled(make_colony, 1)
    one = colony.nodes["r1"]
    one.crash()
    colony.end_zombies()
    one.path.rename(one.path.with_name("away"))
    one.start()
    assert "231" in one.table.state.readonly_reason
    one.crash()
    colony.end_zombies()
    shutil.rmtree(one.path)
    one.path.with_name("away").rename(one.path)
    one.start()
    colony.settle()
    colony.check_equal()
    assert len(one.keys()) == 20


@pytest.mark.parametrize("way", ["znode", "server"])
def test_great_loss_is_refused_until_forced(make_colony: MakeColony, way: str) -> None:
    colony = filled(make_colony)
    one, two = colony
    two.crash()
    delete_parts(two, 6)
    before = two.directories()
    two.start()
    assert "231" in two.table.state.readonly_reason
    assert "replicated_max_ratio_of_wrong_parts" in (two.table.replication.problem() or "")
    assert len(two.keys()) == 8
    assert two.directories() == before
    with pytest.raises(PandoError) as refused:
        two.insert(1, [5000])
    assert refused.value.code == 242
    for _ in range(3):
        two.step_all()
    assert two.directories() == before
    assert not two.table.store.list_detached()
    if way == "znode":
        force_restore_flag.set_flag(one.keeper, two.table.replication.replica)
    else:
        two.force_restore_all = True
        two.restart()
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys()
    assert not force_restore_flag.is_flag_set(one.keeper, two.table.replication.replica)


def test_forced_restore_that_a_crash_interrupts_goes_on(make_colony: MakeColony) -> None:
    """The flag stays until all is done: the operator has said it once."""
    colony = filled(make_colony)
    one, two = colony
    two.crash()
    delete_parts(two, 6)
    two.start()
    force_restore_flag.set_flag(one.keeper, two.table.replication.replica)
    begun: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if (
            node is two
            and kind == "multi"
            and path.startswith(two.table.replication.replica.queue_prefix)
            and not begun
        ):
            begun.append(path)
            node.crash_here()

    colony.on_request = on_request
    two.step(two.task("ZooKeeper session"))
    assert begun
    colony.end_zombies()
    two.start()
    assert two.table.state.readonly_reason == ""
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys()
    assert not force_restore_flag.is_flag_set(one.keeper, two.table.replication.replica)


def test_small_loss_is_mended(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    two.crash()
    delete_parts(two, 3)
    two.start()
    assert two.table.state.readonly_reason == ""
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys()


def test_unexpected_part_is_detached(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    lock = allocate_block_number(one.keeper, one.table.replication.paths, "1")
    assert isinstance(lock, BlockLock)
    assert release_block_number(one.keeper, lock)  # a number that no part uses
    two.crash()
    shutil.copytree(two.path / "1_0_0_0", two.path / f"1_{lock.number}_{lock.number}_0")
    two.start()
    colony.settle()
    colony.check_equal()
    assert two.table.store.list_detached() == ["ignored_1_10_10_0"]
    assert two.keys() == one.keys()


def test_broken_part_at_start(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    two.crash()
    (two.directories()[2] / "meta.bin").write_bytes(b"x")
    two.start()
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys()
    assert [name.startswith("broken-on-start_") for name in two.table.store.list_detached()] == [True]


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def test_flipped_byte_met_by_a_read(make_colony: MakeColony) -> None:
    """Reads fail until the copy is here; at no moment rows are silently missing."""
    colony = filled(make_colony)
    one, two = colony
    expected = one.keys()
    flip_byte(two.directories()[4] / "data.bin")
    colony.cuts.add(frozenset(("r1", "r2")))
    with pytest.raises(CorruptionError) as met:
        two.keys()
    assert met.value.code == 40
    two.table.report_corruption(met.value)
    for _ in range(3):
        two.step_all()
        with pytest.raises(CorruptionError):
            two.keys()
    colony.cuts.clear()
    colony.settle()
    assert two.keys() == expected
    colony.check_equal()
    assert two.table.store.list_detached() == [f"broken_{met.value.part}"]


def test_flipped_byte_met_by_a_merge(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    flip_byte(two.directories()[4] / "data.bin")
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys()
    assert len(two.parts()) == 1


def test_zookeeper_away_at_start(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    two.crash()
    colony.end_zombies()
    two.start(keeper_is_away=True)
    assert "ZooKeeper" in (two.table.replication.problem() or "")
    assert len(two.keys()) == 20
    with pytest.raises(PandoError) as refused:
        two.insert(1, [5000])
    assert refused.value.code in (242, 999)
    one.insert(1, [6000])
    two.keeper.reconnect()
    colony.settle()
    colony.check_equal()
    assert two.insert(1, [5000]) == 1
    colony.settle()
    assert one.keys() == two.keys()


def test_missing_merged_part_leaves_its_sources_readable(make_colony: MakeColony) -> None:
    colony = filled(make_colony)
    one, two = colony
    expected = one.keys()
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    two.force_restore_all = True
    two.crash()
    shutil.rmtree(next(path for path in two.directories() if path.name.endswith("_1")))
    colony.cuts.add(frozenset(("r1", "r2")))
    two.start()
    assert two.keys() == expected
    colony.cuts.clear()
    colony.settle()
    colony.check_equal()
    assert two.keys() == expected
    assert len(two.parts()) == 1


def test_definition_must_agree(make_colony: MakeColony) -> None:
    colony = filled(make_colony, 1)
    one = colony.nodes["r1"]
    one.crash()
    one.keeper = colony.ensemble.connect()
    one.keeper.set("/tables/t/columns", b"something else")
    one.start()
    assert "342" in one.table.state.readonly_reason
    assert len(one.keys()) == 20


def test_metadata_gone_from_zookeeper(make_colony: MakeColony) -> None:
    colony = filled(make_colony, 1)
    one = colony.nodes["r1"]
    one.keeper.delete_tree("/tables/t")
    one.restart()
    assert "225" in one.table.state.readonly_reason
    assert len(one.keys()) == 20
    with pytest.raises(PandoError):
        one.insert(1, [1])


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_path_deleted_under_running_servers_stays_deleted(make_colony: MakeColony, turns: int) -> None:
    """So that the table can be made anew there."""
    colony = filled(make_colony)
    one, two = colony
    one.keeper.delete_tree("/tables/t")
    for _ in range(turns):
        colony.now += 10
        colony.step_others()
    for statement in (
        lambda: one.insert(1, [100]),
        lambda: one.insert(1, [100], transaction="x", transaction_attempt="", deduplication_token="t"),
        lambda: one.call(lambda table: table.transactions.rollback("y")),
        lambda: one.call(lambda table: table.scan_records(is_alone=False).record("scan", b"parts")),
        one.truncate,
    ):
        with pytest.raises(PandoError):
            statement()
        colony.now += 10
        colony.step_others()
    assert "/tables/t" not in colony.ensemble.tree
    assert len(one.keys()) == len(two.keys()) == 20
    assert "225" in one.table.state.readonly_reason
    colony.add_node("r3")
    assert "/tables/t" in colony.ensemble.tree


def test_intersecting_log_stops_the_replica(make_colony: MakeColony) -> None:
    """Memory that cannot follow ZooKeeper must not go on."""
    from coordination.log.log_entry import EntryType, LogEntry
    from parts.common.part_name import PartName

    colony = filled(make_colony)
    one = colony.nodes["r1"]
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    bad = LogEntry(EntryType.GET_PART, PartName("1", 5, 12, 3), colony.now, "r9")
    one.keeper.create(one.table.replication.paths.log_prefix, bad.to_bytes(), sequential=True)
    for _ in range(5):
        colony.now += 10
        one.step_all()
    assert "intersects" in one.table.state.readonly_reason
    assert len(one.keys()) == 20


def test_too_many_broken_parts_leave_the_table_readonly_until_forced(make_colony: MakeColony) -> None:
    colony = make_colony(2, 0, max_suspicious_broken_parts=0)
    one, two = colony
    for number in range(4):
        one.insert(1, [number])
    colony.settle()
    two.crash()
    part = next(directory for directory in sorted(two.path.iterdir()) if directory.name.startswith("1_"))
    (part / "meta.bin").write_bytes(b"not a part")
    two.start()
    assert "max_suspicious_broken_parts" in two.table.state.readonly_reason
    force_restore_flag.set_flag(one.keeper, two.table.replication.replica)
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys() == [0, 1, 2, 3]
