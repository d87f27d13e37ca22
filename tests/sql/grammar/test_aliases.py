"""Where an alias needs no AS: in the list of SELECT and in some special forms, as in ClickHouse."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.definitions.test_key_checks import refusal
from tests.sql.oracle import Oracle


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 one, 'x' `two`",
        "SELECT 1 AS x y",
        "SELECT ['a' b]",
        "SELECT ['a' AS b]",
        "SELECT (1 x, 2)",
        "SELECT (1 AS x, 2)",
        "SELECT (1 x)",
        "SELECT plus(1 x, 2)",
        "SELECT sum(1 x)",
        "SELECT quantile(0.5 x)(number) FROM numbers(2)",
        "WITH 1 x SELECT x",
        "WITH 1 AS x SELECT x",
        "SELECT a FROM (SELECT [1] arr) ARRAY JOIN arr a",
        "SELECT DISTINCT ON (number n) number FROM numbers(2)",
        "SELECT 1 WHERE 1 x",
        "SELECT 1 FROM numbers(1) PREWHERE 1 x",
        "SELECT 1 GROUP BY 1 x",
        "SELECT count() c HAVING c x",
        "SELECT 1 ORDER BY 1 x",
        "SELECT 1 ORDER BY 1 AS x",
        "SELECT number n FROM numbers(2) LIMIT 1 BY n m",
        "SELECT * REPLACE(1 x) FROM (SELECT 1 x)",
        "SELECT * FROM numbers(2 x)",
        "SELECT a[1 x] FROM (SELECT [1] a)",
        "SELECT arrayMap(y -> y x, [1])",
        "SELECT 1 IN (1 x, 2)",
        "SELECT CASE WHEN 1 x THEN 2 END",
        "SELECT CAST(1 x AS Int8)",
        "SELECT substring('abc' FROM 2 x)",
        "SELECT position('a' IN 'b' c)",
    ],
)
def test_aliases_without_as(oracle: Oracle, pando: Pando, query: str) -> None:
    assert refusal(pando, query) == refusal(oracle, query)
