"""SELECT without FROM reads ``system.one``, and HAVING without groups is one more WHERE: compared with ClickHouse."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.side_by_side import oracle, pando
from tests.sql.oracle import Oracle

__all__ = ["oracle", "pando"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dummy",
        "SELECT *",
        "SELECT 1 AS a, dummy, *",
        "SELECT 1 HAVING 1",
        "SELECT 1 HAVING 0",
        "SELECT dummy AS x, count() GROUP BY x",
        "SELECT dummy IN (0) AS x, count() GROUP BY x",
        "SELECT (dummy IN (1)) AS x GROUP BY x",
        "SELECT * FROM (SELECT dummy, -1 as x UNION ALL SELECT dummy, arrayJoin([-1]) as x)",
        "SELECT value FROM system.one ANY LEFT JOIN (SELECT dummy, dummy AS value) js2 USING dummy GROUP BY value",
        "SELECT (SELECT dummy)",
        "SELECT 1 WHERE dummy = 0",
        "SELECT arrayMap(x -> x + dummy, [1])",
        "SELECT number FROM numbers(3) HAVING number = 1",
        "SELECT number AS x FROM numbers(3) HAVING x = 1 AND number > 0",
        "SELECT 1 AS x WHERE x HAVING NULL",
        "SELECT DISTINCT number % 2 AS p FROM numbers(5) HAVING p ORDER BY p",
        "SELECT zero FROM system.zeros_mt LIMIT 1",
        "SELECT * FROM zeros_mt(2)",
        "SELECT count(*)",
        "SELECT 1 AS dummy, dummy + 1",
        "SELECT arrayMap(dummy -> dummy, [1])",
        "SELECT number, row_number() OVER (ORDER BY number) FROM numbers(3) HAVING number > 0",
    ],
)
def test_same_answer(oracle: Oracle, pando: Pando, query: str) -> None:
    assert pando.query(query) == oracle.query(query)


def test_a_view_keeps_it(pando: Pando) -> None:
    pando.query("CREATE VIEW single AS SELECT dummy AS d")
    assert pando.query("SELECT d FROM single") == b"0\n"
