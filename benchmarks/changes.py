"""Six million rows that change: columns, values, and those that go. Every repetition finds rows of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from benchmarks.measure import Figure, alternate

ROWS = 6_000_000
_PARTITIONS = 60
_CREATE = """
    CREATE TABLE changing (k UInt64, a UInt32, b Float64, s String, p UInt8) ENGINE = MergeTree
    {} ORDER BY k SETTINGS old_parts_lifetime = 1
"""
_FILL = """
    INSERT INTO changing SELECT number, number % 1000, number / 3, toString(number % 5000), number % {}
    FROM numbers({}) SETTINGS max_partitions_per_insert_block = 0
"""
STATEMENTS = {
    "ALTER ADD COLUMN": "ALTER TABLE changing ADD COLUMN c{n} UInt64 DEFAULT k * 2",
    "UPDATE of a column": "ALTER TABLE changing UPDATE a = a + {n} WHERE 1",
    "UPDATE of a column in 1 % of the rows": "ALTER TABLE changing UPDATE b = 0 WHERE k % 100 = {n}",
    "DELETE of 1 %": "ALTER TABLE changing DELETE WHERE k % 100 = {n}",
    "lightweight DELETE of 1 %": "DELETE FROM changing WHERE k % 100 = 99 - {n}",
}


def compare(
    peer: str, pando: Callable[[str], object], clickhouse: Callable[[str], object], rows: int
) -> Iterator[Figure]:
    _fill(pando, clickhouse, rows, "", 1)
    for name, statement in STATEMENTS.items():
        yield _of_numbers(name, peer, statement, pando, clickhouse)
    for run in (pando, clickhouse):
        run("DROP TABLE changing SYNC")
    _fill(pando, clickhouse, rows, "PARTITION BY p", _PARTITIONS)
    yield _of_numbers("DROP PARTITION", peer, "ALTER TABLE changing DROP PARTITION {n}", pando, clickhouse)


def _fill(
    pando: Callable[[str], object], clickhouse: Callable[[str], object], rows: int, partition: str, partitions: int
) -> None:
    for run in (pando, clickhouse):
        run(_CREATE.format(partition))
        run(_FILL.format(partitions, rows))
        run("OPTIMIZE TABLE changing FINAL")


def _of_numbers(
    name: str, peer: str, statement: str, pando: Callable[[str], object], clickhouse: Callable[[str], object]
) -> Figure:
    ours, theirs = itertools.count(1), itertools.count(1)
    return alternate(
        name, peer,
        lambda: pando(statement.format(n=next(ours))),
        lambda: clickhouse(statement.format(n=next(theirs))),
    )  # fmt: skip
