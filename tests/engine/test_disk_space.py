"""A merge, a mutation or an INSERT that does not fit on the disk is not begun, and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tables.disk_reservations import DiskReservations
from parts.common.errors import PandoError
from tests.engine.conftest import Local


def test_what_is_reserved_is_not_given_twice() -> None:
    disk = DiskReservations(lambda path: 1000)
    with disk.reserve(Path(), 500, "a merge"):
        assert disk.unreserved_bytes(Path()) == 450
        with pytest.raises(PandoError, match="Not enough free disk space for another: 495 bytes") as refused:
            disk.reserve(Path(), 450, "another").__enter__()
        assert refused.value.code == 243
    assert disk.unreserved_bytes(Path()) == 1000


@pytest.fixture
def full(local: Local) -> Local:
    """Two parts, and a disk that has no room for a third."""
    local.run("CREATE TABLE t (a Int32, s String) ENGINE = MergeTree ORDER BY a")
    for number in range(2):
        local.run(f"INSERT INTO t SELECT number + {number}, toString(number) FROM numbers(1000)")
    local.engine.services.disk = DiskReservations(lambda path: 1000, lambda path: 10_000)
    return local


def test_a_merge_that_does_not_fit(full: Local) -> None:
    parts = full.run("SELECT name FROM system.parts WHERE active ORDER BY 1")
    with pytest.raises(PandoError, match="Not enough free disk space for merging to all_1_2_1") as refused:
        full.run("OPTIMIZE TABLE t FINAL")
    assert refused.value.code == 243
    assert full.run("SELECT name FROM system.parts WHERE active ORDER BY 1") == parts
    assert not full.engine.catalog.table("default", "t")._merges._merge_selected()  # type: ignore[attr-defined]
    assert not list(full.path.rglob("tmp_*"))
    assert full.value("SELECT count() FROM t") == 2000
    full.engine.services.disk = DiskReservations()
    full.run("OPTIMIZE TABLE t FINAL")
    assert full.run("SELECT name FROM system.parts WHERE active") == [("all_1_2_1",)]


@pytest.mark.parametrize(
    ("setting", "is_refused"),
    [
        ("min_free_disk_bytes_to_perform_insert = 999", False),
        ("min_free_disk_bytes_to_perform_insert = 1000", True),
        ("min_free_disk_ratio_to_perform_insert = 0.05", False),
        ("min_free_disk_ratio_to_perform_insert = 0.2", True),
    ],
)
def test_an_insert_keeps_room_for_others(full: Local, setting: str, is_refused: bool) -> None:
    def insert(clause: str) -> int:
        try:
            full.run(f"INSERT INTO t {clause} VALUES (1, 'x')")
        except PandoError as error:
            return error.code
        return 0

    assert insert(f"SETTINGS {setting}") == (243 if is_refused else 0)
    full.run(f"ALTER TABLE t MODIFY SETTING {setting}")
    assert insert("") == (243 if is_refused else 0)
