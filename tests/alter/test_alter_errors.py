"""What ALTER TABLE refuses, and that a refused one changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.engine.conftest import Local


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("alter") / "data")
    running.run(
        "CREATE TABLE t (k UInt32, p Date, s String DEFAULT 'x', n Nullable(UInt8), w String DEFAULT 'abc', "
        "c UInt64 ALIAS k + length(s), "
        "m UInt64 MATERIALIZED k * 2) ENGINE = MergeTree PARTITION BY toYYYYMM(p) ORDER BY (k, p)"
    )
    running.run("INSERT INTO t (k, p, s, n) VALUES (1, '2020-01-01', 'abc', NULL), (300, '2020-02-01', '12', 5)")
    yield running
    running.engine.stop()


@pytest.mark.parametrize(
    ("commands", "code", "message"),
    [
        ("ADD COLUMN s UInt8", 15, "already exists"),
        ("ADD COLUMN a UInt8, ADD COLUMN a UInt8", 15, "already exists"),
        ("ADD COLUMN a UInt8 AFTER nope", 16, "nope"),
        ("ADD COLUMN a Nope", 50, "Nope"),
        ("ADD COLUMN a UInt8 DEFAULT nope + 1", 47, "nope"),
        ("ADD COLUMN a UInt8 DEFAULT 'x'", 6, "x"),
        ("ADD COLUMN a UInt8 DEFAULT a", 174, "a -> a"),
        ("MODIFY COLUMN k UInt32 DEFAULT m", 174, "read its own column"),
        ("ADD COLUMN _block_number UInt64", 44, "reserved"),
        ("DROP COLUMN nope", 10, "the columns are: k, p, s"),
        ("DROP COLUMN s", 44, "`c` depends on it"),
        ("DROP COLUMN p", 524, "key"),
        ("DROP COLUMN n, DROP COLUMN n", 10, "n"),
        ("CLEAR COLUMN k", 524, "key"),
        ("RENAME COLUMN p TO q", 524, "key"),
        ("RENAME COLUMN s TO n", 15, "already exists"),
        ("RENAME COLUMN nope TO q", 10, "nope"),
        ("RENAME COLUMN s TO q, RENAME COLUMN q TO r", 48, "renamed twice"),
        ("MODIFY COLUMN nope String", 10, "nope"),
        ("MODIFY COLUMN k UInt64", 524, "key"),
        ("MODIFY COLUMN w UInt8 DEFAULT 0", 6, "abc"),
        ("MODIFY COLUMN s UInt8 DEFAULT 0", 43, "length"),
        ("MODIFY COLUMN n UInt8", 36, "by a DEFAULT what NULL becomes"),
        ("MODIFY COLUMN s REMOVE CODEC", 36, "doesn't have CODEC"),
        ("MODIFY COLUMN s CODEC(Nope)", 432, "Nope"),
        ("COMMENT COLUMN nope 'x'", 10, "nope"),
        ("MODIFY SETTING index_granularity = 1", 472, "readonly"),
        ("MODIFY SETTING nope = 1", 115, "nope"),
        ("RESET SETTING nope", 36, "nope"),
        ("ADD COLUMN a UInt8, DROP COLUMN nope", 10, "nope"),
        ("ADD COLUMN _row_exists UInt8", 44, "_row_exists"),
        ("RENAME COLUMN s TO _row_exists", 44, "_row_exists"),
        ("UPDATE k = 1 WHERE 1", 420, "key column `k`"),
        ("UPDATE w = toString(row_number() OVER ()) WHERE 1", 184, "row_number"),
        ("DELETE WHERE row_number() OVER () = 1", 184, "row_number"),
        ("UPDATE w = toString(count()) WHERE 1", 215, "aggregate"),
        ("MODIFY TTL k", 450, "should have Date"),
        ("MODIFY TTL nope + INTERVAL 1 DAY", 47, "nope"),
        ("MODIFY TTL toDate(k) TO DISK 'far'", 450, "far"),
        ("MODIFY TTL", 62, "TTL"),
        ("REMOVE TTL", 36, "doesn't have any table TTL"),
        ("MODIFY COLUMN s REMOVE TTL", 36, "doesn't have TTL"),
        ("MODIFY COLUMN s TTL now()", 36, "does not depend"),
        ("MODIFY COLUMN k TTL toDate(k)", 44, "key column k"),
    ],
)
def test_it_is_refused_whole(local: Local, commands: str, code: int, message: str) -> None:
    before = (local.run("SHOW CREATE TABLE t"), local.run("SELECT *, m, c FROM t ORDER BY k"))
    with pytest.raises(PandoError, match=message) as caught:
        local.run(f"ALTER TABLE t {commands}")
    assert caught.value.code == code
    assert (local.run("SHOW CREATE TABLE t"), local.run("SELECT *, m, c FROM t ORDER BY k")) == before


def test_of_tables_that_are_not_there_or_not_ours(local: Local) -> None:
    for table, code in (("nope", 60), ("nope.t", 81), ("system.tables", 164)):
        with pytest.raises(PandoError) as caught:
            local.run(f"ALTER TABLE {table} ADD COLUMN a UInt8")
        assert caught.value.code == code


def test_what_is_conditional_changes_nothing(local: Local) -> None:
    before = local.run("SHOW CREATE TABLE t")
    local.run(
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS s UInt8, DROP COLUMN IF EXISTS nope, CLEAR COLUMN IF EXISTS nope, "
        "RENAME COLUMN IF EXISTS nope TO q, MODIFY COLUMN IF EXISTS nope UInt8, COMMENT COLUMN IF EXISTS nope 'x'"
    )
    assert local.run("SHOW CREATE TABLE t") == before


def test_settings_count_at_once_and_after_a_restart(tmp_path: Path) -> None:
    local = Local(tmp_path / "data")
    local.run("CREATE TABLE u (k UInt32) ENGINE = MergeTree ORDER BY k")
    local.run("ALTER TABLE u MODIFY SETTING parts_to_throw_insert = 1, MODIFY COMMENT 'few'")
    local.run("INSERT INTO u VALUES (1)")
    for _ in range(2):
        with pytest.raises(PandoError, match="Too many parts"):
            local.run("INSERT INTO u VALUES (2)")
        assert "parts_to_throw_insert = 1\nCOMMENT 'few'" in str(local.value("SHOW CREATE TABLE u"))
        local.restart()
    local.run("ALTER TABLE u RESET SETTING parts_to_throw_insert")
    local.run("INSERT INTO u VALUES (2)")
    local.run("ALTER TABLE u MODIFY SETTING non_replicated_deduplication_window = 5")
    local.run("INSERT INTO u VALUES (3)")
    local.run("INSERT INTO u VALUES (3)")
    assert local.value("SELECT groupArray(k) FROM (SELECT k FROM u ORDER BY k)") == [1, 2, 3]
    local.engine.stop()
