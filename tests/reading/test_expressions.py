"""Expressions that stand where they once were refused: the same answers as ClickHouse's."""

from __future__ import annotations

import pytest

from tests.portions import one_in
from tests.reading.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE t (a UInt8, b UInt8) ENGINE = MergeTree ORDER BY a",
        "INSERT INTO t VALUES (1, 1), (1, 2), (2, 1)",
    )
    return pair


_TWICE = "JOIN (SELECT 1 AS a, 7 AS c UNION ALL SELECT 1, 7) AS j USING a ORDER BY a, b"
_DISTINCT = "SETTINGS any_join_distinct_right_table_keys = 1"


@pytest.mark.parametrize(
    "query",
    one_in(
        2,
        [
            # several arrayJoins, and of groups
            "SELECT arrayJoin([1, 2]) AS x, arrayJoin([3, 4, 5]) AS y",
            "SELECT arrayJoin([1, 2]) AS x, arrayJoin([1, 2]) AS y",
            "SELECT arrayJoin([arrayJoin([1, 2]), 3])",
            "SELECT a, arrayJoin([a, b]) AS x, arrayJoin(['p', 'q']) AS y FROM t ORDER BY a, b, x, y",
            "SELECT sum(a), arrayJoin([min(b), max(b)]) FROM t",
            "SELECT arrayJoin(groupArray(a)) AS x FROM t ORDER BY x",
            "SELECT a, sum(b), arrayJoin([1, 2]) AS x FROM t GROUP BY a ORDER BY a, x",
            "SELECT a, arrayJoin([a, max(b)]) AS x FROM t GROUP BY a ORDER BY a, x",
            "SELECT arrayJoin([1, 2]) AS x, count() FROM t GROUP BY x ORDER BY x",
            "SELECT sum(arrayJoin([a, b])), count() FROM t",
            # subqueries in lambdas
            "SELECT arrayFilter(x -> x IN (SELECT '1'), ['1', '2'])",
            "SELECT arrayMap(x -> x + (SELECT max(a) FROM t), [1, 2])",
            "SELECT a, arrayExists(x -> x IN (SELECT b FROM t WHERE b > 1), [a, b]) AS e FROM t ORDER BY a, b",
            "SELECT arrayFilter(x -> x NOT IN (SELECT number FROM numbers(3)), range(5))",
            "SELECT arrayMap(x -> arrayFilter(y -> y IN (SELECT a FROM t), x), [[1, 2], [3]])",
            # maps
            "SELECT CAST([('k', 1), ('l', 2)], 'Map(String, UInt64)') AS m",
            "SELECT CAST(groupArray((toString(a), b)), 'Map(String, UInt32)') AS m "
            "FROM (SELECT * FROM t ORDER BY a, b)",
            "SELECT CAST(map(), 'Map(String, UInt8)') AS m, CAST([], 'Map(String, UInt8)') AS n",
            # joins
            f"SELECT * FROM t ANY {_TWICE} {_DISTINCT}",
            f"SELECT * FROM t ANY {_TWICE}",
            f"SELECT * FROM t ANY LEFT {_TWICE} {_DISTINCT}",
            f"SELECT * FROM t ANY RIGHT {_TWICE} {_DISTINCT}",
            f"SELECT * FROM t ANY FULL {_TWICE} {_DISTINCT}",
            "SELECT a, c FROM t JOIN (SELECT a, b AS c FROM t) USING a ORDER BY a, c "
            "SETTINGS joined_subquery_requires_alias = 0",
            # table functions
            "SELECT * FROM VALUES('a Int8, b String', (1, 'x'), (2, 'y'))",
            "SELECT * FROM Values(('v'), ('w'))",
        ],
    ),
)
def test_same_answers(filled: Pair, query: str) -> None:
    assert filled.same_table(query)


def test_a_branch_that_is_never_taken_may_have_unknown_names(filled: Pair) -> None:
    assert filled.local.run("SELECT if(0, unknown, 42) FROM t LIMIT 1") == [(42,)]
    assert filled.local.run("SELECT if(1, b, unknown) FROM t WHERE a = 2") == [(1,)]
    for query in ("SELECT if(1, unknown, 42) FROM t", "SELECT if(a, unknown, 42) FROM t"):
        assert filled.same_code(query) == 47


def test_maps_of_the_empty_map(filled: Pair) -> None:
    filled.run("CREATE TABLE m (m Map(String, UInt8)) ENGINE = Memory", "INSERT INTO m VALUES (map()), (map('a', 1))")
    assert filled.same_table("SELECT m FROM m ORDER BY length(m)")
    assert filled.code("SELECT map()") == 48


@pytest.mark.parametrize("style", ["Pretty", "PrettyCompact", "PrettySpace"])
@pytest.mark.parametrize("kind", ["NoEscapes", "MonoBlock", "NoEscapesMonoBlock"])
def test_pretty_formats(filled: Pair, style: str, kind: str) -> None:
    settings = "SETTINGS output_format_pretty_color = 1" if "NoEscapes" in kind else ""
    assert filled.same_text(f"SELECT a, toString(b) AS s FROM t ORDER BY a, b {settings}", style + kind)
