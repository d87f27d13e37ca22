"""A table of many rows on both engines: INSERT … SELECT, OPTIMIZE FINAL, an aggregate, and the bytes on disk.

The rows are the same in both: a 32-bit hash, a number, a price, a text of 5,000 values and a date, sorted by text and
hash. From about 16 million rows on ClickHouse stores the merged part with ZSTD(3), below with LZ4.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.embedded import PEER, ClickHouse, Pando
from benchmarks.measure import Figure, alternate, seconds

ROWS = 16_000_000
_ROUNDS = 3
_COLUMNS = "k UInt64, a UInt32, b Float64, s String, d Date"
_MIXED = "(number * 2654435761) % 4294967296"
_HASHED = f"(bitXor({_MIXED}, intDiv({_MIXED}, 65536)) * 2246822519) % 4294967296"
_HASH = f"bitXor({_HASHED}, intDiv({_HASHED}, 8192))"
_ROW = f"""{_HASH} AS k, number % 1000 AS a, (k % 100000) / 100 AS b, concat('value_', toString(number % 5000)) AS s,
    toDate('2020-01-01') + number % 250 AS d"""
_UNMERGED = "SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
"""No merge but the one that is measured."""
_QUERIES = {
    "count, distinct texts and a sum": "SELECT count(), uniqExact(s), sum(a) FROM big",
    "sum of hashes and prices": "SELECT sum(k), sum(b) FROM big",
}
_SIZE = "SELECT sum(bytes_on_disk) AS bytes FROM system.parts WHERE table = 'big' AND active"


def compare(directory: Path, rows: int) -> Iterator[Figure]:
    """Yields a figure as soon as it is measured."""
    for name in ("pando", "clickhouse"):
        (directory / name).mkdir(parents=True)
    pando, clickhouse = Pando(directory / "pando"), ClickHouse(directory / "clickhouse")
    try:
        yield from _compare(pando, clickhouse, f"{rows / 1e6:g} million rows: ", rows)
    finally:
        pando.close()
        clickhouse.close()


def _compare(pando: Pando, clickhouse: ClickHouse, title: str, rows: int) -> Iterator[Figure]:
    engines = (pando, clickhouse)
    for engine in engines:
        engine.run(f"CREATE TABLE source ({_COLUMNS}) ENGINE = MergeTree ORDER BY tuple() {_UNMERGED}")
        engine.run(f"INSERT INTO source SELECT {_ROW} FROM numbers({rows})")
    inserts: tuple[list[float], list[float]] = ([], [])
    merges: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for engine, insert, merge in zip(engines, inserts, merges, strict=True):
            engine.run("DROP TABLE IF EXISTS big SYNC")
            engine.run(f"CREATE TABLE big ({_COLUMNS}) ENGINE = MergeTree ORDER BY (s, k) {_UNMERGED}")
            insert.append(seconds(lambda e=engine: e.run("INSERT INTO big SELECT * FROM source")))  # type: ignore[misc]
            merge.append(seconds(lambda e=engine: e.run("OPTIMIZE TABLE big FINAL")))  # type: ignore[misc]
    yield Figure(title + "INSERT … SELECT", PEER, *map(statistics.median, inserts))
    yield Figure(title + "OPTIMIZE FINAL", PEER, *map(statistics.median, merges))
    for name, sql in _QUERIES.items():
        yield alternate(title + name, PEER, lambda q=sql: pando.run(q), lambda q=sql: clickhouse.run(q))
    ours = pa.Table.from_batches(pando.run(_SIZE))
    theirs = pa.ipc.open_stream(io.BytesIO(clickhouse.run(_SIZE))).read_all()
    megabytes = (table.column(0)[0].as_py() / 1e6 for table in (ours, theirs))
    yield Figure(title + "bytes on disk", PEER, *megabytes, unit="MB")
