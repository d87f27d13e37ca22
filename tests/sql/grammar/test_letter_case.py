"""Names that differ only in the case of letters are different names, compared with ClickHouse.

DuckDB takes them for one: without care one column silently stands for the other.
"""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.sql.oracle import Oracle

_TABLES = [
    "DROP TABLE IF EXISTS u",
    "CREATE TABLE u (a UInt8, A UInt8, b UInt8, `é` UInt8, s String, S String) ENGINE = MergeTree ORDER BY (A, a)",
    "INSERT INTO u VALUES (1,2,3,4,'x','Y'), (5,6,7,8,'z','x'), (2,1,0,9,'y','q'), (6,2,7,8,'z','x')",
    "DROP TABLE IF EXISTS pair",
    "CREATE TABLE pair (t Tuple(n UInt8, N String), T Nullable(Int8), `^a` UInt8, `^A` UInt8) ENGINE = Memory",
    "INSERT INTO pair VALUES ((1,'x'),5,6,7), ((2,'y'),NULL,8,9)",
]
_QUERIES = [
    "SELECT a, A FROM u ORDER BY a",
    "SELECT a, A FROM u WHERE A = 2 ORDER BY a",
    "SELECT a FROM u PREWHERE A = 1 WHERE a = 2",
    "SELECT A FROM u WHERE a > 1 AND A < 6 ORDER BY A DESC, a",
    "SELECT s, S, count() FROM u GROUP BY s, S ORDER BY s, S",
    "SELECT S, uniqExact(s), max(a), max(A) FROM u GROUP BY S ORDER BY S",
    "SELECT DISTINCT s, S FROM u ORDER BY s, S",
    "SELECT a, sum(A) AS k, count() AS K FROM u GROUP BY a HAVING K > 0 ORDER BY K, k",
    "SELECT a, A, count() FROM u GROUP BY ROLLUP(a, A) ORDER BY a, A",
    "SELECT * FROM (SELECT a, A FROM u) ORDER BY A, a",
    "SELECT A FROM (SELECT b AS a, a AS A FROM u) ORDER BY A",
    "SELECT l.a, l.A, r.a, r.A FROM u AS l JOIN u AS r ON l.a = r.A ORDER BY ALL",
    "SELECT l.a, L.a FROM u AS l JOIN u AS L ON l.a = L.A ORDER BY ALL",
    "SELECT * FROM u AS l JOIN u AS r USING (A) ORDER BY ALL",
    "SELECT l.s, r.S FROM u AS l LEFT JOIN (SELECT s AS S, S AS s FROM u) AS r ON l.s = r.s ORDER BY ALL",
    "WITH x AS (SELECT 1 AS p), X AS (SELECT 2 AS p) SELECT x.p, X.p FROM x, X",
    "WITH 1 AS x, 2 AS X SELECT x, X",
    "SELECT sum(a) OVER (ORDER BY A, a), max(A) OVER (PARTITION BY s ORDER BY a) FROM u ORDER BY ALL",
    "SELECT A FROM u ORDER BY a LIMIT 1 BY A",
    "SELECT a FROM u WHERE A IN (SELECT a FROM u WHERE A < 6) ORDER BY a",
    "SELECT arrayMap(x -> x + arraySum(X -> X * x, [1, 2]), [1, 2])",
    "SELECT arrayMap((x, X) -> x - X, [5, 6], [1, 2])",
    "SELECT a, A FROM (SELECT [1, 2] AS a, [3, 4] AS A) ARRAY JOIN a, A",
    "SELECT t.n, t.N, T, tupleElement(t, 'N'), tupleElement(t, 'n') FROM pair ORDER BY ALL",
    "SELECT t, T, toString(t) FROM pair WHERE t.N = 'y'",
    "SELECT CAST((1, 2), 'Tuple(n UInt8, N UInt8)') AS x, x.N, x.n, toString(x)",
    "SELECT if(T = 5, t, CAST((7, 'w'), 'Tuple(n UInt8, N String)')) AS x, x.N FROM pair ORDER BY x.N",
    "SELECT [t] AS x, x[1].N, arrayMap(e -> e.N, x), groupArray(t).N FROM pair GROUP BY t ORDER BY t",
    "SELECT t, max(T) FROM (SELECT * FROM pair UNION ALL SELECT t, 9, 1, 1 FROM pair) GROUP BY t ORDER BY t",
    "SELECT t.n FROM pair ORDER BY t.N DESC",
    "SELECT arrayFilter(e -> e.n = 2, groupArray(t)), arrayReverse(groupArray(t))[1].N FROM pair",
    "SELECT `^a`, `^A` FROM pair ORDER BY `^A`",
    "SELECT a FROM (SELECT A FROM u)",
]


@pytest.fixture(scope="module")
def both(oracle: Oracle, pando: Pando) -> tuple[Oracle, Pando]:
    for statement in _TABLES:
        oracle.query(statement)
        pando.query(statement)
    return oracle, pando


def answer(server: Oracle | Pando, query: str) -> str:
    try:
        return server.query(query).decode()
    except (PandoError, RuntimeError) as error:
        return "error " + str(error).split(".", 1)[0]


@pytest.mark.parametrize("query", _QUERIES)
def test_a_query_tells_them_apart(both: tuple[Oracle, Pando], query: str) -> None:
    oracle, pando = both
    assert answer(pando, query) == answer(oracle, query)


def test_statements_that_change_a_table_tell_them_apart(oracle: Oracle, pando: Pando) -> None:
    statements = [
        "DROP TABLE IF EXISTS v",
        "CREATE TABLE v (a UInt8, A UInt8, b UInt8 DEFAULT A * 10, i UInt8, INDEX f A TYPE minmax) "
        "ENGINE = MergeTree ORDER BY A PARTITION BY a % 2",
        "INSERT INTO v (a, A, i) VALUES (1, 2, 0), (4, 5, 0)",
        "INSERT INTO v (A, a) SELECT a, A FROM v",
        "SELECT * FROM v ORDER BY ALL",
        "ALTER TABLE v UPDATE i = A + 100 WHERE a = 4 SETTINGS mutations_sync = 2",
        "SELECT * FROM v ORDER BY ALL",
        "ALTER TABLE v DELETE WHERE A = 4 SETTINGS mutations_sync = 2",
        "DELETE FROM v WHERE A = 1",
        "SELECT * FROM v ORDER BY ALL",
        "ALTER TABLE v ADD COLUMN I UInt8 DEFAULT i + 1",
        "SELECT i, I FROM v ORDER BY ALL",
        "ALTER TABLE v DROP COLUMN i",
        "ALTER TABLE v RENAME COLUMN I TO i",
        "SELECT * FROM v ORDER BY ALL",
    ]
    for statement in statements:
        assert answer(pando, statement) == answer(oracle, statement), statement
