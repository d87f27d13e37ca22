"""Tables read as streams by Spark: every row once, through restarts, merges and deaths; and what is gone is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from parts.common.errors import PandoError
from tests.spark.conftest import Pando, enter

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("spark")]
KEPT = "enable_block_number_column = 1, old_parts_lifetime = 1"


class Reader:
    """Runs a streaming query again and again from one checkpoint, and keeps the rows of its batches by number."""

    def __init__(self, spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
        self.spark = spark
        self.options = options
        self.checkpoint = checkpoint
        self.batches: dict[int, list[int]] = {}
        self.after_batch: Callable[[int], None] = lambda number: None

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = sorted(row.k for row in frame.select("k").collect())
        self.after_batch(number)

    def start(self, *, is_endless: bool = False, **options: str) -> StreamingQuery:
        enter(self.spark)
        stream = self.spark.readStream.format("pando").options(**self.options, **options).load()
        writer = stream.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
        return (writer if is_endless else writer.trigger(availableNow=True)).start()

    def run(self, **options: str) -> None:
        """What is there now. Spark gives a source's process ten seconds to begin, whatever the machine does."""
        for _ in range(5):
            query = self.start(**options)
            try:
                assert query.awaitTermination(300), query.lastProgress
                return
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error):
                    raise
            finally:
                query.stop()
        raise AssertionError("Spark started no process")

    def failure(self, **options: str) -> str:
        with pytest.raises(StreamingQueryException) as raised:
            self.run(**options)
        return str(raised.value)

    def forget_commit(self) -> None:
        """As if the driver had died before the last batch was committed: Spark runs it again."""
        last = max(self.batches)
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    @property
    def rows(self) -> list[int]:
        return sorted(key for batch in self.batches.values() for key in batch)


@pytest.fixture
def reader(pando: Pando, spark: SparkSession, table: str, tmp_path: Path) -> Reader:
    return Reader(spark, pando.options(table), tmp_path / "checkpoint")


@pytest.fixture
def table(pando: Pando) -> str:
    return pando.new_table("p UInt8, k UInt32", "(k % 7, k)", settings=KEPT, partition="p")


def insert(pando: Pando, table: str, first: int, rows: int, replica: str = "r1") -> None:
    """In two partitions."""
    pando[replica].execute(f"INSERT INTO {table} SELECT number % 2, number FROM numbers({first}, {rows})")


@pytest.mark.long
def test_every_row_once_through_restarts_merges_and_replays(pando: Pando, table: str, reader: Reader) -> None:
    for round_ in range(4):
        for number in range(3):
            insert(pando, table, 1000 * (3 * round_ + number), 1000, f"r{1 + number % 2}")
        pando.sync(table)
        if round_ % 2:
            pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
        reader.run()
        assert reader.rows == list(range(3000 * (round_ + 1)))
        if round_ == 2:
            before = dict(reader.batches)
            reader.forget_commit()
            pando["r2"].execute(f"OPTIMIZE TABLE {table} FINAL")
            reader.run()
            assert reader.batches == before
    count = len(reader.batches)
    reader.run()
    assert len(reader.batches) == count, "a batch without rows is a job for nothing"


@pytest.mark.long
def test_batches_are_cut_at_blocks_by_rows(pando: Pando, table: str, reader: Reader) -> None:
    for number in range(10):
        insert(pando, table, 100 * number, 100)
    pando.sync(table)
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    reader.run(maxRowsPerTrigger="250")
    assert [len(batch) for _, batch in sorted(reader.batches.items())] == [250] * 4
    assert reader.rows == list(range(1000))


@pytest.mark.long
def test_from_the_latest_and_from_given_blocks(pando: Pando, spark: SparkSession, table: str, tmp_path: Path) -> None:
    insert(pando, table, 0, 10)
    insert(pando, table, 10, 10)
    pando.sync(table)
    options = pando.options(table)
    latest = Reader(spark, {**options, "startingOffsets": "latest"}, tmp_path / "latest")
    given = Reader(spark, {**options, "startingOffsets": '{"0": 0, "1": 1}'}, tmp_path / "given")
    latest.run()
    given.run()
    assert latest.rows == []
    assert given.rows == list(range(10, 20, 2))
    insert(pando, table, 20, 10)
    pando.sync(table)
    latest.run()
    given.run()
    assert latest.rows == list(range(20, 30))
    assert given.rows == [*range(10, 20, 2), *range(20, 30)]


