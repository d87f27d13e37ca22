"""Rows that no key finds, of six million: by a skip index, another one each time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from benchmarks.measure import Figure, alternate

ROWS = 6_000_000
_BLOCK = 1_000_000
_CREATE = """
    CREATE TABLE visits (id UInt64, user UInt64, name String, INDEX users user TYPE bloom_filter,
    INDEX names name TYPE bloom_filter(0.01), INDEX words name TYPE tokenbf_v1(65536, 3, 0),
    note String, INDEX notes note TYPE text(tokenizer = splitByNonAlpha))
    ENGINE = MergeTree ORDER BY id
"""
_FILL = """
    INSERT INTO visits SELECT number, intHash64(number), concat('user_', toString(intHash32(number))),
    concat('seen ', toString(number % 1000), ' at ', toString(intHash32(number) % 1000003))
    FROM numbers({}, {})
"""
QUERIES = {
    "skip-index point query": "SELECT * FROM visits WHERE user = {user}",
    "skip-index point query of a string": "SELECT * FROM visits WHERE name = '{name}'",
    "skip-index query of a word": "SELECT count() FROM visits WHERE hasToken(name, '{word}')",
    "text-index query of a token": "SELECT count() FROM visits WHERE hasToken(note, '{token}')",
}


def compare(
    peer: str, pando: Callable[[str], object], clickhouse: Callable[[str], object], rows: int
) -> Iterator[Figure]:
    for run in (pando, clickhouse):
        run(_CREATE)
        for begin in range(0, rows, _BLOCK):
            run(_FILL.format(begin, min(_BLOCK, rows - begin)))
        run("OPTIMIZE TABLE visits FINAL")
    words = "splitByChar('_', name)[2] AS word, splitByChar(' ', note)[4] AS token"
    result = pando(f"SELECT user, name, {words} FROM visits WHERE id % {rows // 100} = 7")
    values = [row for batch in result for row in batch.to_pylist()]  # type: ignore[attr-defined]
    for name, query in QUERIES.items():
        ours, theirs = itertools.cycle(values), itertools.cycle(values)
        yield alternate(
            name, peer,
            lambda q=query, v=ours: pando(q.format(**next(v))),  # type: ignore[misc]
            lambda q=query, v=theirs: clickhouse(q.format(**next(v))),  # type: ignore[misc]
        )  # fmt: skip
