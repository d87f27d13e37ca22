"""A part of another table that somebody copied by hand into a table without replicas is not read as one of its own."""

from __future__ import annotations

import logging
import shutil

import pytest

from tests.engine.conftest import Local
from tests.portions import one_in

_OTHERS = {
    "another column": "(k UInt64, w String) ENGINE = MergeTree PARTITION BY k % 2 ORDER BY k",
    "another type": "(k UInt64, v UInt64) ENGINE = MergeTree PARTITION BY k % 2 ORDER BY k",
    "no partition key": "(k UInt64, v String) ENGINE = MergeTree ORDER BY k",
    "a longer key": "(k UInt64, v String) ENGINE = MergeTree PARTITION BY (k % 2, v) ORDER BY k",
    "a key of another column": "(k UInt64, v String) ENGINE = MergeTree PARTITION BY toUInt8(v) ORDER BY k",
    "a later definition": "(k UInt64) ENGINE = MergeTree PARTITION BY k % 2 ORDER BY k",
}


def _copy(local: Local, name: str) -> str:
    """The part of ``s`` in ``t``, as it would be called there."""
    data = local.path / "data" / "default"
    (part,) = (path for path in (data / "s").iterdir() if path.name.endswith("_0"))
    shutil.copytree(part, data / "t" / name)
    return name


def _reload(local: Local) -> None:
    local.run("DETACH TABLE t")
    local.run("ATTACH TABLE t")


@pytest.fixture
def table(local: Local) -> Local:
    local.run("CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree PARTITION BY k % 2 ORDER BY k")
    local.run("INSERT INTO t VALUES (1, '1'), (3, '3')")
    return local


@pytest.mark.parametrize("other", _OTHERS)
def test_a_part_of_another_table_goes_to_detached(table: Local, other: str, caplog: pytest.LogCaptureFixture) -> None:
    table.run(f"CREATE TABLE s {_OTHERS[other]}")
    if other == "a later definition":
        table.run("ALTER TABLE s ADD COLUMN v String")
    table.run("INSERT INTO s VALUES (1, '1')")
    name = _copy(table, "1_7_7_0")
    with caplog.at_level(logging.WARNING):
        _reload(table)
    assert table.run("SELECT k, v FROM t ORDER BY k") == [(1, "1"), (3, "3")]
    assert table.run("SELECT name, reason FROM system.detached_parts") == [(f"unexpected_{name}", "unexpected")]
    assert "not of this table" in caplog.text
    assert f"unexpected_{name}" in caplog.text


def test_a_part_under_the_name_of_another_partition_goes_to_detached(table: Local) -> None:
    table.run("CREATE TABLE s AS t")
    table.run("INSERT INTO s VALUES (2, '2')")
    _copy(table, "1_7_7_0")
    _reload(table)
    assert table.run("SELECT k FROM t ORDER BY k") == [(1,), (3,)]
    assert table.run("SELECT name FROM system.detached_parts") == [("unexpected_1_7_7_0",)]


def test_a_part_of_a_table_of_the_same_kind_is_taken(table: Local) -> None:
    """As ClickHouse takes it: a backup of the table's own parts is put back like this."""
    table.run("CREATE TABLE s AS t")
    table.run("INSERT INTO s VALUES (2, '2')")
    _copy(table, "0_7_7_0")
    _reload(table)
    assert table.run("SELECT k, v FROM t ORDER BY k") == [(1, "1"), (2, "2"), (3, "3")]
    assert not table.run("SELECT name FROM system.detached_parts")


@pytest.mark.parametrize(
    "change",
    one_in(
        3,
        [
            "ADD COLUMN w UInt8 DEFAULT 7",
            "RENAME COLUMN v TO w",
            "MODIFY COLUMN v Nullable(String)",
            "MODIFY COLUMN v LowCardinality(String)",
            "DROP COLUMN v",
            "CLEAR COLUMN v",
            "MODIFY TTL toDateTime(4000000000 + k)",
            "ADD INDEX i v TYPE minmax",
        ],
    ),
)
def test_parts_of_before_an_alter_stay(table: Local, change: str) -> None:
    table.run(f"ALTER TABLE t {change}")
    columns = [name for (name,) in table.run("SELECT name FROM system.columns WHERE table = 't'")]
    right = table.run("SELECT * FROM t ORDER BY k")
    _reload(table)
    assert table.run("SELECT * FROM t ORDER BY k") == right
    table.run(f"INSERT INTO t ({columns[0]}) VALUES (5)")
    table.run("DELETE FROM t WHERE k = 3")
    table.run("OPTIMIZE TABLE t FINAL")
    right = table.run("SELECT * FROM t ORDER BY k")
    assert len(right) == 2
    _reload(table)
    assert table.run("SELECT * FROM t ORDER BY k") == right
    assert not table.run("SELECT name FROM system.detached_parts")
