"""What names mean where parts of a table are read: groups of rows come from the scan, or in two steps."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.side_by_side import oracle, pando
from tests.sql.oracle import Oracle

__all__ = ["oracle", "pando"]

_TABLE = (
    "CREATE TABLE names (id UInt32, a Int32, s String, l String) ENGINE = MergeTree ORDER BY id",
    "INSERT INTO names SELECT number, number % 5, toString(number % 3), toString(number % 2) FROM numbers(50)",
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(a) AS a FROM names",
        "SELECT s, sum(a) AS a FROM names GROUP BY s HAVING a > 3 ORDER BY a",
        "SELECT max(id) AS id, min(a) AS a FROM names",
        "SELECT id % 2 AS id, sum(a) AS a FROM names GROUP BY id ORDER BY id",
        "SELECT s, l, uniqExact(a) AS a, max(id) AS id FROM names GROUP BY s, l ORDER BY s, l",
        "SELECT any(s) AS s FROM names GROUP BY a ORDER BY s",
    ],
)
def test_an_alias_may_be_the_column_that_it_aggregates(oracle: Oracle, pando: Pando, query: str) -> None:
    for engine in (oracle, pando):
        for statement in ("DROP TABLE IF EXISTS names", *_TABLE):
            engine.query(statement)
    assert pando.query(query) == oracle.query(query)


def test_a_uuid_key_is_not_pruned_by_the_order_of_its_bytes(oracle: Oracle, pando: Pando) -> None:
    make = "toUUID(concat({}, '000000-0000-0001-9a9a-0000000000', leftPad(toString(number * 7 % 100), 2, '0')))"
    for engine in (oracle, pando):
        engine.query("DROP TABLE IF EXISTS keys")
        engine.query(
            "CREATE TABLE keys (u UUID, n UInt32) ENGINE = MergeTree ORDER BY u SETTINGS index_granularity = 4"
        )
        for first in ("'00'", "leftPad(toString(number * 13 % 100), 2, '0')"):
            engine.query(f"INSERT INTO keys SELECT {make.format(first)}, number FROM numbers(100)")
    bound, other = "'30000000-0000-0001-9a9a-000000000020'", "'20000000-0000-0001-9a9a-000000000050'"
    for condition in (f"u > {bound}", f"u <= {bound}", f"u BETWEEN {bound} AND {other}", f"u = {other}"):
        query = f"SELECT count(), sum(n), min(u), max(u) FROM keys WHERE {condition}"
        assert pando.query(query) == oracle.query(query), condition
