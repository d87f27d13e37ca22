"""Jobs of Spark are atomic: all rows of a job or none, once, whatever fails; readers see the old rows or the new."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from parts.common.errors import PandoError
from spark_connector.python_source.batch_writer import (
    CommitResult,
    StagedBlocks,
    check_target,
    commit_transaction,
    log_commit,
    rollback_transaction,
    write_blocks,
)
from spark_connector.shared.options import parse_options
from tests.portions import one_in
from tests.spark.conftest import Pando, load, rows, save
from tests.spark.test_spark_write import counted, numbers

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

KEYS = StructType([StructField("k", LongType(), False)])
KINDS = pytest.mark.parametrize("engine", one_in(2, ["", "MergeTree"]), ids=["replicated", "plain"])


def here(pando: Pando, table: str, **more: str) -> dict[str, str]:
    """On one server, so that a plain table will do."""
    return pando.options(table, url=pando.urls["r1"], **more)


def keys(pando: Pando, table: str) -> list[object]:
    return [key for (key,) in rows(pando["r1"], f"SELECT k FROM {table} ORDER BY k")]


def failing(frame: DataFrame, last: int) -> DataFrame:
    """Its last task fails, when the others are done."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.partitionId() == last:
                raise RuntimeError("this task fails")

    return frame.mapInArrow(fail, frame.schema)


@KINDS
@pytest.mark.parametrize("mode", one_in(2, ["overwrite", "append"]))
def test_a_job_that_fails_changes_nothing(pando: Pando, spark: SparkSession, mode: str, engine: str) -> None:
    table = pando.new_table("k UInt32, s String", "k", engine=engine)
    options = here(pando, table, batch_rows="300")
    save(numbers(spark, 1000), options)
    with pytest.raises(Exception, match="this task fails"):
        save(failing(numbers(spark, 3000, 3), 2), options, mode)
    assert keys(pando, table) == list(range(1000))
    save(numbers(spark, 500), options, "overwrite")
    assert keys(pando, table) == list(range(500))


@KINDS
@pytest.mark.long
def test_overwriting_the_table_or_its_partitions(pando: Pando, spark: SparkSession, engine: str) -> None:
    table = pando.new_table("k UInt32, s String", "k", engine=engine, partition="intDiv(k, 100)")
    save(numbers(spark, 300), here(pando, table))
    some = spark.range(100, 110).selectExpr("id AS k", "'new' AS s")
    save(some, here(pando, table, overwriteMode="partitions"), "overwrite")
    assert keys(pando, table) == [*range(110), *range(200, 300)]
    save(some, here(pando, table, partitionOverwriteMode="dynamic"), "overwrite")
    assert len(keys(pando, table)) == 210
    save(some, here(pando, table), "overwrite")
    assert keys(pando, table) == list(range(100, 110))
    save(some.where("k < 0"), here(pando, table), "overwrite")
    assert keys(pando, table) == []


