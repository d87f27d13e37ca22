"""Pando in one process beside ClickHouse in one process (chdb): the same statements on the same files."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import changes, skip_indexes, tpch
from benchmarks.data import LINEITEM, Dataset, flights
from benchmarks.data import tpch as tpch_tables
from benchmarks.measure import Figure, alternate, seconds
from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config

PEER = "ClickHouse 26 (chdb)"

LINEITEM_QUERIES = {
    "full-scan sum": "SELECT sum(l_extendedprice) FROM lineitem",
    "group by with uniq": "SELECT l_returnflag, l_linestatus, count(), uniqExact(l_suppkey), sum(l_quantity) "
    "FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "LIKE scan": "SELECT count() FROM lineitem WHERE l_comment LIKE '%special%requests%'",
    "key range query": "SELECT count(), sum(l_extendedprice * l_discount) FROM lineitem "
    "WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1994-02-01'",
    "primary-key point query": "SELECT * FROM lineitem WHERE l_shipdate = '1995-03-15' AND l_orderkey = 1316356",
}
FLIGHTS_QUERIES = {
    "flights: delays by carrier": "SELECT carrier, count(), avg(arr_delay), max(dep_delay) FROM flights "
    "GROUP BY carrier ORDER BY carrier",
    "flights: uniq aircraft": "SELECT dest, uniqExact(tailnum) AS aircraft FROM flights GROUP BY dest "
    "ORDER BY aircraft DESC, dest LIMIT 10",
}


class Pando:
    def __init__(self, directory: Path) -> None:
        self._engine = Engine(Config.local(directory))
        self._engine.start()

    def run(self, sql: str, body: Path | None = None) -> list[object]:
        data = io.BytesIO(body.read_bytes()) if body is not None else None
        result = self._engine.execute(sql, Session(), data)
        return list(result.batches)

    def insert(self, table: str, block: Path) -> None:
        self.run(f"INSERT INTO {table} FORMAT ArrowStream", block)

    def close(self) -> None:
        self._engine.stop()


class ClickHouse:
    def __init__(self, directory: Path) -> None:
        from chdb.session import Session as ChdbSession  # it imports Arrow, which our options must precede

        self._session = ChdbSession(str(directory))

    def run(self, sql: str) -> object:
        return self._session.query(sql, "ArrowStream").bytes()

    def insert(self, table: str, block: Path) -> None:
        self.run(f"INSERT INTO {table} SELECT * FROM file('{block}', 'ArrowStream')")

    def close(self) -> None:
        self._session.close()


def compare(directory: Path, scale: float) -> Iterator[Figure]:
    """Yields a figure as soon as it is measured."""
    for name in ("data", "pando", "clickhouse"):
        (directory / name).mkdir(parents=True)
    pando, clickhouse = Pando(directory / "pando"), ClickHouse(directory / "clickhouse")
    try:
        tables = tpch_tables(directory / "data", scale)
        yield from _one_dataset(pando, clickhouse, tables[LINEITEM], LINEITEM_QUERIES)
        yield from _one_dataset(pando, clickhouse, flights(directory / "data"), FLIGHTS_QUERIES)
        yield from skip_indexes.compare(PEER, pando.run, clickhouse.run, int(skip_indexes.ROWS * scale))
        yield from changes.compare(PEER, pando.run, clickhouse.run, int(changes.ROWS * scale))
        for name, dataset in tables.items():
            if name != LINEITEM:
                for engine in (pando, clickhouse):
                    fill(engine, dataset)
        yield from tpch.compare(PEER, pando.run, clickhouse.run)
    finally:
        pando.close()
        clickhouse.close()


def fill(engine: Pando | ClickHouse, data: Dataset) -> None:
    """Makes the table, of one part."""
    engine.run(data.create)
    for block in data.blocks:
        engine.insert(data.name, block)
    engine.run(f"OPTIMIZE TABLE {data.name} FINAL")


def _one_dataset(pando: Pando, clickhouse: ClickHouse, data: Dataset, queries: dict[str, str]) -> Iterator[Figure]:
    for engine in (pando, clickhouse):
        engine.run(data.create)
    pando.run("SYSTEM STOP MERGES")
    clickhouse.run(f"SYSTEM STOP MERGES {data.name}")
    ours = [seconds(lambda b=block: pando.insert(data.name, b)) for block in data.blocks]  # type: ignore[misc]
    theirs = [seconds(lambda b=block: clickhouse.insert(data.name, b)) for block in data.blocks]  # type: ignore[misc]
    yield Figure(f"{data.name}: INSERT of a block", PEER, statistics.median(ours), statistics.median(theirs))
    pando.run("SYSTEM START MERGES")
    clickhouse.run(f"SYSTEM START MERGES {data.name}")
    if len(data.blocks) > 1:
        optimize = f"OPTIMIZE TABLE {data.name} FINAL"
        yield Figure(
            f"{data.name}: OPTIMIZE FINAL",
            PEER,
            seconds(lambda: pando.run(optimize)),
            seconds(lambda: clickhouse.run(optimize)),
        )
    for name, sql in queries.items():
        yield alternate(name, PEER, lambda s=sql: pando.run(s), lambda s=sql: clickhouse.run(s))
