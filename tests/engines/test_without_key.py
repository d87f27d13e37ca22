"""Tables of every engine that reduces rows, without and with a sorting key: what stays here and in ClickHouse."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.engines.histories import NO_MERGES
from tests.portions import one_in
from tests.sql.oracle import Oracle

NUMBERS = ("k Int32, v Int32", "(1, 10), (2, 20), (3, 30), (3, 4), (0, 0)")
FUNCTIONS = (
    "k Int32, v SimpleAggregateFunction(sum, Int64), "
    "m SimpleAggregateFunction(sumMap, Tuple(Array(String), Array(Int64)))",
    "(1, 10, (['b', 'a'], [1, 2])), (2, 20, (['b', 'b'], [1, 2])), (2, 3, (['b'], [0])), (0, 0, ([], []))",
)
MAPS = (
    "k Int32, v Int64, `xMap.k` Array(Int8), `xMap.v` Array(Int64)",
    "(1, 10, [2, 1], [2, 1]), (2, 20, [1, 1], [2, 2]), (2, 3, [1], [0]), (0, 0, [1], [0]), (0, 0, [], [])",
)
SIGNS = ("k Int32, sign Int8, version UInt8", "(1, 1, 1), (1, -1, 1), (3, 1, 2), (3, 1, 3)")

TABLES = (
    ("SummingMergeTree", NUMBERS),
    ("SummingMergeTree(v)", NUMBERS),
    ("SummingMergeTree", FUNCTIONS),
    ("SummingMergeTree", MAPS),
    ("AggregatingMergeTree", FUNCTIONS),
    ("ReplacingMergeTree", NUMBERS),
    ("ReplacingMergeTree(v)", NUMBERS),
    ("CollapsingMergeTree(sign)", SIGNS),
    ("VersionedCollapsingMergeTree(sign, version)", SIGNS),
)
KEYS = ("ORDER BY tuple()", "PARTITION BY k % 2 ORDER BY ()", "ORDER BY k")
MANY = "SELECT number % 5 AS k, number AS v FROM numbers(100000)"


@pytest.mark.parametrize("key", one_in(3, KEYS))
@pytest.mark.parametrize(("engine", "columns"), TABLES)
def test_inserts_merges_and_final(
    oracle: Oracle, pando: Pando, engine: str, columns: tuple[str, str], key: str
) -> None:
    types, rows = columns
    statements = (
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t ({types}) ENGINE = {engine} {key} SETTINGS {NO_MERGES}",
        f"INSERT INTO t VALUES {rows}",
        f"INSERT INTO t SETTINGS optimize_on_insert = 0 VALUES {rows}",
        "OPTIMIZE TABLE t FINAL",
    )
    for statement in statements:
        oracle.query(statement)
        pando.query(statement)
        if "INSERT" in statement or "OPTIMIZE" in statement:
            for question in ("SELECT * FROM t ORDER BY ALL", "SELECT * FROM t FINAL ORDER BY ALL"):
                assert pando.query(question) == oracle.query(question), (statement, question)


@pytest.mark.parametrize("engine", ["SummingMergeTree", "AggregatingMergeTree"])
def test_more_rows_than_a_block(oracle: Oracle, pando: Pando, engine: str) -> None:
    statements = (
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (k Int32, v SimpleAggregateFunction(sum, Int64)) ENGINE = {engine} ORDER BY tuple() "
        f"SETTINGS {NO_MERGES}",
        f"INSERT INTO t {MANY}",
        f"INSERT INTO t {MANY}",
        "OPTIMIZE TABLE t FINAL",
    )
    for statement in statements:
        oracle.query(statement)
        pando.query(statement)
    for final in ("", " FINAL"):
        question = f"SELECT k, count(), sum(v) FROM t{final} GROUP BY k ORDER BY k"
        assert pando.query(question) == oracle.query(question)