@pytest.mark.long
def test_readers_see_the_old_rows_or_the_new(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k", partition="k % 4")
    save(numbers(spark, 1000), pando.options(table))
    pando.sync(table)
    seen: set[tuple[object, ...]] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            for client in pando.clients.values():
                seen.update(rows(client, f"SELECT count(), countIf(s = 'new') FROM {table}"))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        for _ in range(3):
            frame = spark.range(0, 2000, 1, 3).selectExpr("id AS k", "'new' AS s")
            save(frame, pando.options(table, batch_rows="200"), "overwrite")
            save(numbers(spark, 1000), pando.options(table, batch_rows="200"), "overwrite")
    finally:
        is_over.set()
        watching.join()
    assert seen == {(1000, 0), (2000, 2000)}


@KINDS
def test_the_same_job_again_writes_nothing_and_another_under_its_token_is_refused(
    pando: Pando, spark: SparkSession, engine: str
) -> None:
    table = pando.new_table("k UInt32, s String", "k", engine=engine)
    for partitions, batch_rows in ((2, "1000"), (3, "700"), (1, "10000")):
        save(numbers(spark, 3000, partitions), here(pando, table, token="load of monday", batch_rows=batch_rows))
        assert keys(pando, table) == list(range(3000))
    with pytest.raises(Exception, match=r"wrote 3000 rows .* before, and this one has 2999"):
        save(numbers(spark, 2999), here(pando, table, token="load of monday"))
    save(numbers(spark, 10), here(pando, table, token="load of tuesday"))
    assert len(keys(pando, table)) == 3010


def test_the_driver_is_told_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse_options({"url": "http://127.0.0.1:1", "table": "t"})
    messages = [StagedBlocks("0:a", 2000, 2), None, StagedBlocks("1:b", 10, 1)]
    log_commit(options, messages, CommitResult("committed", 2010))
    assert "2010 rows in 3 blocks written to default.t (committed)" in capsys.readouterr().err
    log_commit(options, messages, CommitResult("skipped: the application had committed this version", 2010))
    assert "nothing was written to default.t" in capsys.readouterr().err


@KINDS
def test_an_application_commits_a_version_once(pando: Pando, spark: SparkSession, engine: str) -> None:
    table = pando.new_table("k UInt32, s String", "k", engine=engine)
    for version in (7, 7, 6, 8):
        frame = spark.range(version, version + 1).selectExpr("id AS k", "'' AS s")
        save(frame, here(pando, table, txnAppId="daily", txnVersion=str(version)))
    assert keys(pando, table) == [7, 8]
    with pytest.raises(Exception, match="together with 'txnVersion'"):
        save(frame, here(pando, table, txnAppId="daily"))


@pytest.mark.long
def test_equal_jobs_are_jobs_of_their_own(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    for _ in range(2):
        save(numbers(spark, 1000), pando.options(table))
    assert counted(pando, table) == [(2000, 1000)] * 2


def test_attempts_of_a_task_on_different_replicas(pando: Pando) -> None:
    """Speculation: both end well, one is taken."""
    table = pando.new_table("k Int64", "k")
    batches = [pa.record_batch({"k": list(range(start, start + 700))}) for start in range(0, 7000, 700)]
    attempts = []
    for url in pando.urls.values():
        target = check_target(pando.parsed(table, url=url, batch_rows="1000"), KEYS)
        attempts.append(write_blocks(target, "job", 0, batches))
    assert [(attempt.rows, attempt.blocks) for attempt in attempts] == [(7000, 7)] * 2
    assert commit_transaction(target, "job", attempts[:1]).status == "committed"
    assert commit_transaction(target, "job", attempts[:1]).status == "committed before"
    assert counted(pando, table) == [(7000, 7000)] * 2
    late = write_blocks(target, "job", 0, batches)  # a task that outlives its job
    assert late.is_done
    assert counted(pando, table) == [(7000, 7000)] * 2


def test_rows_that_were_lost_are_missed(pando: Pando) -> None:
    table = pando.new_table("k Int64", "k")
    target = check_target(pando.parsed(table), KEYS)
    written = write_blocks(target, "job", 0, [pa.record_batch({"k": [1, 2]})])
    written.rows = 3
    with pytest.raises(PandoError, match="holds 2 rows of these attempts, and 3 were announced"):
        commit_transaction(target, "job", [written])
    rollback_transaction(target, "job")
    assert counted(pando, table) == [(0, 0)] * 2


MOMENTS = ["before a task", "between tasks", "before the commit", "after the commit"]


@pytest.mark.parametrize("moment", one_in(4, MOMENTS))
@pytest.mark.parametrize("victim", one_in(3, ["r1", "r2", "zookeeper"]))
def test_a_server_that_is_killed(pando: Pando, victim: str, moment: str) -> None:
    """A driver and two tasks; the server is there again when the driver commits."""
    table = pando.new_table("k Int64", "k")
    target = check_target(pando.parsed(table, batch_rows="100", retries="30"), KEYS)
    job = uuid.uuid4().hex

    def kill_at(now: str) -> None:
        if now == moment:
            pando.cluster.kill(victim)
            pando.cluster.restart(victim)
            pando.wait_writable(table)

    tasks = [[pa.record_batch({"k": list(range(start, start + 250))})] for start in (0, 250)]
    kill_at("before a task")
    first = write_blocks(target, job, 0, tasks[0])
    kill_at("between tasks")
    second = write_blocks(target, job, 1, tasks[1])
    kill_at("before the commit")
    committed = commit_transaction(target, job, [first, second])
    kill_at("after the commit")
    assert committed.rows == 500
    assert commit_transaction(target, job, [first, second]).status == "committed before"
    assert counted(pando, table) == [(500, 500)] * 2


@pytest.mark.long
@pytest.mark.parametrize("point", ["transaction.after_commit", "exchange.before", "exchange.after"])
def test_a_replica_that_dies_in_the_commit(pando: Pando, point: str) -> None:
    table = pando.new_table("k Int64", "k")
    pando["r2"].execute(f"INSERT INTO {table} VALUES (1), (2)")
    target = check_target(pando.parsed(table, batch_rows="100", retries="30"), KEYS)
    written = write_blocks(target, "job", 0, [pa.record_batch({"k": list(range(10, 310))})])
    pando.cluster.restart("r1", environment={"PANDO_FAILPOINTS": f"{point}=kill"})
    committing = threading.Thread(target=commit_transaction, args=(target, "job", [written], "OVERWRITE"))
    committing.start()
    while next(status for status in pando.cluster.status() if status.name == "r1").is_alive:
        committing.join(0.05)
    pando.cluster.restart("r1")  # some rows are on its disk alone, and the other replica waits for them
    committing.join(60)
    assert not committing.is_alive()
    pando.wait_writable(table)
    assert counted(pando, table) == [(300, 300)] * 2


@pytest.mark.long
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_commits_every_batch_once_in_whatever_order(
    pando: Pando, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """The second run starts from a checkpoint that does not know of the last commit, as after a crash."""
    table = pando.new_table("g Int64, c Int64", "g")
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"

    def run() -> None:
        stream = spark.readStream.schema("k LONG, s STRING").parquet(str(source))
        frame = stream.selectExpr("k % 5 AS g", "k AS c").repartition(3)
        if mode == "complete":
            frame = stream.groupBy((stream.k % 5).alias("g")).count().withColumnRenamed("count", "c")
        writing = frame.writeStream.format("pando").outputMode(mode)
        options = pando.options(table, checkpointLocation=str(checkpoint), batch_rows="100")
        running = writing.options(**options).trigger(availableNow=True).start()
        try:
            assert running.awaitTermination(300), running.lastProgress
        finally:
            running.stop()

    expected: Sequence[tuple[int, int]] = []
    for batch in range(2):
        numbers(spark, 1000).write.mode("append").parquet(str(source))
        run()
        last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
        for file in (checkpoint / "commits").iterdir():
            if str(last) in file.name:
                file.unlink()
        run()
        pando.sync(table)
        found = rows(pando["r1"], f"SELECT count(), sum(c) FROM {table}")
        total = 1000 * (batch + 1)
        expected = [(5, total)] if mode == "complete" else [(total, sum(range(1000)) * (batch + 1))]
        assert found == expected


def test_the_commit_waits_for_its_quorum(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    save(numbers(spark, 1000), pando.options(table, insert_quorum="2"))
    for replica in pando.clients:
        assert pando.value(f"SELECT count() FROM {table}", replica) == 1000
    assert load(spark, pando.options(table)).count() == 1000
