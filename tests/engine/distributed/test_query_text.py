"""What a query's tree is written as is read as the same tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import UserError
from sql.grammar.queries.query_formatter import format_query
from sql.grammar.queries.query_parser import parse_query

QUERIES = [
    "SELECT a, -b AS c, t.*, COLUMNS('x') EXCEPT (y) APPLY(sum), count(DISTINCT z), f(1)(2), NULL, true, '''' FROM t",
    "WITH 1 AS one, c AS (SELECT 2) SELECT DISTINCT ON (a) a FROM db.`t 1` AS x FINAL SAMPLE 1/10 OFFSET 1/2 "
    "PREWHERE p WHERE a AND NOT (b OR c IN (1, 2)) AND d GLOBAL NOT IN (SELECT 1) AND e IS NOT NULL AND "
    "exists(SELECT 1)",
    "SELECT sum(x) FILTER (WHERE y) OVER (PARTITION BY a ORDER BY b DESC NULLS FIRST ROWS BETWEEN 1 PRECEDING AND "
    "CURRENT ROW), first_value(z) IGNORE NULLS OVER w FROM t WINDOW w AS (ORDER BY q) QUALIFY 1",
    "SELECT arrayMap((x, y) -> x.1 + y['k'], [(1, 2)], m), CAST(a AS Int8), interval 3 day, if(a, b, c), a[1] FROM t",
    "SELECT k FROM a GLOBAL ANY LEFT JOIN (SELECT 1) AS b USING (k) CROSS JOIN numbers(3) AS n ARRAY JOIN x AS y, z",
    "SELECT k, count() FROM t GROUP BY ROLLUP(k) HAVING 1 ORDER BY ALL LIMIT 2 OFFSET 1 BY k LIMIT 3 WITH TIES",
    "SELECT 1 UNION ALL (SELECT 2 EXCEPT SELECT 3)",
    "SELECT {p:UInt8}, 0.1, 1e300, 18446744073709551615, count(*) FROM view(SELECT 1) GROUP BY GROUPING SETS (a, b)",
    f"SELECT k IN ({', '.join(map(str, range(200)))}) FROM t",
    f"SELECT (a, b) IN ({', '.join(f'({n}, {str(n)!r})' for n in range(200))}) FROM t",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_text_means_the_same(query: str) -> None:
    tree = parse_query(query)
    assert parse_query(format_query(tree)) == tree


def test_the_text_of_every_case_means_the_same() -> None:
    seen = 0
    for path in sorted((Path(__file__).parents[2] / "sql" / "run" / "cases").glob("*.sql")):
        for query in path.read_text().splitlines():
            try:
                tree = parse_query(query)
            except UserError:
                continue  # what is left of a comment or of a longer query
            assert parse_query(format_query(tree)) == tree, query
            seen += 1
    assert seen > 400
