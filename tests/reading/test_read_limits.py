"""max_rows_to_read and its kin: who reads too much is refused, as in ClickHouse."""

from __future__ import annotations

import pytest

from sql.settings.setting_values import parse_setting_value
from tests.portions import one_in
from tests.reading.conftest import Pair

TABLE = """CREATE TABLE t (d Date, k UInt64, v String) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY k
    SETTINGS index_granularity = 100"""
FILL = "INSERT INTO t SELECT '2024-0{}-01', number, toString(number) FROM numbers(1000)"


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(TABLE, FILL.format(1), FILL.format(2))
    return pair


@pytest.mark.parametrize(
    ("query", "code"),
    one_in(3, [
        ("SELECT count() FROM t SETTINGS max_rows_to_read = 1", 0),
        ("SELECT sum(k) FROM t SETTINGS max_rows_to_read = 1999", 158),
        ("SELECT sum(k) FROM t SETTINGS max_rows_to_read_leaf = 10", 158),
        ("SELECT sum(k) FROM t SETTINGS max_rows_to_read = 2000", 0),
        ("SELECT count() FROM t WHERE k = 5 SETTINGS max_rows_to_read = 199", 158),
        ("SELECT count() FROM t WHERE k = 5 SETTINGS max_rows_to_read = 200", 0),
        ("SELECT v FROM t WHERE k = 5 SETTINGS max_rows_to_read = 199", 158),
        ("SELECT v FROM t WHERE k = 5 SETTINGS max_rows_to_read = 200", 0),
        ("SELECT sum(k) FROM t WHERE d = '2024-01-01' SETTINGS max_rows_to_read = 1000", 0),
        ("SELECT sum(k) FROM t WHERE d = '2024-01-01' SETTINGS max_rows_to_read = 999", 158),
        ("SELECT DISTINCT k FROM t SETTINGS max_rows_to_read = 1", 158),
        ("SELECT v, sum(k) FROM t GROUP BY v SETTINGS max_rows_to_read = 1999", 158),
        ("SELECT sum(k) FROM t WHERE 0 SETTINGS max_rows_to_read = 1", 0),
        ("SELECT x FROM (SELECT v AS x FROM t WHERE k = 1 UNION ALL SELECT v FROM t WHERE k = 2) "
         "SETTINGS max_rows_to_read = 399", 158),
        ("SELECT x FROM (SELECT v AS x FROM t WHERE k = 1 UNION ALL SELECT v FROM t WHERE k = 2) "
         "SETTINGS max_rows_to_read = 400", 0),
        ("SELECT sum(k) FROM t SETTINGS max_bytes_to_read = 10", 307),
        ("SELECT sum(k) FROM t SETTINGS max_bytes_to_read_leaf = 10", 307),
        ("SELECT sum(k) FROM t SETTINGS max_bytes_to_read = 16000", 0),
        ("SELECT v FROM t WHERE k = 5 SETTINGS max_bytes_to_read = 1", 307),
        ("SELECT sum(k) FROM t SETTINGS max_rows_to_read = 10, read_overflow_mode = 'break'", 0),
        ("INSERT INTO t SELECT * FROM t SETTINGS max_rows_to_read = 10", 158),
        ("SELECT name FROM system.tables SETTINGS max_rows_to_read = 1", 0),
        ("SELECT k, d FROM t SETTINGS max_columns_to_read = 1", 161),
        ("SELECT k FROM t WHERE v = '1' SETTINGS max_columns_to_read = 1", 161),
        ("SELECT k, k + 1 FROM t SETTINGS max_columns_to_read = 1", 0),
        ("SELECT k FROM (SELECT k, d, v FROM t) SETTINGS max_columns_to_read = 1", 0),
        ("SELECT t.k FROM t JOIN t AS t2 ON t.k = t2.k SETTINGS max_columns_to_read = 1", 0),
        ("SELECT 1, 2, 3 SETTINGS max_columns_to_read = 1", 0),
        ("SELECT sum(k) FROM t SETTINGS max_partitions_to_read = 1", 565),
        ("SELECT sum(k) FROM t SETTINGS max_partitions_to_read = 2", 0),
        ("SELECT count() FROM t SETTINGS max_partitions_to_read = 1", 0),
        ("SELECT sum(k) FROM t WHERE d = '2024-01-01' SETTINGS max_partitions_to_read = 1", 0),
        ("SELECT v FROM t WHERE k = 7 SETTINGS max_partitions_to_read = 1", 565),
    ]),
)  # fmt: skip
def test_limits(filled: Pair, query: str, code: int) -> None:
    assert filled.same_code(query) == code
    assert filled.code(query) == code  # what runs again may go the short way


