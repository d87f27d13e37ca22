"""Small things that ClickHouse's ALTER does, one history with its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tables.table import Table
from parts.common.errors import PandoError
from parts.store.part_store import PartStore
from tests.alter.test_altered_keys import answer
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.sql.oracle import Oracle

_STILL = ", max_bytes_to_merge_at_max_space_in_pool = 1, max_number_of_merges_with_ttl_in_pool = 0"
_COLUMNS = "SELECT name, column FROM system.parts_columns WHERE table = 't' AND active ORDER BY ALL"
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
    "subqueries that make rows": [
        "CREATE TABLE t (k UInt8, v UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        "ALTER TABLE t DELETE WHERE k IN (SELECT arrayJoin([1, 2])) SETTINGS mutations_sync = 1",
        "ALTER TABLE t UPDATE v = (SELECT max(r) FROM (SELECT row_number() OVER () AS r FROM numbers(5))) WHERE k = 3 "
        "SETTINGS mutations_sync = 1",
        "SELECT * FROM t ORDER BY k",
    ],
    "names of partitions": [
        "CREATE TABLE t (k UInt8, s String, d Date, e Enum8('a' = 1), u UUID, n Nullable(UInt8), x DateTime('UTC'), "
        "f FixedString(3)) ENGINE = MergeTree PARTITION BY (s, d, e, u, n, x, f) ORDER BY k "
        "SETTINGS allow_nullable_key = 1",
        "INSERT INTO t VALUES (1, 'x''y', '2020-01-05', 'a', '00000000-0000-0000-0000-000000000001', NULL, 1, 'ab')",
        "SELECT partition FROM system.parts WHERE table = 't' AND active",
        "CREATE TABLE v (k UInt8, u UUID) ENGINE = MergeTree PARTITION BY u ORDER BY k",
        "INSERT INTO v VALUES (1, '00000000-0000-0000-0000-000000000001')",
        "CREATE TABLE w (k UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO w VALUES (1)",
        "SELECT partition FROM system.parts WHERE table IN ('v', 'w') AND active ORDER BY 1",
    ],
    "columns that a part takes up with its TTL": [
        "CREATE TABLE t (k UInt8, d Date, v UInt8) ENGINE = MergeTree ORDER BY k SETTINGS min_bytes_for_wide_part = 0"
        + _STILL,
        "INSERT INTO t VALUES (1, '2001-01-01', 1), (2, '2101-01-01', 1)",
        "INSERT INTO t VALUES (3, '2101-01-01', 1)",
        "ALTER TABLE t ADD COLUMN q UInt8 DEFAULT 5, ADD COLUMN r UInt8 DEFAULT 6",
        "ALTER TABLE t MODIFY COLUMN q UInt8 DEFAULT 5 TTL d + INTERVAL 1 DAY",
        _COLUMNS,
        "ALTER TABLE t MODIFY TTL d + INTERVAL 1 DAY",
        _COLUMNS,
        "ALTER TABLE t MODIFY COLUMN r DEFAULT 7",
        "SELECT * FROM t ORDER BY k",
        "ALTER TABLE t CLEAR COLUMN v",
        "ALTER TABLE t MODIFY TTL d + INTERVAL 1 YEAR",
        "ALTER TABLE t MODIFY COLUMN v String",
        "SELECT * FROM t ORDER BY k",
    ],
    "columns that a part takes up with an index": [
        "CREATE TABLE t (k UInt8, v UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t ADD COLUMN q UInt8 DEFAULT 5, ADD COLUMN r UInt8 DEFAULT 6, ADD INDEX i (q + v) TYPE minmax",
        "ALTER TABLE t MATERIALIZE INDEX i SETTINGS mutations_sync = 1",
        _COLUMNS,
        "ALTER TABLE t MODIFY COLUMN q DEFAULT 7",
        "SELECT * FROM t WHERE q + v = 6",
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
    "columns that have expired when their TTL is written": [
        "CREATE TABLE t (k UInt8, d Date, a UInt8, b UInt8 DEFAULT 7, c String) ENGINE = MergeTree ORDER BY k "
        "SETTINGS min_bytes_for_wide_part = 0" + _STILL,
        "INSERT INTO t VALUES (1, '2001-01-01', 1, 1, 'a'), (2, '2001-01-01', 2, 2, 'b')",
        "INSERT INTO t VALUES (3, '2001-01-01', 3, 3, 'c'), (4, '2101-01-01', 4, 4, 'd')",
        "ALTER TABLE t ADD COLUMN e UInt8 DEFAULT 5",
        "ALTER TABLE t MODIFY COLUMN a UInt8 TTL d + INTERVAL 1 DAY, MODIFY COLUMN b UInt8 TTL d + INTERVAL 1 DAY",
        "SELECT name, column FROM system.parts_columns WHERE table = 't' AND active ORDER BY name, column",
        "SELECT * FROM t ORDER BY k",
        "ALTER TABLE t MODIFY COLUMN a Nullable(UInt16), MODIFY COLUMN b UInt8 DEFAULT 8",
        "SELECT * FROM t ORDER BY k",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
    ],
    "the only column has expired": [
        "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY tuple() SETTINGS min_bytes_for_wide_part = 0" + _STILL,
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t MODIFY COLUMN a UInt8 TTL toDate('2000-01-01') SETTINGS allow_suspicious_ttl_expressions = 1",
        "SELECT count(), sum(a) FROM t",
        "INSERT INTO t VALUES (3)",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t",
    ],
    "columns that have expired where rows may": [
        "CREATE TABLE t (k UInt8, d Date, a UInt8, b UInt8 DEFAULT 7) ENGINE = MergeTree ORDER BY k "
        "TTL d + INTERVAL 1 DAY DELETE WHERE k = 1 SETTINGS min_bytes_for_wide_part = 0" + _STILL,
        "INSERT INTO t VALUES (1, '2001-01-01', 1, 1), (2, '2001-01-01', 2, 2)",
        "ALTER TABLE t ADD COLUMN e UInt8 DEFAULT 5",
        "ALTER TABLE t MODIFY COLUMN a UInt8 TTL d + INTERVAL 1 DAY, MODIFY COLUMN b UInt8 TTL d + INTERVAL 1 DAY",
        "SELECT column FROM system.parts_columns WHERE table = 't' AND active ORDER BY column",
        "SELECT * FROM t ORDER BY k",
    ],
    "columns that have expired in compact parts": [
        "CREATE TABLE t (k UInt8, d Date, a UInt8 TTL d + INTERVAL 1 DAY, b UInt8) ENGINE = MergeTree ORDER BY k "
        "SETTINGS min_bytes_for_wide_part = 1000" + _STILL,
        "INSERT INTO t VALUES (1, '2001-01-01', 1, 1)",
        "INSERT INTO t VALUES (2, '2001-01-01', 2, 2)",
        "ALTER TABLE t ADD COLUMN c UInt8",
        "OPTIMIZE TABLE t FINAL",
        "ALTER TABLE t MODIFY COLUMN b UInt8 TTL d + INTERVAL 1 DAY",
        "SELECT column FROM system.parts_columns WHERE table = 't' AND active ORDER BY column",
        "ALTER TABLE t MODIFY COLUMN a Nullable(UInt8), MODIFY COLUMN b Nullable(UInt8)",
        "ALTER TABLE t MODIFY COLUMN c Nullable(UInt8)",
        "SELECT * FROM t ORDER BY k",
    ],
    "values that are given when others have expired": [
        "CREATE TABLE t (k UInt8, d Date, a UInt8, b UInt8) ENGINE = MergeTree ORDER BY k "
        "SETTINGS min_bytes_for_wide_part = 0" + _STILL,
        "INSERT INTO t VALUES (1, '2001-01-01', 1, 1), (2, '2001-01-01', 2, 2)",
        "ALTER TABLE t MODIFY COLUMN a UInt8 TTL d + INTERVAL 1 DAY",
        "ALTER TABLE t UPDATE a = 7 WHERE k = 2 SETTINGS mutations_sync = 1",
        "ALTER TABLE t DELETE WHERE k = 1 SETTINGS mutations_sync = 1",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
        "INSERT INTO t VALUES (3, '2001-01-01', 3, 3)",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
    ],
    "types by way of others": [
        "CREATE TABLE t (k UInt8, d Date, t DateTime('UTC'), a Array(UInt8), f Float64, s FixedString(4)) "
        "ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, '2020-01-02', '2020-01-02 03:04:05', [1, 2], 1.25, 'ab')",
        "ALTER TABLE t MODIFY COLUMN d DateTime('UTC'), MODIFY COLUMN t Date, MODIFY COLUMN a Array(String)",
        "ALTER TABLE t MODIFY COLUMN f Float32, MODIFY COLUMN s String",
        "INSERT INTO t VALUES (2, '2020-01-02 03:04:05', '2020-01-02', ['1', '2'], 1.5, 'abcd')",
        "SELECT *, length(s) FROM t ORDER BY k",
        "ALTER TABLE t MODIFY COLUMN d String, MODIFY COLUMN t DateTime64(1, 'UTC'), MODIFY COLUMN a String",
        "ALTER TABLE t RENAME COLUMN d TO e, RENAME COLUMN f TO g",
        "ALTER TABLE t MODIFY COLUMN g String",
        "ALTER TABLE t MODIFY COLUMN g Float64",
        "ALTER TABLE t MODIFY COLUMN g String",
        "SELECT * FROM t ORDER BY k",
        "SELECT k FROM t WHERE t = toDateTime('2020-01-02 00:00:00', 'UTC') ORDER BY k",
        "DETACH TABLE t",
        "ATTACH TABLE t",
        "SELECT * FROM t ORDER BY k",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
    ],
    "one ALTER that takes up what it has done": [
        "CREATE TABLE t (k UInt8, a UInt8, b String) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, 2, 'b')",
        "ALTER TABLE t ADD COLUMN c UInt8, MODIFY COLUMN c Nullable(UInt16), RENAME COLUMN a TO e, "
        "RENAME COLUMN b TO a",
        "INSERT INTO t (k, e, a) VALUES (2, 3, 'c')",
        "SELECT * FROM t ORDER BY k",
        "ALTER TABLE t MODIFY COLUMN c UInt8 DEFAULT 4, MODIFY COLUMN a LowCardinality(String), DROP COLUMN e",
        "SELECT * FROM t ORDER BY k",
    ],
    "which rows there are": [
        "CREATE TABLE t (k UInt8, v UInt8) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "DELETE FROM t WHERE k = 2",
        "INSERT INTO t VALUES (4, 4)",
        "SELECT k, _row_exists FROM t ORDER BY k",
        "SELECT sum(_row_exists), count() FROM t WHERE _row_exists = 1 AND k < 4",
        "SELECT v FROM t WHERE NOT _row_exists",
    ],
    "what NULL becomes": [
        "CREATE TABLE t (k UInt8, a Nullable(UInt16), b Nullable(String), c LowCardinality(Nullable(String)), "
        "d Nullable(Int8) DEFAULT 5) ENGINE = MergeTree ORDER BY k",
        "INSERT INTO t VALUES (1, NULL, NULL, NULL, NULL), (2, 3, '4', 'c', 5), (3, NULL, '6', NULL, 7)",
        "ALTER TABLE t ADD COLUMN e Nullable(UInt8)",
        "INSERT INTO t VALUES (4, 1, '2', '3', 4, 5)",
        "ALTER TABLE t MODIFY COLUMN a UInt16 DEFAULT 9, MODIFY COLUMN b UInt8 DEFAULT 8",
        "ALTER TABLE t MODIFY COLUMN c LowCardinality(String) DEFAULT 'none', MODIFY COLUMN d Int8",
        "ALTER TABLE t MODIFY COLUMN e UInt8 DEFAULT 1",
        "SELECT * FROM t ORDER BY k",
        "SELECT k FROM t WHERE a = 9 ORDER BY k",
        "ALTER TABLE t MODIFY COLUMN a DEFAULT 10, MODIFY COLUMN c REMOVE DEFAULT, RENAME COLUMN d TO dd",
        "SELECT * FROM t ORDER BY k",
        "OPTIMIZE TABLE t FINAL",
        "SELECT * FROM t ORDER BY k",
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
    ("MODIFY COLUMN m UInt8", 36),
    ("MODIFY COLUMN m String", 36),
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


@pytest.mark.parametrize("name", one_in(7, HISTORIES))
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
        "CREATE TABLE t (k UInt32, s String, p Date, n Nested(a UInt8, b UInt8), m Nullable(UInt8)) "
        "ENGINE = MergeTree PARTITION BY p ORDER BY k SETTINGS min_bytes_for_wide_part = 0",
        "CREATE TABLE u AS t",
        "INSERT INTO t VALUES (1, 'a', '2020-01-01', [1, 2], [3, 4], 5)",
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


def test_null_does_not_become_what_other_columns_say(local: Local) -> None:
    """ClickHouse's mutation fails there (47), and all that come after it."""
    local.run("CREATE TABLE t (k UInt8, a Nullable(UInt16)) ENGINE = MergeTree ORDER BY k")
    with pytest.raises(PandoError, match=r"NULL of column `a` cannot become what depends on other columns, k \+ 100"):
        local.run("ALTER TABLE t MODIFY COLUMN a UInt16 DEFAULT k + 100")
    local.run("ALTER TABLE t MODIFY COLUMN a UInt16 DEFAULT toUInt16(100) + 1")


def test_a_default_reads_what_has_expired(local: Local) -> None:
    """ClickHouse's mutation fails there (10)."""
    local.run(
        "CREATE TABLE t (k UInt8, d Date, a UInt8, b UInt8) ENGINE = MergeTree ORDER BY k "
        "SETTINGS min_bytes_for_wide_part = 0"
    )
    local.run("INSERT INTO t VALUES (1, '2001-01-01', 1, 1), (2, '2001-01-01', 2, 2)")
    local.run("INSERT INTO t VALUES (3, '2001-01-01', 3, 3), (4, '2101-01-01', 4, 4)")
    ttl = "TTL d + INTERVAL 1 DAY"
    local.run(f"ALTER TABLE t MODIFY COLUMN a UInt8 {ttl}, MODIFY COLUMN b UInt8 DEFAULT a + 10 {ttl}")
    assert answer(local, "SELECT k, a, b FROM t ORDER BY k") == "1\t0\t10\n2\t0\t10\n3\t0\t10\n4\t4\t4\n"
