"""``index_granularity_bytes``: granules, and what counts them, are those of ClickHouse."""

from __future__ import annotations

import re

import pytest

from parts.common.errors import PandoError
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle, local, oracle

__all__ = ["local", "oracle"]

MARKS = "SELECT name, rows, marks FROM system.parts WHERE active AND table = 't' AND database = currentDatabase()"
COLUMNS = {
    "d Date, v Int32": "toDate(number), number",
    "v String, n Nullable(UInt16)": "repeat('ab', number % 90), if(number % 3 = 0, NULL, number % 1000)",
    "a Array(UInt32), m Map(UInt8, UInt8)": "range(number % 20), map(1, 2)",
    "l LowCardinality(String), f FixedString(3), b Bool": "'x', 'abc', number % 2 = 0",
    "t DateTime, x DateTime64(3), e Enum8('a' = 1)": "number, toDateTime64(number, 3), 'a'",
    "c Decimal(9, 2), p Decimal(18, 2), q Decimal(38, 2), u UUID":
        "number, 1, 1, toUUID('f4cdd80d-5d15-4bdc-9527-adcca635ec1f')",
    "i IPv6, j IPv4, g Float32, tup Tuple(UInt8, String)": "'::1', '1.2.3.4', 1, (1, 'abc')",
}  # fmt: skip
CREATE = """
    CREATE TABLE t (k UInt64, {}) ENGINE = MergeTree ORDER BY k
    SETTINGS index_granularity = 100, index_granularity_bytes = {}, min_index_granularity_bytes = 1,
    min_bytes_for_wide_part = 0, use_const_adaptive_granularity = 1
"""


def both(local: Local, oracle: Oracle, sql: str) -> None:
    local.run(sql)
    oracle.run(sql)


def marks(local: Local, oracle: Oracle) -> list[tuple[object, ...]]:
    """Of the parts, which ClickHouse has too."""
    found = local.run(MARKS + " ORDER BY name")
    assert "".join("\t".join(map(str, row)) + "\n" for row in found) == oracle.run(MARKS + " ORDER BY name")
    return found


@pytest.mark.parametrize("columns", one_in(7, COLUMNS))
@pytest.mark.long
def test_marks_are_those_of_clickhouse(local: Local, oracle: Oracle, columns: str) -> None:
    counted = []
    for limit in (0, 1, 333, 1000, 100_000):
        both(local, oracle, CREATE.format(columns, limit))
        for rows in (1, 7, 1000):
            both(local, oracle, f"INSERT INTO t SELECT number, {COLUMNS[columns]} FROM numbers({rows})")
        counted.append([row[2] for row in marks(local, oracle)])
        if "LowCardinality" not in columns:  # what a dictionary holds is not counted
            both(local, oracle, "OPTIMIZE TABLE t FINAL")
            marks(local, oracle)
        both(local, oracle, "DROP TABLE t SYNC")
    assert counted[0] == [1, 1, 10]
    assert counted[1] == [2, 8, 1001]
    assert 11 < counted[2][2] < 500
    assert counted[4] == [2, 2, 11]


QUERIES = [
    "SELECT count(), sum(k), sum(length(s)) FROM t WHERE k BETWEEN 1207 AND 1391",
    "SELECT k, s FROM t WHERE k IN (0, 5, 1999) ORDER BY k, s",
    "SELECT count() FROM t WHERE v = 77",
    "SELECT count(), max(k) FROM t WHERE s LIKE '%17-%' AND k > 300",
    "SELECT _part_offset, k FROM t WHERE v % 500 = 3 ORDER BY k",
]


def same(local: Local, oracle: Oracle) -> None:
    for query in QUERIES:
        rows = "".join("\t".join(map(str, row)) + "\n" for row in local.run(query))
        assert rows == oracle.run(query), query


def read_of(local: Local, oracle: Oracle, query: str) -> str:
    """What EXPLAIN tells of granules."""
    lines = "\n".join(str(line) for (line,) in local.run("EXPLAIN indexes = 1 " + query))
    granules = re.findall(r"Granules: \d+/\d+", lines)
    assert granules == re.findall(r"Granules: \d+/\d+", oracle.run("EXPLAIN indexes = 1 " + query))
    return " ".join(granules)


