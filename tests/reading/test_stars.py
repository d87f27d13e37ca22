"""``*`` and ``COLUMNS`` with what follows them, and in calls: names, types and values as in ClickHouse."""

from __future__ import annotations

import pytest

from tests.portions import one_in
from tests.reading.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE t (a Int64, b Int16, ab Int64, c UInt64) ENGINE = MergeTree ORDER BY a",
        "INSERT INTO t VALUES (7, 70, 700, 1), (8, 80, 800, 2), (9, 90, 900, 3)",
    )
    return pair


@pytest.mark.parametrize(
    "query",
    one_in(
        2,
        [
            "SELECT ignore(*) FROM t",
            "SELECT count() FROM t WHERE NOT ignore(*)",
            "SELECT tuple(*), concat(* APPLY(toString)) FROM t ORDER BY tuple(*)",
            "SELECT * APPLY(sum) FROM t",
            "SELECT t.* APPLY sum, count() FROM t",
            "SELECT max(a), * APPLY max FROM t",
            "SELECT COLUMNS('b') APPLY(toString) APPLY length FROM t",
            "SELECT * EXCEPT(a) APPLY(x -> x + 1) FROM t",
            "SELECT * APPLY x -> x % 2 FROM t",
            "SELECT * APPLY(quantilesExact(0.5)) FROM t",
            "SELECT * APPLY(sum, 'total_') FROM t",
            "SELECT * EXCEPT 'c' FROM t",
            "SELECT * EXCEPT('^b|^c') FROM t",
            "SELECT * EXCEPT(a, unknown) FROM t",
            "SELECT * EXCEPT STRICT a FROM t",
            "SELECT * EXCEPT a EXCEPT b FROM t",
            "SELECT * REPLACE(a + 1 AS a) FROM t",
            "SELECT * REPLACE a + 1 AS a, c FROM t",
            "SELECT * REPLACE(a + 1 AS unknown) FROM t",
            "SELECT * REPLACE(a + 1 AS a) APPLY(toString) FROM t",
            "SELECT * EXCEPT(a) REPLACE(b + 1 AS b) APPLY(sum) FROM t",
            "SELECT COLUMNS(a, t.b) FROM t",
            "SELECT COLUMNS('^a$') + COLUMNS('^b$') FROM t",
            "SELECT plus(COLUMNS('a')) FROM t",
            "SELECT a, COLUMNS('z'), ignore(COLUMNS('z')) FROM t",
            "SELECT sum(COLUMNS('^b$')) FROM t",
            "SELECT count() FROM (SELECT a FROM t GROUP BY *)",
            "SELECT a, (SELECT sum(ignore(*)) FROM t) AS n FROM t WHERE NOT ignore(t.*) ORDER BY a",
        ],
    ),
)
def test_same_as_clickhouse(filled: Pair, query: str) -> None:
    assert filled.same_table(query)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT * EXCEPT STRICT (a, unknown) FROM t", 36),
        ("SELECT * REPLACE STRICT (a + 1 AS unknown) FROM t", 36),
        ("SELECT COLUMNS('z') FROM t", 51),
        ("SELECT COLUMNS('a') + 1 FROM t", 42),
        ("SELECT COLUMNS(z) FROM t", 47),
    ],
)
def test_refused(filled: Pair, query: str, code: int) -> None:
    assert filled.same_code(query) == code
