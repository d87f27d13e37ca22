"""Conditions around subqueries and views: what they leave out inside, and that the answer is ClickHouse's."""

from __future__ import annotations

import random
import re
import uuid

import pytest

from tests.portions import one_in
from tests.views.conftest import Both

COLUMNS = "k, s, v, n, d"
FORMS = (
    "SELECT * FROM {x}",
    "SELECT k + 1 AS k, s, v, n, d FROM {x}",
    "SELECT v AS k, s, k AS v, n, toDate(d) AS d FROM {x}",
    "SELECT * FROM {x} WHERE v % 3 != 1",
    "SELECT k, max(x.s) AS s, sum(x.v) AS v, min(x.n) AS n, d FROM {x} AS x GROUP BY k, d",
    "SELECT intDiv(x.k, 3) AS k, s, max(x.v) AS v, min(x.n) AS n, max(x.d) AS d FROM {x} AS x GROUP BY 1, 2",
    "SELECT max(x.k) AS k, max(x.s) AS s, max(x.v) AS v, max(x.n) AS n, max(x.d) AS d FROM {x} AS x",
    "SELECT max(x.k) AS k, s, count() AS v, min(x.n) AS n, max(x.d) AS d FROM {x} AS x GROUP BY s HAVING v > 3",
    "SELECT k, s, v, n, d FROM {x} UNION ALL SELECT k + 10, 'u', v, n, d FROM {y}",
    "SELECT k, s, v, n, d FROM {x} UNION DISTINCT SELECT k, s, v, n, d FROM {y}",
    "SELECT * FROM {x} ORDER BY k, s, v, n, d LIMIT 30",
    "SELECT * FROM {x} ORDER BY k, s, v, n, d LIMIT 2 BY s",
    "SELECT DISTINCT k, s, 1 AS v, n, d FROM {x}",
    "SELECT k, s, row_number() OVER (PARTITION BY s ORDER BY k, v, d, n) AS v, n, d FROM {x}",
    "SELECT k, s, e AS v, n, d FROM {x} AS x ARRAY JOIN [x.v, x.v + 1] AS e",
    "SELECT k, s, arrayJoin([v, k]) AS v, n, d FROM {x}",
    "SELECT a.k AS k, a.s AS s, b.v AS v, b.n AS n, a.d AS d FROM {x} AS a LEFT JOIN few AS b ON a.k = b.k",
    "SELECT b.k AS k, a.s AS s, a.v AS v, b.n AS n, a.d AS d FROM {x} AS a INNER JOIN few AS b ON a.k = b.k",
    "SELECT k, a.s AS s, b.v AS v, a.n AS n, b.d AS d FROM few AS a RIGHT JOIN {x} AS b USING (k)",
    "SELECT a.k AS k, a.s AS s, b.v AS v, a.n AS n, b.d AS d FROM few AS a FULL JOIN {x} AS b ON a.k = b.k",
    "SELECT a.k AS k, a.s AS s, a.v AS v, a.n AS n, a.d AS d FROM {x} AS a LEFT ANTI JOIN few AS b ON a.k = b.k",
    "WITH c AS (SELECT * FROM {x}) SELECT k, s, v, n, d FROM c WHERE k > 1",
    "SELECT if(v > 50, k, v) AS k, concat(s, 'x') AS s, v, coalesce(n, 7) AS n, d FROM {x}",
)
TERMS = (
    "k = {a}", "k IN ({a}, {b})", "k BETWEEN {a} AND {b} + 10", "v < {b}", "k + v > {b}", "s = 's{a}'", "s LIKE 's1%'",
    "n = {a}", "n IS NULL", "d = '2024-02-{b:02}'", "toYYYYMM(d) = 20240{c}", "d > '2024-02-10'", "NOT k < {b}",
    "q.k != {a}", "toString(k) = '{b}'", "k = toUInt32('{a}')", "k IN [{a}, {b}]", "1",
)  # fmt: skip


@pytest.fixture
def tables(both: Both) -> Both:
    both.run(
        "CREATE TABLE t (k UInt32, s String, v UInt32, n Nullable(Int32), d Date, INDEX i v TYPE minmax)"
        " ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY (k, d) SETTINGS index_granularity = 8"
    )
    both.run("CREATE TABLE few (k UInt32, s String, v UInt32, n Nullable(Int32), d Date) ENGINE = MergeTree ORDER BY k")
    row = "number % {}, concat('s', toString(number % 13)), number, if(number % 5, number % 9, NULL), "
    day = "toDate('2024-01-20') + number % 40"
    for rows, keys in ((150, 37), (130, 29)):
        both.run(f"INSERT INTO t SELECT {row.format(keys)}{day} FROM numbers({rows})")
    both.run(f"INSERT INTO few SELECT {row.format(100)}{day} FROM numbers(12)")
    return both


def _relation(chance: random.Random, depth: int, both: Both) -> str:
    if depth == 0:
        return "t"
    inner = chance.choice(FORMS).format(x=_relation(chance, depth - 1, both), y=chance.choice(("t", "few")))
    if chance.random() < 0.2:
        name = f"w{uuid.UUID(int=chance.getrandbits(128)).hex[:8]}"
        both.run(f"CREATE VIEW {name} AS {inner}")
        return name
    return f"({inner})"