@pytest.mark.long
def test_what_counts_on_granules_stays_right(local: Local, oracle: Oracle) -> None:
    both(local, oracle, """
        CREATE TABLE t (k UInt64, v UInt32, s String, INDEX i v TYPE minmax GRANULARITY 2) ENGINE = MergeTree ORDER BY k
        SETTINGS index_granularity = 50, index_granularity_bytes = 1024, min_bytes_for_wide_part = 0,
        use_const_adaptive_granularity = 1""")  # fmt: skip
    both(local, oracle, "SYSTEM STOP MERGES t")
    for begin, width in ((0, 1), (700, 40), (1300, 400)):
        row = f"number + {begin}, number, concat(toString(number), '-', repeat('y', {width} + number % 3))"
        both(local, oracle, f"INSERT INTO t SELECT {row} FROM numbers(900)")
    assert [row[2] for row in marks(local, oracle)] == [24, 61, 451]
    same(local, oracle)
    assert read_of(local, oracle, "SELECT count() FROM t WHERE k = 1500 AND v = 200")
    both(local, oracle, "SYSTEM START MERGES t")
    both(local, oracle, "OPTIMIZE TABLE t FINAL")
    ((_, rows, counted),) = marks(local, oracle)
    assert rows == 2700
    assert int(str(counted)) > 300
    same(local, oracle)
    assert "/" in read_of(local, oracle, "SELECT s FROM t WHERE k BETWEEN 1190 AND 1310 AND v > 500")
    for change in (
        "ALTER TABLE t UPDATE v = v + 1 WHERE k % 3 = 0 SETTINGS mutations_sync = 2",
        "ALTER TABLE t UPDATE s = 'short' WHERE k > 700 SETTINGS mutations_sync = 2",
        "DELETE FROM t WHERE k % 11 = 4",
    ):
        both(local, oracle, change)
        same(local, oracle)
    marks(local, oracle)
    both(local, oracle, "OPTIMIZE TABLE t FINAL")
    same(local, oracle)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("index_granularity_bytes = 1023", 36),
        ("index_granularity_bytes = 2000, min_index_granularity_bytes = 2001", 36),
        ("index_granularity_bytes = 0, min_index_granularity_bytes = 2001", 0),
        ("index_granularity_bytes = 1, min_index_granularity_bytes = 0", 0),
        ("enable_mixed_granularity_parts = 0", 0),
        ("use_const_adaptive_granularity = 1, write_final_mark = 0", 0),
    ],
)
def test_settings_of_create(local: Local, oracle: Oracle, settings: str, code: int) -> None:
    sql = f"CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS {settings}"
    assert error_of(local, sql) == oracle.error(sql) == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("MODIFY SETTING index_granularity_bytes = 5000", 472),
        ("MODIFY SETTING index_granularity_bytes = 4096, index_granularity = 100", 0),
        ("MODIFY SETTING enable_mixed_granularity_parts = 0", 472),
        ("MODIFY SETTING min_index_granularity_bytes = 5000", 36),
        ("MODIFY SETTING min_index_granularity_bytes = 4096", 0),
        ("RESET SETTING index_granularity_bytes", 472),
    ],
)
def test_settings_of_alter(local: Local, oracle: Oracle, change: str, code: int) -> None:
    both(local, oracle, "CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k "
                        "SETTINGS index_granularity = 100, index_granularity_bytes = 4096")  # fmt: skip
    sql = f"ALTER TABLE t {change}"
    assert error_of(local, sql) == oracle.error(sql) == code


@pytest.mark.parametrize(("source", "target"), [(0, 1024), (1024, 0), (0, 0), (1024, 2048)])
def test_partitions_of_tables_of_other_granules(local: Local, oracle: Oracle, source: int, target: int) -> None:
    for name, limit in (("a", source), ("b", target)):
        both(local, oracle, f"CREATE TABLE {name} (k UInt8) ENGINE = MergeTree PARTITION BY k ORDER BY k "
                            f"SETTINGS index_granularity_bytes = {limit}")  # fmt: skip
    both(local, oracle, "INSERT INTO a VALUES (1), (2), (3)")
    for sql in (
        "ALTER TABLE b REPLACE PARTITION 1 FROM a", "ALTER TABLE b ATTACH PARTITION 2 FROM a",
        "ALTER TABLE a MOVE PARTITION 3 TO TABLE b",
    ):  # fmt: skip
        assert error_of(local, sql) == oracle.error(sql) == (36 if source > target else 0)
    assert [row[0] for row in local.run("SELECT k FROM b ORDER BY k")] == ([] if source > target else [1, 2, 3])


def error_of(local: Local, sql: str) -> int:
    try:
        local.run(sql)
    except PandoError as error:
        return error.code
    return 0