@pytest.mark.long
def test_what_comes_while_an_endless_query_runs_on_two_replicas_of_which_one_dies(
    pando: Pando, table: str, reader: Reader
) -> None:
    insert(pando, table, 0, 100)
    query = reader.start(is_endless=True)
    try:
        wait(lambda: reader.rows == list(range(100)), query)
        pando.cluster.kill("r1")
        insert(pando, table, 100, 100, "r2")
        wait(lambda: reader.rows == list(range(200)), query)
        pando.cluster.restart("r1")
        wait(lambda: is_writable(pando, table), query)
        insert(pando, table, 200, 100, "r1")
        wait(lambda: reader.rows == list(range(300)), query)
    finally:
        query.stop()


@pytest.mark.long
def test_numbers_that_are_committed_out_of_order(pando: Pando, table: str, reader: Reader, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    insert(pando, table, 0, 10)
    restart(pando, "r2", {"PANDO_FAILPOINTS": f"insert.before_commit=pause:{gate}"})
    slow = threading.Thread(target=lambda: insert(pando, table, 10, 10, "r2"))
    try:
        slow.start()
        until(lambda: Path(f"{gate}.reached").exists())
        insert(pando, table, 20, 10)
        reader.run()
        assert not {10, 20}.intersection(reader.rows), "the partition with the open number waits"
        assert set(range(10)) <= set(reader.rows)
    finally:
        gate.touch()
        slow.join()
        restart(pando, "r2")
    pando.sync(table)
    reader.run()
    assert reader.rows == list(range(30))


@pytest.mark.long
def test_rows_dropped_before_they_were_read_end_the_query(pando: Pando, table: str, reader: Reader) -> None:
    insert(pando, table, 0, 10)
    pando.sync(table)
    reader.run()
    pando["r2"].execute(f"TRUNCATE TABLE {table}")
    insert(pando, table, 10, 10)
    pando.sync(table)
    reader.run()
    assert reader.rows == list(range(20)), "all that was dropped had been read"
    insert(pando, table, 20, 10)
    pando["r1"].execute(f"TRUNCATE TABLE {table}")
    insert(pando, table, 30, 10)
    pando.sync(table)
    assert "were dropped before the stream had read them" in reader.failure()
    reader.run(failOnDataLoss="false")
    assert reader.rows == [*range(20), *range(30, 40)]


@pytest.mark.long
def test_a_table_made_again_is_another_one(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    table = pando.new_table("k UInt32", "k", "MergeTree", settings=KEPT)
    reader = Reader(spark, pando.options(table, url=pando.urls["r1"]), tmp_path / "checkpoint")
    for number in range(3):
        pando["r1"].execute(f"INSERT INTO {table} VALUES ({number})")
    reader.run()
    create = str(pando.value(f"SELECT create_table_query FROM system.tables WHERE name = '{table}'"))
    pando["r1"].execute(f"DROP TABLE {table}")
    pando["r1"].execute(create)
    pando["r1"].execute(f"INSERT INTO {table} VALUES (7)")
    assert "was dropped and made again" in reader.failure()
    reader.run(failOnDataLoss="false")
    assert reader.rows == [0, 1, 2, 7]


@pytest.mark.long
def test_a_table_whose_merges_forget_the_numbers_is_refused(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    table = pando.new_table("k UInt32", "k")
    failure = Reader(spark, pando.options(table), tmp_path / "checkpoint").failure()
    assert "enable_block_number_column = 1" in failure
    assert "UnboundLocalError" not in failure


@pytest.mark.long
def test_only_a_table_is_read_as_a_stream(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    options = {"url": pando.urls["r1"], "query": "SELECT 1 AS k"}
    failure = Reader(spark, options, tmp_path / "checkpoint").failure()
    assert "name a 'table'" in failure


def test_changed_rows_alone_are_no_output(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    """Spark itself refuses the mode to sources written in Python, and names it."""
    table = pando.new_table("k UInt8, n Int64", "k")
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    counts = rate.selectExpr("CAST(value % 3 AS SMALLINT) AS k").groupBy("k").count().withColumnRenamed("count", "n")
    writer = counts.writeStream.format("pando").outputMode("update").options(**pando.options(table))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        with pytest.raises(StreamingQueryException, match="Update mode"):
            query.awaitTermination(120)
    finally:
        query.stop()


def restart(pando: Pando, name: str, environment: dict[str, str] | None = None) -> None:
    pando.cluster.kill(name)
    pando.cluster.restart(name, environment=environment)
    until(lambda: pando.value("SELECT countIf(is_readonly) FROM system.replicas", name) == 0)


def is_writable(pando: Pando, table: str) -> bool:
    try:
        return pando.value(f"SELECT is_readonly FROM system.replicas WHERE table = '{table}'") == 0
    except PandoError:
        return False


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait(condition: Callable[[], bool], query: StreamingQuery, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.1)
