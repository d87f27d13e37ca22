"""Tables in shards through Spark: read from the servers of every shard, refused where one table must be meant."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from parts.common.errors import PandoError
from spark_connector import register
from spark_connector.python_source.scan_reader import ScanPartition, ScanReader
from tests.spark.conftest import Pando, load, save
from tests.spark.test_spark_scans import SCHEMA, fill

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long, pytest.mark.xdist_group("spark")]

COLUMNS = "(k Int64, s String)"


@pytest.fixture
def sharded(pando: Pando) -> Iterator[str]:
    """80,000 rows in two shards by databases; every server has both shards."""
    for name, client in pando.clients.items():
        for database in ("left", "right"):
            client.execute(f"CREATE DATABASE {database}")
            engine = f"ReplicatedMergeTree('/shards/{database}', '{name}')"
            client.execute(f"CREATE TABLE {database}.t {COLUMNS} ENGINE = {engine} ORDER BY k")
        client.execute(f"CREATE TABLE shown {COLUMNS} ENGINE = Distributed(databases, '', t, k)")
    fill(pando, "left.t", parts=2)
    pando["r2"].execute("INSERT INTO right.t SELECT number + 40000, toString(number) FROM numbers(40000)")
    for database in ("left", "right"):
        pando.sync(f"{database}.t")
    yield "shown"
    for client in pando.clients.values():
        client.execute("DROP TABLE shown SYNC")
        for database in ("left", "right"):
            client.execute(f"DROP DATABASE {database} SYNC")


def test_rows_of_all_shards(pando: Pando, spark: SparkSession, sharded: str) -> None:
    frame = load(spark, pando.options(sharded, partitions="4"))
    assert frame.rdd.getNumPartitions() == 4
    assert frame.agg(f.count("*"), f.countDistinct("k"), f.max("k")).collect() == [(80_000, 80_000, 79_999)]
    some = load(spark, pando.options(sharded, columns="k", filter="k % 10000 = 1"))
    assert sorted(row.k for row in some.collect()) == list(range(1, 80_000, 10_000))
    pando["r1"].execute("INSERT INTO right.t VALUES (80000, 'late')")
    assert frame.count() == 80_001, "another execution reads anew"


def test_what_servers_compute(pando: Pando, spark: SparkSession, sharded: str) -> None:
    whole = load(spark, {"url": pando.urls["r1"], "query": f"SELECT toInt64(count()), sum(k) FROM {sharded}"})
    assert whole.collect() == [(80_000, sum(range(80_000)))]
    parts = load(spark, pando.options(sharded, task_query="SELECT toInt64(count()) AS rows, max(k) AS most FROM slot"))
    assert parts.agg(f.sum("rows"), f.max("most")).collect() == [(80_000, 79_999)]


def test_tasks_go_on_at_the_other_replica_of_their_shard(pando: Pando, spark: SparkSession, sharded: str) -> None:
    reader = ScanReader(pando.parsed(sharded, url=pando.urls["r1"], batch_rows="1000"), SCHEMA)
    slots = reader.partitions()
    assert {slot.shard.table for slot in slots if isinstance(slot, ScanPartition) and slot.shard} == {"t"}
    streams = [reader.read(slot) for slot in slots]
    first = [next(stream) for stream in streams]
    workers = pando["r2"].rows("SELECT pid FROM system.workers")
    pando.cluster.kill("r2")
    try:
        for (pid,) in workers:  # they would bring to an end what they have begun
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        rest = [batch for stream in streams for batch in stream]
    finally:
        pando.cluster.restart("r2")
    assert sum(batch.num_rows for batch in [*first, *rest]) == 80_000


def test_a_shard_that_nobody_has_is_named(pando: Pando, spark: SparkSession, sharded: str) -> None:
    name = pando.new_table("k Int64, s String", engine="MergeTree")
    pando["r1"].execute(f"CREATE TABLE half {COLUMNS} ENGINE = Distributed(gone, default, {name})")
    with pytest.raises(PandoError, match="Shard 2, default"):
        ScanReader(pando.parsed("half", url=pando.urls["r1"], retries="0"), SCHEMA).partitions()


def test_what_needs_one_table_is_refused(pando: Pando, spark: SparkSession, sharded: str) -> None:
    frame = load(spark, pando.options(sharded))
    with pytest.raises(Exception, match="Distributed"):
        save(frame.limit(10), pando.options(sharded))
    assert frame.count() == 80_000
    pando["r1"].execute(f"CREATE VIEW seen AS SELECT * FROM {sharded}")
    with pytest.raises(Exception, match="has no rows of its own"):
        load(spark, pando.options("seen", url=pando.urls["r1"])).count()


def test_views_of_all_tables_include_it(pando: Pando, spark: SparkSession, sharded: str) -> None:
    assert sharded in register(spark, ",".join(pando.urls.values()))
    assert spark.sql(f"SELECT count(*) FROM {sharded}").collect() == [(80_000,)]


def test_samples_of_shards_are_drawn_apart(pando: Pando, jvm_session: SparkSession, sharded: str) -> None:
    """Parts of two shards have the same names, and rows at the same places."""
    sample = load(jvm_session, pando.options(sharded)).sample(0.2, 5)
    drawn = {row.k for row in sample.select("k").collect()}
    assert len(drawn) == sample.count() == sample.groupBy().count().collect()[0][0]
    assert abs(len(drawn) - 16_000) < 700
    assert abs(sum(k + 40_000 in drawn for k in drawn) - 1600) < 250