def _condition(chance: random.Random) -> str:
    terms = [
        chance.choice(TERMS).format(a=chance.randrange(30), b=chance.randrange(1, 29), c=chance.randrange(1, 4))
        for _ in range(chance.randrange(1, 4))
    ]
    return terms[0] + "".join(f" {chance.choice(('AND', 'AND', 'OR'))} {term}" for term in terms[1:])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_clickhouse(tables: Both, seed: int) -> None:
    chance = random.Random(seed)
    answered = 0
    for _ in range(60):
        relation, condition = _relation(chance, chance.randrange(1, 4), tables), _condition(chance)
        query = f"SELECT {COLUMNS} FROM {relation} AS q WHERE {condition}"
        here, there = (answer(query) for answer in (tables.answer_here, tables.answer_there))
        assert sorted(here.splitlines()) == sorted(there.splitlines()), query
        answered += not here.startswith("error") and bool(here)
    assert answered > 20


def _granules(both: Both, query: str) -> list[tuple[int, int]]:
    """Of each scan: those that are read, and those there are."""
    text = both.answer_here(f"EXPLAIN indexes = 1 {query}")
    scans = text.split("ReadFromMergeTree")[1:]
    found = [[tuple(map(int, pair)) for pair in re.findall(r"Granules: (\d+)/(\d+)", scan)] for scan in scans]
    return [(of_scan[-1][0], of_scan[0][1]) for of_scan in found]  # type: ignore[misc]


@pytest.mark.parametrize(
    "query",
    one_in(
        3,
        [
            "SELECT * FROM whole WHERE k = 3",
            "SELECT * FROM (SELECT *, k + 1 AS next FROM whole) WHERE k = 3 AND next > 0",
            "SELECT * FROM (SELECT v AS k, k AS v FROM t) AS q WHERE q.v = 3",
            "SELECT * FROM totals WHERE key = 3",
            "SELECT count() FROM (SELECT DISTINCT k, s FROM t) WHERE k IN (3, 4)",
            "WITH c AS (SELECT k, s FROM t) SELECT s FROM c WHERE k = 3",
            "SELECT * FROM (SELECT * FROM t ORDER BY v) WHERE d = '2024-01-22'",
            "SELECT a.s FROM whole AS a LEFT JOIN numbers(3) AS b ON a.k = b.number WHERE a.k = 3",
            "SELECT k AS other FROM (SELECT k FROM t) WHERE other = 3",
            "SELECT * FROM (SELECT v, s FROM t) WHERE v = 3",
        ],
    ),
)
def test_conditions_leave_out_granules_inside(tables: Both, query: str) -> None:
    tables.run("CREATE VIEW whole AS SELECT * FROM t")
    tables.run("CREATE VIEW totals AS SELECT k AS key, sum(v) AS total FROM t GROUP BY key HAVING total > 0")
    ((read, there),) = _granules(tables, query)
    assert read < there / 2
    tables.run(f"SELECT count() FROM ({query})")


@pytest.mark.parametrize(
    "query",
    one_in(
        3,
        [
            "SELECT * FROM (SELECT * FROM t LIMIT 5) WHERE k = 3",
            "SELECT * FROM (SELECT * FROM t LIMIT 1 BY s) WHERE k = 3",
            "SELECT * FROM (SELECT k, count() OVER () AS c FROM t) WHERE k = 3",
            "SELECT * FROM (SELECT max(k) AS m FROM t) WHERE m = 3",
            "SELECT * FROM (SELECT k, count() AS c FROM t GROUP BY k WITH ROLLUP) WHERE k = 3",
            "SELECT * FROM (SELECT DISTINCT ON (s) k, s FROM t) WHERE k = 3",
            "SELECT * FROM (SELECT k, rowNumberInBlock() AS r FROM t) WHERE k = 3",
            "SELECT * FROM numbers(3) AS a LEFT JOIN (SELECT k FROM t) AS b ON a.number = b.k WHERE b.k = 0",
            "SELECT * FROM (SELECT k FROM t) WHERE k = rand()",
        ],
    ),
)
def test_rows_that_others_depend_on_are_read(tables: Both, query: str) -> None:
    ((read, there),) = _granules(tables, query)
    assert read == there


def test_a_union_leaves_out_what_its_constants_rule_out(tables: Both) -> None:
    union = "SELECT 'old' AS source, k FROM t UNION ALL SELECT 'new', k FROM few"
    (old, there), (new, _) = _granules(tables, f"SELECT * FROM ({union}) WHERE source = 'new'")
    assert (old, new) == (0, 1)
    assert there > 1


def test_names_made_of_names_do_not_grow_without_end(tables: Both) -> None:
    names = "k + k AS a0, " + ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(30))
    tables.answer_here(f"SELECT count() FROM (SELECT a30 FROM (SELECT k, {names} FROM t)) WHERE a30 = 1")
