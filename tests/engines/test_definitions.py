"""What CREATE and ALTER say of the engines that reduce rows: ClickHouse's codes, and a wider version."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.engine.conftest import Local, local

__all__ = ["local"]

COLUMNS = "(k UInt8, v UInt8, s Int8, f String, d UInt16)"


def code_of(pando: Pando, statement: str) -> int:
    with pytest.raises(PandoError) as caught:
        pando.query(statement)
    return caught.value.code


@pytest.mark.parametrize(
    ("engine", "code"),
    [
        ("ReplacingMergeTree(w)", 16),
        ("ReplacingMergeTree(f)", 169),
        ("ReplacingMergeTree(v, d)", 169),
        ("ReplacingMergeTree(v, v)", 36),
        ("ReplacingMergeTree(v, s, k)", 36),
        ("ReplacingMergeTree(v + 1)", 36),
        ("ReplacingMergeTree('v')", 36),
        ("CollapsingMergeTree", 42),
        ("CollapsingMergeTree(v)", 169),
        ("VersionedCollapsingMergeTree(s)", 42),
        ("VersionedCollapsingMergeTree(s, f)", 169),
        ("GraphiteMergeTree('g')", 139),
        ("CoalescingMergeTree", 48),
    ],
)
def test_wrong_engines(pando: Pando, engine: str, code: int) -> None:
    assert code_of(pando, f"CREATE TABLE wrong {COLUMNS} ENGINE = {engine} ORDER BY k") == code


def test_what_alter_may_do_to_the_columns_of_an_engine(pando: Pando) -> None:
    pando.query(f"CREATE TABLE r {COLUMNS} ENGINE = ReplacingMergeTree(v) ORDER BY k")
    pando.query("INSERT INTO r VALUES (1, 255, 1, 'old', 0)")
    for command in (
        "DROP COLUMN v", "CLEAR COLUMN v", "RENAME COLUMN v TO w", "MODIFY COLUMN v String",
        "MODIFY COLUMN v Int8", "MODIFY COLUMN v Int32",
    ):  # fmt: skip
        assert code_of(pando, f"ALTER TABLE r {command}") == 524, command
    assert code_of(pando, "ALTER TABLE r UPDATE v = 1 WHERE 1") == 420
    pando.query("ALTER TABLE r MODIFY COLUMN v UInt16")
    pando.query("INSERT INTO r VALUES (1, 256, 1, 'new', 0)")
    assert pando.query("SELECT f FROM r FINAL") == b"new\n"
    pando.query("OPTIMIZE TABLE r FINAL")
    assert pando.query("SELECT v, f FROM r") == b"256\tnew\n"


def test_the_version_of_pairs_that_cancel_is_a_column_of_the_sorting_key(pando: Pando) -> None:
    pando.query(f"CREATE TABLE p {COLUMNS} ENGINE = VersionedCollapsingMergeTree(s, v) ORDER BY k")
    keys = "SELECT sorting_key, primary_key FROM system.tables WHERE name = 'p'"
    assert pando.query(keys) == b"k, v\tk\n"
    assert b"ORDER BY k" in pando.query("SHOW CREATE TABLE p")
    pando.query("INSERT INTO p VALUES (1, 2, 1, 'a', 0), (1, 1, 1, 'b', 0)")
    for command in ("MODIFY COLUMN s Int16", "DROP COLUMN s", "MODIFY COLUMN v Int8", "RENAME COLUMN v TO w"):
        assert code_of(pando, f"ALTER TABLE p {command}") == 524, command
    pando.query("ALTER TABLE p MODIFY COLUMN v UInt32")
    pando.query("INSERT INTO p VALUES (1, 70000, 1, 'c', 0), (1, 1, -1, 'b', 0)")
    assert pando.query("SELECT v, f FROM p FINAL ORDER BY v") == b"2\ta\n70000\tc\n"
    pando.query("OPTIMIZE TABLE p FINAL")
    assert pando.query("SELECT v, f FROM p") == b"2\ta\n70000\tc\n"


def test_final_of_a_table_that_keeps_every_row(pando: Pando) -> None:
    pando.query(f"CREATE TABLE m {COLUMNS} ENGINE = MergeTree ORDER BY k")
    pando.query("INSERT INTO m VALUES (1, 1, 1, 'a', 0), (1, 1, 1, 'a', 0)")
    assert code_of(pando, "SELECT count() FROM m FINAL") == 181
    assert pando.query("SELECT count() FROM m SETTINGS final = 1") == b"2\n"


def test_a_wrong_sign(pando: Pando) -> None:
    pando.query(f"CREATE TABLE c {COLUMNS} ENGINE = CollapsingMergeTree(s) ORDER BY k")
    assert code_of(pando, "INSERT INTO c VALUES (1, 1, 2, 'a', 0)") == 117
    assert pando.query("SELECT count() FROM c") == b"0\n"


def test_a_block_that_becomes_nothing_is_no_part(pando: Pando) -> None:
    pando.query(f"CREATE TABLE e {COLUMNS} ENGINE = CollapsingMergeTree(s) ORDER BY k")
    pando.query("INSERT INTO e VALUES (1, 1, 1, 'a', 0), (1, 1, -1, 'a', 0)")
    assert pando.query("SELECT count() FROM system.parts WHERE table = 'e'") == b"0\n"
    pando.query("INSERT INTO e SETTINGS optimize_on_insert = 0 VALUES (1, 1, 1, 'a', 0), (1, 1, -1, 'a', 0)")
    assert pando.query("SELECT count() FROM e") == b"2\n"


def test_a_restart(local: Local) -> None:
    local.run(f"CREATE TABLE again {COLUMNS} ENGINE = ReplacingMergeTree(v) ORDER BY k")
    local.run("INSERT INTO again VALUES (1, 2, 1, 'kept', 0)")
    local.run("INSERT INTO again VALUES (1, 1, 1, 'gone', 0)")
    local.restart()
    assert local.run("SELECT f FROM again FINAL") == [("kept",)]
