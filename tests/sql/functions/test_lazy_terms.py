"""Terms of and, or that are computed only where the terms before them leave the answer open."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.sql.functions.test_rare_arguments import answer
from tests.sql.oracle import Oracle

_QUERIES = [
    "SELECT number != 0 and intDiv(1, number) == 0 and number != 2 and intDiv(1, number - 2) == 0 FROM numbers(10)",
    "SELECT number = 0 or intDiv(1, number) == 0 or number = 2 and intDiv(1, number - 3) == 0 FROM numbers(10)",
    "SELECT nullIf(number, 3) != 0 and intDiv(1, number) == 0 FROM numbers(10)",
    "SELECT nullIf(number, 0) != 0 and intDiv(1, number) == 0 FROM numbers(10)",
    "SELECT nullIf(number, 0) != 0 and nullIf(number, 4) and intDiv(1, number - 1) == 0 and intDiv(5, "
    "number) > 0 FROM numbers(2,8)",
    "SELECT nullIf(number, 4) < 5 or intDiv(nullIf(number, 7), number - 2) == 0 FROM numbers(8)",
    "SELECT 1 or throwIf(1)",
    "SELECT 0 and throwIf(number) from numbers(3)",
    "SELECT number = 5 or throwIf(number = 5) from numbers(10)",
    "SELECT number != 0 AND toInt32(if(number = 0, 'x', '1')) FROM numbers(3)",
    "SELECT number != 0 AND toInt32(['x', '1', '2'][number+1]) > 1 as r, toTypeName(r) FROM numbers(3)",
    "SELECT number < 3 AND length(toString(number)) = 1 AND "
    "parseDateTimeBestEffort(if(number<3,'2020-01-01','y')) > 0 FROM numbers(5)",
    "SELECT number FROM numbers(5) WHERE number != 0 AND intDiv(1, number) = 1",
    "SELECT number FROM numbers(5) WHERE (number != 0 AND intDiv(1, number) = 1) = 1",
    "SELECT number FROM numbers(5) WHERE NOT (number = 0 OR intDiv(1, number) = 1)",
    "SELECT sumIf(number, number != 0 AND intDiv(1, number) = 1) FROM numbers(5)",
    "SELECT countIf(number != 0 AND intDiv(10, number) > 2) FROM numbers(5)",
    "SELECT number, number % 2 AND intDiv(6, number % 2) AS x FROM numbers(5) GROUP BY number, x HAVING "
    "number % 2 = 0 OR intDiv(3, number % 2) > 1 ORDER BY number",
    "SELECT arrayMap(x -> x != 0 AND intDiv(1, x) = 1, [0, 1, 2])",
    "SELECT arrayFilter(x -> x = 0 OR intDiv(4, x) = 4, range(number)) FROM numbers(5)",
    "SELECT toBool(number) AND intDiv(1, number) AS r, toTypeName(r) FROM numbers(3)",
    "SELECT (number > (SELECT 0)) AND intDiv(1, number) AS r FROM numbers(3)",
    "SELECT (number IN (SELECT number FROM numbers(1, 5))) AND intDiv(1, number) AS r FROM numbers(3)",
    "SELECT number > 0 AND (SELECT 1) AND intDiv(1, number) AND (SELECT 1) AS r FROM numbers(3)",
    "SELECT (number = 1 or intDiv(1, number-1) = 0) AND intDiv(1, number) AS r FROM numbers(1,3)",
    "SELECT (throwIf(number > 5) = 0) AND (SELECT 1) = 1 AND intDiv(1, number) AS r FROM numbers(1,3)",
    "SELECT intDiv(1, nullIf(number, 2)) = 0 AND (SELECT 1) = 1 AND intDiv(1, number) AS r FROM numbers(1,3)",
    "SELECT number AND NULL AND intDiv(1, number) FROM numbers(3)",
    "SELECT NULL OR intDiv(1, number) FROM numbers(1, 3)",
    "SELECT sum(number) OVER () > 0 AND intDiv(1, number) FROM numbers(1, 3)",
    "SELECT a.number FROM numbers(4) a JOIN numbers(4) b ON a.number = b.number AND (b.number = 0 OR "
    "intDiv(1, a.number) >= 0) ORDER BY 1",
    "SELECT number AND intDiv(1, 0) FROM numbers(3)",
    "SELECT number != 0 AND 0 AND intDiv(1, number) FROM numbers(3)",
    "SELECT 1 OR intDiv(1, number) FROM numbers(3)",
    "SELECT 0 AND intDiv(1, materialize(0))",
]


@pytest.mark.parametrize("query", _QUERIES)
def test_in_order(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)


@pytest.mark.parametrize("value", ["number", "nullIf(number, 1)"])
@pytest.mark.long
def test_many_terms(oracle: Oracle, pando: Pando, value: str) -> None:
    terms = " AND ".join(f"{value} != {n} AND intDiv(1, {value} - {n}) = 0" for n in range(10, 40))
    query = f"SELECT {terms} FROM numbers(3)"
    assert answer(pando, query) == answer(oracle, query)
