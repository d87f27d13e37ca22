"""Spark over Pando beside Spark over its own Parquet files: the same rows in the same order, the same session.
Where the package is installed, also beside Delta.

The session has two tasks at a time. The files are what Spark makes of the table, which is sorted by its key, so that
their statistics tell as much of the key as they can.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import delta
from benchmarks.data import LINEITEM, tpch
from benchmarks.measure import Figure, alternate
from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from spark_connector import aggregate, narrowed, use_jvm_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PEER = "Spark's Parquet"
WRITTEN_ROWS = 2_000_000
_RUNS = 3
_COLUMNS = ["l_orderkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_shipmode"]
_TOTALS = ["count(*)", "sum(l_orderkey)", "sum(l_quantity)", "sum(l_extendedprice)", "max(l_shipdate)",
           "max(l_shipmode)"]  # fmt: skip
_WRITTEN = ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_shipdate",
            "l_shipmode"]  # fmt: skip
_MONTH = "l_shipdate >= '1994-01-01' AND l_shipdate < '1994-02-01'"
_TOP = "ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 100"


def compare(directory: Path, scale: float) -> Iterator[Figure]:
    """Yields a figure as soon as it is measured."""
    data = directory / "data"
    data.mkdir(parents=True)
    with ExitStack() as stack:
        cluster = Cluster(directory / "cluster")
        stack.callback(cluster.stop)
        port = next(status.http_port for status in cluster.start(1) if status.http_port)
        client = stack.enter_context(HttpClient(port=port, timeout_seconds=600))
        _fill(client, data, scale)
        spark = _session(directory)
        stack.callback(spark.stop)
        yield from Pair(spark, client, f"http://127.0.0.1:{port}", directory).figures()


class Pair:
    """The table, and the files."""

    def __init__(self, spark: SparkSession, client: HttpClient, url: str, directory: Path) -> None:
        self._spark = spark
        self._client = client
        self._url = url
        self._directory = directory
        self._files = str(directory / "lineitem")
        self._numbers = itertools.count()
        self._pando(table=LINEITEM).write.parquet(self._files)

    def figures(self) -> Iterator[Figure]:
        def totals(frame: DataFrame) -> Callable[[], object]:
            return lambda: frame.selectExpr(*_TOTALS).collect()

        columns = ",".join(_COLUMNS)
        files = self._spark.read.parquet(self._files)
        of_files = totals(files.select(_COLUMNS))
        by_query = self._pando(query=f"SELECT {', '.join(_TOTALS)} FROM {LINEITEM}").collect
        options = {"url": self._url, "table": LINEITEM}
        calls = {text: text for text in _TOTALS}

        def by_parts() -> object:  # made anew: Spark keeps what it shuffled for a frame
            return aggregate(self._spark, options, aggregates=calls).collect()

        top = self._pando(query=f"SELECT {columns} FROM {LINEITEM} {_TOP}").collect
        month = self._pando(table=LINEITEM, columns=columns, filter=_MONTH)
        files.createOrReplaceTempView("files")
        yield self._figure("full scan, totals", totals(self._pando(table=LINEITEM, columns=columns)), of_files)
        yield self._figure("totals by the option query", by_query, of_files)
        yield self._figure("totals by aggregate()", by_parts, of_files)
        yield self._figure("a month of the key", totals(month), totals(files.where(_MONTH).select(_COLUMNS)))
        every = self._pando(table=LINEITEM)
        by_plan = totals(narrowed(every.where(_MONTH).select(_COLUMNS)))
        yield self._figure("a month of the key by narrowed()", by_plan, totals(files.where(_MONTH).select(_COLUMNS)))
        top_of_files = self._spark.sql(f"SELECT {columns} FROM files {_TOP}").collect
        yield self._figure("the top 100 by the option query", top, top_of_files)
        yield from self._inside()
        yield from self._written()
        if delta.is_there():
            yield from self._beside_delta(totals(self._pando(table=LINEITEM, columns=columns)), totals(month))

    def _inside(self) -> Iterator[Figure]:
        """Yields the reads of the format ``pando_jvm``, beside the files and beside the format ``pando``."""
        use_jvm_source(self._spark)
        options = {"url": self._url, "table": LINEITEM}
        inside = self._spark.read.format("pando_jvm").options(**options).load()
        by_python = self._pando(table=LINEITEM)
        totals = ", ".join(_TOTALS)
        queries = {
            "every column": "SELECT * FROM {}",
            "five columns": f"SELECT {', '.join(_COLUMNS)} FROM {{}}",
            "totals": f"SELECT {totals} FROM {{}}",
            "a sum": "SELECT sum(l_orderkey) FROM {}",
            "count(*)": "SELECT count(*) FROM {}",
            "a month of the key": f"SELECT {totals} FROM {{}} WHERE {_MONTH}",
            "a group of strings": "SELECT l_shipmode, count(*), sum(l_orderkey), max(l_shipdate) FROM {} GROUP BY ALL",
            "the top 100": f"SELECT {', '.join(_COLUMNS)} FROM {{}} {_TOP}",
        }
        for frame, name in ((inside, "inside"), (by_python, "by_python")):
            frame.createOrReplaceTempView(name)

        def read(name: str, sql: str, view: str) -> Callable[[], object]:
            """Returns a query, made anew each time: Spark keeps what it shuffled for a frame."""
            if "column" not in name:
                return lambda: self._spark.sql(sql.format(view)).collect()
            return lambda: self._spark.sql(sql.format(view)).write.format("noop").mode("overwrite").save()

        for name, sql in queries.items():
            ours, theirs, python = (read(name, sql, view) for view in ("inside", "files", "by_python"))
            yield self._figure(f"inside, {name}", ours, theirs)
            yield alternate(f"Spark: inside, {name}", "the format pando", ours, python, runs=1)

    def _beside_delta(self, whole: Callable[[], object], month: Callable[[], object]) -> Iterator[Figure]:
        table = delta.Delta(self._spark, self._files, str(self._directory / "delta"))

        def totals(condition: str) -> Callable[[], object]:
            return lambda: table.frame().where(condition).select(_COLUMNS).selectExpr(*_TOTALS).collect()

        yield alternate("Spark: full scan, totals", delta.PEER, whole, totals("true"), runs=_RUNS)
        yield alternate("Spark: a month of the key", delta.PEER, month, totals(_MONTH), runs=_RUNS)

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
        yield self._figure(name, to_pando, to_files)
        if delta.is_there():

            def to_delta() -> None:
                delta.write(frame, str(self._directory / f"written{next(self._numbers)}"))

            yield alternate(f"Spark: {name}", delta.PEER, to_pando, to_delta, runs=_RUNS)

    def _figure(self, name: str, pando: Callable[[], object], files: Callable[[], object]) -> Figure:
        return alternate(f"Spark: {name}", PEER, pando, files, runs=_RUNS)

    def _pando(self, **options: str) -> DataFrame:
        return self._spark.read.format("pando").options(url=self._url, **options).load()


def _fill(client: HttpClient, data: Path, scale: float) -> None:
    lineitem = tpch(data, scale)[LINEITEM]
    client.execute(lineitem.create)
    for block in lineitem.blocks:
        client.insert(LINEITEM, block.read_bytes(), "ArrowStream")
    client.execute(f"OPTIMIZE TABLE {LINEITEM} FINAL")


def _session(directory: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("pando benchmarks")
    configuration = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    for name, value in configuration.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
