"""Small things that ClickHouse's ALTER does, one history with its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tables.table import Table
from parts.errors import PandoError
from parts.store import PartStore
from tests.alter.test_altered_keys import answer
from tests.engine.conftest import Local
from tests.sql_statements.oracle import Oracle

HISTORIES = {
    "texts that are no values": [
        "CREATE TABLE t (a Nullable(String), k UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES ('', 1), ('true', 2), ('17', 3), (NULL, 4), ('256', 5)",
        "ALTER TABLE t MODIFY COLUMN a Nullable(UInt8)",
        "SELECT * FROM t ORDER BY k",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
    ],
    "other names of an Enum's numbers": [
        "CREATE TABLE t (e Enum8('a' = 1, 'b' = 2), p Enum8('x' = 1), k UInt8) ENGINE = MergeTree PARTITION BY p "
        "ORDER BY e",
        "INSERT INTO t VALUES ('a', 'x', 1), ('b', 'x', 2)",
        "ALTER TABLE t MODIFY COLUMN e Enum8('one' = 1, 'b' = 2)",
        "ALTER TABLE t MODIFY COLUMN p Enum8('y' = 1, 'z' = 2)",
        "INSERT INTO t VALUES ('one', 'z', 3)",
        "SELECT * FROM t ORDER BY k",
        "SELECT k FROM t WHERE e = 'one' ORDER BY k",
        "SELECT rows FROM system.parts WHERE table = 't' AND active AND partition = 'z'",
        "SELECT k FROM t WHERE p = 'y' ORDER BY k",
    ],
    "what was frozen": [
        "CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1)",
        "SELECT name, is_frozen FROM system.parts WHERE table = 't' AND active",
        "ALTER TABLE t FREEZE",
        "INSERT INTO t VALUES (2)",
        "SELECT name, is_frozen FROM system.parts WHERE table = 't' AND active ORDER BY name",
    ],
    "commands as they are shown": [
        "CREATE TABLE t (k UInt8, s String) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t UPDATE s = 's'||toString(k) WHERE k in (1,2), DELETE WHERE k=7 SETTINGS mutations_sync = 1",
        "SELECT command FROM system.mutations WHERE table = 't'",
    ],
    "columns that merges do not write": [
        "CREATE TABLE t (k UInt8, d Date, a UInt8, b UInt8 TTL d + INTERVAL 1 DAY) ENGINE = MergeTree ORDER BY k "
        "SETTINGS min_bytes_for_wide_part = 0",
        "INSERT INTO t VALUES (1, '2001-01-01', 1, 1)",
        "INSERT INTO t VALUES (2, '2001-01-01', 2, 2)",
        "ALTER TABLE t ADD COLUMN c UInt8, ADD COLUMN e UInt8 DEFAULT 5, ADD COLUMN n.x Array(UInt8)",
        "ALTER TABLE t CLEAR COLUMN a",
        "OPTIMIZE TABLE t FINAL",
        "SELECT column FROM system.parts_columns WHERE table = 't' AND active ORDER BY column",
        "SELECT * FROM t ORDER BY k",
        "ALTER TABLE t MODIFY COLUMN b REMOVE TTL, MODIFY COLUMN c DEFAULT 6, MODIFY COLUMN e DEFAULT 7",
        "ALTER TABLE t MODIFY COLUMN a String, MODIFY COLUMN b String",
        "SELECT * FROM t ORDER BY k",
        "INSERT INTO t (k) VALUES (3)",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
        "SELECT column FROM system.parts_columns WHERE table = 't' AND active ORDER BY column",
    ],
    "replaced by nothing": [
        "CREATE TABLE t (k UInt8, p UInt8) ENGINE = MergeTree PARTITION BY p ORDER BY k",
        "CREATE TABLE u AS t",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "ALTER TABLE t REPLACE PARTITION 1 FROM u SETTINGS allow_replace_partition_from_empty_source = 1",
        "SELECT * FROM t",
    ],
}
REFUSED = [
    ("UPDATE s = 'x' WHERE arrayJoin([1, 2]) = k", 183),
    ("DELETE WHERE arrayJoin([1, 2]) = k", 183),
    ("UPDATE s = arrayJoin(['x']) WHERE 1", 183),
    ("REPLACE PARTITION '2020-01-01' FROM u", 36),
    ("DROP PARTITION 'abc'", 38),
    ("UPDATE `n.a` = [1, 2, 3] WHERE 1 SETTINGS mutations_sync = 1", 341),
    ("UPDATE `n.a` = [1], `n.b` = [1, k] WHERE 1 SETTINGS mutations_sync = 1", 341),
]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def both(local: Local, oracle: Oracle, statement: str) -> None:
    if statement.startswith("SELECT"):
        assert answer(local, statement) == oracle.query(statement).decode(), statement
    else:
        oracle.query(statement)
        local.run(statement)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history(local: Local, oracle: Oracle, name: str) -> None:
    for statement in ("CREATE DATABASE differences", "USE differences"):
        both(local, oracle, statement)
    try:
        for statement in HISTORIES[name]:
            both(local, oracle, statement)
    finally:
        oracle.query("USE default")
        oracle.query("DROP DATABASE differences")


@pytest.mark.parametrize(("commands", "code"), REFUSED)
def test_what_is_refused(local: Local, oracle: Oracle, commands: str, code: int) -> None:
    created = [
        "CREATE DATABASE differences",
        "USE differences",
        "CREATE TABLE t (k UInt32, s String, p Date, n Nested(a UInt8, b UInt8)) ENGINE = MergeTree PARTITION BY p "
        "ORDER BY k SETTINGS min_bytes_for_wide_part = 0",
        "CREATE TABLE u AS t",
        "INSERT INTO t VALUES (1, 'a', '2020-01-01', [1, 2], [3, 4])",
    ]
    for statement in created:
        both(local, oracle, statement)
    try:
        with pytest.raises(RuntimeError) as theirs:
            oracle.query(f"ALTER TABLE t {commands}")
        with pytest.raises(PandoError) as caught:
            local.run(f"ALTER TABLE t {commands}")
        assert f"Code: {caught.value.code}." in str(theirs.value)
        if code == 341:
            assert "SIZES_OF_ARRAYS_DONT_MATCH" in caught.value.message
    finally:
        oracle.query("USE default")
        oracle.query("DROP DATABASE differences")


def test_who_only_reads_a_table_makes_no_directories(local: Local, tmp_path: Path) -> None:
    """A worker hears of a table whose directory is gone again."""
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k")
    table = local.engine.catalog.table("default", "t")
    assert isinstance(table, Table)
    place = tmp_path / "gone" / "t"
    PartStore(place, table.description, table.services.clock, table.services.new_uuid, is_owner=False)
    assert not place.exists()
