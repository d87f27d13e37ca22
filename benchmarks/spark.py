"""Spark over Pando beside Spark over its own Parquet files: the same rows in the same order, the same session.
Where the package is installed, also beside Delta.

The session has two tasks at a time, and is as ``spark_connector.configure`` makes it. The files are what Spark makes of
the tables, which are sorted by their keys, so that their statistics tell as much of the keys as they can. Read
are TPC-H's lineitem, five million events of eight columns, and the tables of ``spark_shapes``. CPU time is that of all
processes: Spark's, the server's and ZooKeeper's.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import delta, spark_shapes
from benchmarks import tpch as tpch_queries
from benchmarks.data import LINEITEM, TPCH_KEYS, tpch
from benchmarks.measure import Figure, alternate_with_cpu, process_cpu_seconds
from engine.cluster.cluster import Cluster
from engine.cluster.os_processes import list_process_tree
from engine.http_client.http_client import HttpClient
from spark_connector import configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEER = "Spark's Parquet"
WRITTEN_ROWS = 2_000_000
_RUNS = 3
_COLUMNS = ["l_orderkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_shipmode"]
_WRITTEN = ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_shipdate",
            "l_shipmode"]  # fmt: skip
_COLUMN_LIST = ", ".join(_COLUMNS)
_TOTALS = "count(*), sum(l_orderkey), sum(l_quantity), sum(l_extendedprice), max(l_shipdate), max(l_shipmode)"
_QUERIES = {
    "full scan": "SELECT * FROM {}",
    "five columns": f"SELECT {_COLUMN_LIST} FROM {{}}",
    "totals": f"SELECT {_TOTALS} FROM {{}}",
    "a sum": "SELECT sum(l_orderkey) FROM {}",
    "count(*)": "SELECT count(*) FROM {}",
    "a month of the key": f"SELECT {_TOTALS} FROM {{}} WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1994-02-01'",
    "a group of strings": "SELECT l_shipmode, count(*), sum(l_orderkey), max(l_shipdate) FROM {} GROUP BY ALL",
    "a sample of 1 %": "SELECT * FROM {} TABLESAMPLE (1 PERCENT) REPEATABLE (1)",
    "the top 100": f"SELECT {_COLUMN_LIST} FROM {{}} ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 100",
}
EVENTS = "events"
_EVENT_ROWS = 5_000_000
_EVENT_COLUMNS = """
    id UInt64, at DateTime, user Int32, kind String, url String, price Float64, weight Float64, size Int64"""
_EVENT_VALUES = """
    number, toDateTime('2024-01-01 00:00:00', 'UTC') + intDiv(number, 5), sipHash64(number, 1) % 100000,
    'kind ' || toString(sipHash64(number, 2) % 50), 'https://example.org/' || toString(sipHash64(number, 3) % 1000000),
    sipHash64(number, 4) % 1000000 / 100, sipHash64(number, 5) % 1000000 / 997, sipHash64(number, 6) % 1000000000"""
_EVENT_QUERIES = {
    "events: full scan": "SELECT * FROM {}",
    "events: a sum": "SELECT sum(size) FROM {}",
    "events: count(*)": "SELECT count(*) FROM {}",
    "events: 0.1 % by the key": ("SELECT * FROM {} WHERE at >= '2024-01-05 00:00:00' AND at < '2024-01-05 00:16:40'"),
    "events: a group of strings": "SELECT kind, sum(size), count(*), max(price) FROM {} GROUP BY kind",
    "events: the top 100": "SELECT * FROM {} ORDER BY price DESC, id LIMIT 100",
}
_TABLES = (
    {name: (LINEITEM, sql) for name, sql in _QUERIES.items()}
    | {name: (EVENTS, sql) for name, sql in _EVENT_QUERIES.items()}
    | spark_shapes.QUERIES
)
_SCANS = (
    "full scan", "five columns", "a sample of 1 %", "events: full scan", "200 columns", "five of 200 columns",
    "rows of 60 MB",
)  # fmt: skip
"""Queries whose rows Spark makes and throws away."""


def compare(directory: Path, scale: float) -> Iterator[Figure]:
    """Yields a figure as soon as it is measured."""
    data = directory / "data"
    data.mkdir(parents=True)
    with ExitStack() as stack:
        cluster = Cluster(directory / "cluster")
        stack.callback(cluster.stop)
        statuses = cluster.start(1)
        port = next(status.http_port for status in statuses if status.http_port)
        client = stack.enter_context(HttpClient(port=port, timeout_seconds=600))
        _fill(client, data, scale)
        url = f"http://127.0.0.1:{port}"
        spark = _session(directory, url)
        stack.callback(spark.stop)
        roots = [status.pid for status in statuses if status.pid and status.http_port]
        servers = [pid for root in roots for pid in list_process_tree(root)]
        pids = [os.getpid(), *(status.pid for status in statuses if status.pid)]
        pair = Pair(spark, client, url, directory, pids)
        yield from pair.memory(servers)
        yield from pair.figures()


class Pair:
    """The tables, and the files. ``pids`` are processes whose CPU time counts, with that of their children."""

    def __init__(self, spark: SparkSession, client: HttpClient, url: str, directory: Path, pids: Sequence[int]) -> None:
        self._spark = spark
        self._client = client
        self._url = url
        self._directory = directory
        self._pids = pids
        self._numbers = itertools.count()
        for name in (*TPCH_KEYS, EVENTS, spark_shapes.WIDE, spark_shapes.LARGE):
            path = str(directory / name)
            spark.table(f"pando.default.{name}").write.parquet(path)
            spark.sql(f"CREATE TABLE spark_catalog.default.{name} USING parquet LOCATION '{path}'")
        self._files = str(directory / LINEITEM)

    def figures(self) -> Iterator[Figure]:
        for name in _TABLES:
            yield from self._measure(name, *self._both(name))
        yield from self._written()
        if delta.is_there():
            yield from self._beside_delta()
        yield from tpch_queries.compare(PEER, self._in_catalog("pando"), self._in_catalog("spark_catalog"))

    def memory(self, servers: Sequence[int]) -> Iterator[Figure]:
        """Yields what memory three of the scans take, before others have left their traces."""
        jvm = int(self._spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        for name in ("events: full scan", "200 columns", "rows of 60 MB"):
            yield from spark_shapes.measure_memory(name, PEER, *self._both(name), jvm, servers)

    def _both(self, name: str) -> tuple[Callable[[], object], Callable[[], object]]:
        table = _TABLES[name][0]
        return self._read(name, f"pando.default.{table}"), self._read(name, f"spark_catalog.default.{table}")

    def _measure(
        self, name: str, ours: Callable[[], object], theirs: Callable[[], object], peer: str = PEER
    ) -> tuple[Figure, Figure]:
        return alternate_with_cpu(f"Spark: {name}", peer, ours, theirs, self._cpu_seconds, runs=_RUNS)

    def _cpu_seconds(self) -> float:
        processes = {pid for root in self._pids for pid in list_process_tree(root)}
        return sum(map(process_cpu_seconds, processes))

    def _read(self, name: str, table: str) -> Callable[[], object]:
        """Returns a query, made anew each time: Spark keeps what it shuffled for a frame."""
        sql = _TABLES[name][1].format(table)
        if name in _SCANS:
            return lambda: self._spark.sql(sql).write.format("noop").mode("overwrite").save()
        return lambda: self._spark.sql(sql).collect()

    def _in_catalog(self, catalog: str) -> Callable[[str], object]:
        def run(sql: str) -> object:
            self._spark.sql(f"USE {catalog}.default")
            return self._spark.sql(sql).collect()

        return run

    def _beside_delta(self) -> Iterator[Figure]:
        table = delta.Delta(self._spark, self._files, str(self._directory / "delta"))

        def read(name: str) -> Callable[[], object]:
            def run() -> object:
                table.frame().createOrReplaceTempView("of_delta")
                return self._read(name, "of_delta")()

            return run

        for name in ("full scan", "totals", "a month of the key", "a group of strings", "the top 100"):
            ours = self._read(name, f"pando.default.{LINEITEM}")
            yield from self._measure(name, ours, read(name), delta.PEER)

    def _written(self) -> Iterator[Figure]:
        source = self._directory / "source"
        self._spark.read.parquet(self._files).select(_WRITTEN).limit(WRITTEN_ROWS).repartition(4).write.parquet(
            str(source)
        )
        frame = self._spark.read.parquet(str(source))
        create = f"ENGINE = MergeTree ORDER BY (l_shipdate, l_orderkey) AS SELECT {', '.join(_WRITTEN)} FROM {LINEITEM}"

        def to_pando() -> None:
            table = f"written{next(self._numbers)}"
            self._client.execute(f"CREATE TABLE {table} {create} LIMIT 0")
            frame.write.format("pando").mode("append").options(url=self._url, table=table).save()

        def to_files() -> None:
            frame.write.parquet(str(self._directory / f"written{next(self._numbers)}"))

        name = f"write of {WRITTEN_ROWS // 1_000_000} M × {len(_WRITTEN)}"
        yield from self._measure(name, to_pando, to_files)
        if delta.is_there():

            def to_delta() -> None:
                delta.write(frame, str(self._directory / f"written{next(self._numbers)}"))

            yield from self._measure(name, to_pando, to_delta, delta.PEER)


def _fill(client: HttpClient, data: Path, scale: float) -> None:
    for dataset in tpch(data, scale).values():
        client.execute(dataset.create)
        for block in dataset.blocks:
            client.insert(dataset.name, block.read_bytes(), "ArrowStream")
        client.execute(f"OPTIMIZE TABLE {dataset.name} FINAL")
    client.execute(f"CREATE TABLE {EVENTS} ({_EVENT_COLUMNS}) ENGINE = MergeTree ORDER BY (at, id)")
    client.execute(f"INSERT INTO {EVENTS} SELECT {_EVENT_VALUES} FROM numbers({_EVENT_ROWS})")
    client.execute(f"OPTIMIZE TABLE {EVENTS} FINAL")
    spark_shapes.fill(client)


def _session(directory: Path, url: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("pando benchmarks")
    configuration = {
        "spark.pando.url": url,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    for name, value in configuration.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    configure(spark)
    return spark
