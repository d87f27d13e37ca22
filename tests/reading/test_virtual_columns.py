"""Columns that a table has beside its own: what they say, and that parts which cannot match are not read."""

from __future__ import annotations

import pytest

from tests.portions import one_in
from tests.reading.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE v (k UInt64, d Date) ENGINE = MergeTree PARTITION BY (toYYYYMM(d), k % 2) ORDER BY k SAMPLE BY k",
        "INSERT INTO v SELECT number, '2024-01-01' FROM numbers(4)",
        "INSERT INTO v SELECT number, '2024-02-01' FROM numbers(2)",
        "CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k",
        "CREATE TABLE small (k UInt64) ENGINE = Memory",
        "INSERT INTO small VALUES (1)",
    )
    return pair


@pytest.mark.parametrize(
    "query",
    one_in(
        2,
        [
            "SELECT k, _partition_value, _partition_id FROM v ORDER BY d, k",
            "SELECT _table, _part_uuid, _sample_factor FROM v LIMIT 1",
            "SELECT * FROM v ORDER BY d, k LIMIT 1",
            "SELECT _sample_factor FROM v SAMPLE 1/2 LIMIT 1",
            "SELECT _sample_factor FROM v SAMPLE 3 LIMIT 1",
            "SELECT sum(k * _sample_factor), max(_partition_value), min(_table) FROM v",
            "SELECT DISTINCT _partition_value FROM v ORDER BY ALL",
            "SELECT _partition_value.2 AS p, count() FROM v GROUP BY p ORDER BY p",
            "SELECT a._table, b._table FROM v AS a JOIN v AS b ON a.k = b.k LIMIT 1",
            "SELECT _table, k FROM small",
            "SELECT _database = currentDatabase() FROM v LIMIT 1",
            "SELECT count() FROM v PREWHERE _partition_value = (202402, 0) WHERE k < 5",
        ],
    ),
)
def test_values(filled: Pair, query: str) -> None:
    assert filled.same_table(query)


@pytest.mark.parametrize(
    ("condition", "rows"),
    one_in(
        2,
        [
            ("_partition_value = (202401, 1)", 2),
            ("_partition_value.1 = 202401", 4),
            ("_partition_id = '202401-0'", 2),
            ("_partition_id IN ('202401-0', '202402-1')", 3),
            ("_partition_id > '202401-0'", 4),
            ("_part = '202401-0_1_1_0'", 2),
            ("_part LIKE '202402%'", 2),
            ("_table = 'v'", 6),
        ],
    ),
)
def test_other_parts_are_not_read(filled: Pair, condition: str, rows: int) -> None:
    query = f"SELECT k FROM v WHERE {condition} ORDER BY k, d SETTINGS max_rows_to_read = {rows}"
    assert filled.same_table(query)
    assert filled.same_table(f"SELECT count() FROM v WHERE {condition}")
    assert len(filled.local.run(query)) == rows


@pytest.mark.parametrize("query", ["SELECT _partition_value FROM plain", "SELECT _sample_factor FROM small"])
def test_tables_that_have_not_all(filled: Pair, query: str) -> None:
    assert filled.same_code(query) == 47
