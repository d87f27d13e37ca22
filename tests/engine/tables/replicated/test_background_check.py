"""Parts that nobody reads are read in the background: slowly, once in an interval, and what is bad is mended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.background_check import BackgroundCheck
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from parts.read.slow_verification import PIECE_BYTES, verify_slowly
from tests.engine.conftest import Local, local
from tests.recovery.damages import DAMAGES

__all__ = ["local"]

MakeColony = Callable[..., SimulatedCluster]
_WEEK = 7 * 24 * 3600


def _make_check(node: SimulatedNode, bytes_per_second: int = 1 << 20) -> BackgroundCheck:
    return BackgroundCheck(lambda: [node.table], node.table.services, bytes_per_second, _WEEK)


def _checked(node: SimulatedNode) -> dict[str, tuple[float, str]]:
    return {str(entry.part.name): (entry.checked_at, entry.check_error) for entry in node.table.store.entries()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_part_that_nobody_reads_is_mended(make_colony: MakeColony, damage: str) -> None:
    colony = make_colony(2, min_bytes_for_full_part_storage=0)
    one, two = colony
    one.insert(1, [1, 2])
    one.insert(2, [3, 4])
    colony.settle()
    right = two.parts()
    DAMAGES[damage](next((two.path / "1_0_0_0").glob("*.bin")))
    check = _make_check(two)
    assert check.step() > 1, "all is read"
    colony.settle()
    assert two.table.store.list_detached() == ["broken_1_0_0_0"]
    assert two.parts() == right
    colony.check_equal()
    assert two.table.services.checks.parts == 2
    assert two.table.services.checks.broken_parts == 1
    for part in two.table.store.list_active():
        part.verify()


def test_each_part_is_read_once_in_an_interval(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    one.insert(1, [1, 2])
    assert _checked(one) == {"1_0_0_0": (0.0, "")}
    check = _make_check(one)
    check.step()
    first = colony.now
    assert _checked(one) == {"1_0_0_0": (first, "")}
    colony.now += 1000
    one.insert(1, [3, 4])
    check.step()
    assert _checked(one) == {"1_0_0_0": (first, ""), "1_1_1_0": (colony.now, "")}
    colony.now += _WEEK - 999
    check.step()
    assert _checked(one)["1_0_0_0"] == (colony.now, "")
    assert one.table.services.checks.parts == 3


def test_it_reads_no_faster_than_it_may(make_colony: MakeColony) -> None:
    colony = make_colony(1, min_bytes_for_full_part_storage=0)
    (one,) = colony
    for first in range(0, 40, 2):
        one.insert(1, [first, first + 1])
    size = sum(part.bytes_on_disk for part in one.table.store.list_active())
    check = _make_check(one, size // 10)
    seconds = 0.0
    while (pause := check.step()) < 100:
        seconds += pause
        assert pause < 3
    assert one.table.services.checks.read_bytes == size
    assert 8 < seconds <= 10.1


def test_a_large_file_is_read_in_pieces(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    keys = list(range(200_000))
    one.insert(1, keys)
    (part,) = one.table.store.list_active()
    pieces = list(verify_slowly(part))
    assert sum(pieces) == part.bytes_on_disk > PIECE_BYTES
    assert max(pieces) <= PIECE_BYTES


def test_a_part_that_is_merged_away_meanwhile_is_not_broken(make_colony: MakeColony) -> None:
    colony = make_colony(1, old_parts_lifetime=0)
    (one,) = colony
    one.insert(1, list(range(200_000)))
    one.insert(1, [200_001])
    check = _make_check(one, 1)
    while one.table.services.checks.read_bytes < PIECE_BYTES:
        check.step()
    assert not _checked(one)["1_0_0_0"][0], "it is in the middle of it"
    one.optimize()
    colony.settle()
    one.step(one.task("clean up"))
    while check.step() != 600.0:
        pass
    assert one.table.services.checks.broken_parts == 0
    assert _checked(one)["1_0_1_1"][0]


def test_without_replicas_the_part_stays_and_its_error_is_shown(local: Local, caplog: pytest.LogCaptureFixture) -> None:
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS min_bytes_for_full_part_storage = 0")
    local.run("INSERT INTO t VALUES (1)")
    shown = "SELECT last_check_time > now() - 60, last_check_error FROM system.parts WHERE table = 't' AND active"
    assert local.run(shown) == [(0, "")]
    part = local.path / "data" / "default" / "t" / "all_1_1_0"
    DAMAGES["flipped"](next(part.glob("*.bin")))
    engine = local.engine
    with caplog.at_level(logging.ERROR):
        BackgroundCheck(engine.catalog.tables, engine.services, 1 << 20, _WEEK).step()
    ((is_recent, error),) = local.run(shown)
    assert is_recent
    assert "all_1_1_0" in error
    assert "all_1_1_0" in caplog.text
    assert part.is_dir()
    assert not list((part.parent / "detached").iterdir())
    assert local.run("SELECT event, value FROM system.events WHERE event = 'BackgroundCheckBrokenParts'") == [
        ("BackgroundCheckBrokenParts", 1)
    ]


def test_a_server_checks_in_the_background(tmp_path: Path) -> None:
    """The task is there, with the speed of the configuration, and CHECK TABLE counts as a check."""
    local = Local(tmp_path)
    tasks = [task.name for task in local.engine.services.housekeeping._due_at]
    assert "background check of parts" in tasks
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO t VALUES (1)")
    local.run("CHECK TABLE t")
    assert local.run("SELECT last_check_time > 0, last_check_error FROM system.parts WHERE table = 't'") == [(1, "")]
    local.engine.stop()
