"""COMMIT TRANSACTION … UNCHANGED SINCE SCAN into a table of one server, in SQL."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.scan.leases import LeaseBook, ScanOpening
from parts.common.errors import PandoError
from tests.engine.conftest import Local

REPLACE = "COMMIT TRANSACTION 'x' ON t OVERWRITE PARTITIONS ID '1' UNCHANGED SINCE SCAN 's'"
KEEP = "COMMIT TRANSACTION 'x' ON t UNCHANGED SINCE SCAN 's' IN TABLE"


@pytest.fixture
def table(local: Local) -> Local:
    local.run("CREATE TABLE t (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k")
    local.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    local.run("INSERT INTO t VALUES (1, 3)")
    local.run("INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1, 10), (3, 30)")
    begin(local)
    return local


def begin(local: Local, scan: str = "s", *, is_settled: bool = True) -> None:
    book, opening = LeaseBook(time.monotonic), ScanOpening(scan, ("k",), is_alone=True, is_settled=is_settled)
    with book.hold_lease(local.engine.catalog.table("default", "t"), opening):
        book.close()


def keys(local: Local) -> list[object]:
    return [key for (key,) in local.run("SELECT k FROM t ORDER BY k")]


def refused(local: Local, sql: str) -> PandoError:
    with pytest.raises(PandoError) as error:
        local.run(sql)
    return error.value


def test_named_partitions_lose_their_rows_and_others_get_some(table: Local) -> None:
    table.run("OPTIMIZE TABLE t FINAL")  # merges change nothing
    table.run("INSERT INTO t VALUES (2, 4)")
    table.restart()
    assert table.run(REPLACE) == [("committed", 2, 2)]
    assert keys(table) == [2, 4, 10, 30]
    table.run("INSERT INTO t VALUES (1, 11)")
    assert table.run(REPLACE) == [("committed before", 2, 0)]
    table.restart()
    assert keys(table) == [2, 4, 10, 11, 30]


def test_a_merge_over_numbers_that_may_have_come_later_counts(table: Local) -> None:
    """Partition 2 has the number between those of partition 1; a scan that did not wait for it cannot know."""
    begin(table, "hasty", is_settled=False)
    assert table.run(KEEP.replace("'x'", "'y'").replace("'s'", "'hasty'")) == [("committed", 0, 0)]
    table.run("OPTIMIZE TABLE t FINAL")
    assert "has rows that were not read" in refused(table, REPLACE.replace("'s'", "'hasty'")).message
    assert table.run(REPLACE) == [("committed", 2, 2)]


def test_partitions_are_named_without_a_scan_and_need_no_rows(table: Local) -> None:
    table.run("COMMIT TRANSACTION 'y' ON t OVERWRITE PARTITIONS ID '2', '3', 'none'")
    assert keys(table) == [1, 3]
    table.run("COMMIT TRANSACTION 'x' ON t OVERWRITE PARTITIONS ID '2'")
    assert keys(table) == [1, 3, 10, 30]


@pytest.mark.parametrize(
    ("change", "reason", "rest"),
    [
        ("INSERT INTO t VALUES (1, 5)", "has rows that were not read", [1, 2, 3, 5]),
        ("ALTER TABLE t DELETE WHERE k = 1 SETTINGS mutations_sync = 1", "a mutation has changed part", [2, 3]),
        ("DELETE FROM t WHERE k = 1", "a mutation has changed part", [2, 3]),
        ("ALTER TABLE t DROP PARTITION 1", "has gone", [2]),
        ("ALTER TABLE t ADD COLUMN v String", "its definition was altered", [1, 2, 3]),
    ],
)
def test_what_has_changed_is_kept(table: Local, change: str, reason: str, rest: list[int]) -> None:
    table.run(change)
    error = refused(table, REPLACE)
    assert (error.code, error.name) == (650, "SERIALIZATION_ERROR")
    assert reason in error.message
    assert "Nothing was committed" in error.message
    assert keys(table) == rest
    assert refused(table, KEEP).code == 650
    table.run("ROLLBACK TRANSACTION 'x' ON t")
    assert keys(table) == rest


def test_a_mutation_that_has_not_begun_counts(table: Local) -> None:
    table.run("SYSTEM STOP MERGES t")
    table.run("ALTER TABLE t DELETE WHERE k = 1 SETTINGS mutations_sync = 0")
    assert "is to change part" in refused(table, REPLACE).message
    table.run("SYSTEM START MERGES t")
    table.run("ALTER TABLE t DELETE WHERE k = 3 SETTINGS mutations_sync = 1")
    assert keys(table) == [2]


@pytest.mark.parametrize("row", ["(2, 5)", "(4, 5)"])
def test_in_the_whole_table_nothing_else_may_have_come(table: Local, row: str) -> None:
    table.run(f"INSERT INTO t VALUES {row}")
    assert refused(table, f"{REPLACE} IN TABLE").code == 650
    assert refused(table, KEEP).code == 650
    begin(table, "again")
    assert table.run(KEEP.replace("'s'", "'again'")) == [("committed", 2, 2)]
    assert keys(table) == [1, 2, 3, 5, 10, 30]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("COMMIT TRANSACTION 'x' ON t UNCHANGED SINCE SCAN 's'", 36),
        ("COMMIT TRANSACTION 'x' ON t OVERWRITE PARTITIONS UNCHANGED SINCE SCAN 's'", 36),
        ("COMMIT TRANSACTION 'x' ON t OVERWRITE PARTITIONS ID UNCHANGED SINCE SCAN 's'", 62),
        ("COMMIT TRANSACTION 'x' ON t UNCHANGED SCAN 's' IN TABLE", 62),
        ("COMMIT TRANSACTION 'x' ON t UNCHANGED SINCE SCAN 's' IN", 62),
        ("COMMIT TRANSACTION 'x' ON t UNCHANGED SINCE SCAN 'unknown' IN TABLE", 650),
        ("COMMIT TRANSACTION 'x' ON t OVERWRITE UNCHANGED SINCE SCAN 'unknown'", 650),
    ],
)
def test_bad_commits(table: Local, sql: str, code: int) -> None:
    assert refused(table, sql).code == code
    assert keys(table) == [1, 2, 3]


def test_of_many_that_replace_one_partition_at_once_one_does(table: Local, tmp_path: Path) -> None:
    for number in range(6):
        table.run(f"INSERT INTO t SETTINGS insert_transaction = 'a{number}' VALUES (1, {100 + number})")

    def commit(number: int) -> int:
        try:
            table.run(REPLACE.replace("'x'", f"'a{number}'"))
        except PandoError as error:
            return error.code
        return 0

    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(commit, range(6)))
    assert sorted(codes) == [0] + [650] * 5
    assert keys(table) == [2, 100 + codes.index(0)]