@pytest.mark.parametrize(
    ("condition", "by_key", "by_date"),
    one_in(
        3,
        [
            ("k >= 0", 0, 277),
            ("k = 5", 0, 277),
            ("k IN (1, 2)", 0, 277),
            ("k = 5 OR v = '1'", 277, 277),
            ("k = 5 AND v = '1'", 0, 277),
            ("v = '1'", 277, 277),
            ("d = '2024-01-01'", 277, 0),
            ("toYYYYMM(d) = 202401", 277, 0),
            ("k = 1 AND d > '2024-01-20'", 0, 0),
            ("1", 277, 277),
        ],
    ),
)
def test_forced_indexes(filled: Pair, condition: str, by_key: int, by_date: int) -> None:
    query = f"SELECT sum(k) FROM t WHERE {condition} SETTINGS"
    for _ in range(3):
        assert filled.same_code(f"{query} force_primary_key = 1") == by_key
        assert filled.same_code(f"{query} force_index_by_date = 1") == by_date


def test_what_is_only_counted_needs_no_index(filled: Pair) -> None:
    assert filled.same_code("SELECT count() FROM t SETTINGS force_primary_key = 1, force_index_by_date = 1") == 0
    filled.run("CREATE TABLE e (k UInt64) ENGINE = MergeTree ORDER BY tuple()", "INSERT INTO e VALUES (1)")
    assert filled.same_code("SELECT k FROM e SETTINGS force_primary_key = 1") == 277
    assert filled.same_code("SELECT k FROM e SETTINGS force_index_by_date = 1") == 0


def test_break_ends_with_the_block_that_passes_a_limit(filled: Pair) -> None:
    filled.run("CREATE TABLE many (k UInt64) ENGINE = MergeTree ORDER BY k")
    filled.run("INSERT INTO many SELECT number FROM numbers(300000)")
    query = "SELECT count(), max(k) FROM many SETTINGS max_rows_to_read = 1000, read_overflow_mode = 'break'"
    ((rows, last),) = filled.local.run(query)
    assert 1000 <= rows == last + 1 < 300_000


def test_a_table_has_a_limit_of_partitions(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE p (k UInt64) ENGINE = MergeTree PARTITION BY k ORDER BY k SETTINGS max_partitions_to_read = 1",
        "INSERT INTO p VALUES (1), (2)",
    )
    for settings, code in (("", 565), ("SETTINGS max_partitions_to_read = 2", 0)):
        assert pair.same_code(f"SELECT * FROM p {settings}") == code
    for settings in ("max_partitions_to_read = 0", "max_partitions_to_read = -1"):
        assert pair.same_code(f"SELECT * FROM p SETTINGS {settings}") == 0
    assert pair.same_code("SELECT * FROM p WHERE k = 1") == 0
    assert pair.same_code("SELECT count() FROM p") == 0


@pytest.mark.parametrize("text", ["100G", "3k", "3K", "3Ki", "3ki", "3M", "2Mi", "3T", "7"])
def test_numbers_with_units(pair: Pair, text: str) -> None:
    query = f"SELECT getSetting('max_rows_to_read') SETTINGS max_rows_to_read = '{text}'"
    assert str(pair.local.value(query)) == pair.oracle.run(query).strip()


@pytest.mark.parametrize("text", ["3m", "1.5G", "3KiB", "3 G", "3P"])
def test_no_units(pair: Pair, text: str) -> None:
    query = f"SELECT 1 SETTINGS max_rows_to_read = '{text}'"
    assert pair.code(query) == 72
    assert pair.oracle.error(query) != 0


def test_units_of_a_table() -> None:
    assert parse_setting_value("UInt64", "min_bytes_for_wide_part", "10M") == 10_000_000
