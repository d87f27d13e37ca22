"""Each query of a session reads one state of each table, the newest at its start: with frames that are used again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from spark_connector import use_session
from tests.spark.conftest import Pando, load

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

THREADS = 8


@pytest.fixture(scope="module")
def spark(jvm_session: SparkSession) -> SparkSession:
    return jvm_session


@pytest.fixture
def table(pando: Pando) -> str:
    name = pando.new_table("k UInt32, g UInt8", "k", partition="g")
    insert(pando, name, 0)
    return name


def insert(pando: Pando, table: str, first: int, count: int = 100) -> None:
    pando["r1"].execute(f"INSERT INTO {table} SELECT number + {first}, intDiv({first}, 1000) FROM numbers({count})")
    pando.sync(table)


def unmatched(joined: DataFrame) -> tuple[int, int]:
    """The rows of a join of a frame with itself, and those without a partner: none, if it reads one state."""
    found = joined.collect()
    return len(found), sum(None in row for row in found)


def test_a_join_of_a_frame_with_itself_that_runs_again(pando: Pando, spark: SparkSession, table: str) -> None:
    """Spark keeps the side that it has broadcast, and would read the other one anew."""
    frame = load(spark, pando.options(table))
    other = broadcast(frame.withColumnRenamed("g", "h"))
    joined = frame.join(other, "k", "left").select("k", "h")
    shown = frame.join(other, "k", "left").selectExpr("k", "h", "g")
    shown.explain()
    assert unmatched(joined) == unmatched(shown) == (100, 0)
    insert(pando, table, 1000)
    assert unmatched(joined) == unmatched(shown) == (100, 0)
    assert unmatched(joined.select("k", "h")) == (200, 0)


def test_a_subquery_of_a_frame_that_runs_again(pando: Pando, spark: SparkSession, table: str) -> None:
    load(spark, pando.options(table)).createOrReplaceTempView("again")
    query = "SELECT k, (SELECT max(k) FROM again WHERE hash(g) > -3000000000) - k AS left FROM again ORDER BY k DESC"
    frame = spark.sql(query)
    assert min(row.left for row in frame.collect()) == 0
    insert(pando, table, 1000)
    assert min(row.left for row in frame.collect()) == 0
    assert [min(row.left for row in spark.sql(query).collect()), spark.table("again").count()] == [0, 200]


def test_frames_of_which_nothing_is_kept_read_anew(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table))
    both = frame.union(frame).where("k >= 0")
    assert (len(frame.collect()), len(both.collect())) == (100, 200)
    insert(pando, table, 1000)
    assert (len(frame.collect()), len(both.collect())) == (200, 400)


def test_a_state_that_is_kept_outlives_merges(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table))
    joined = frame.join(broadcast(frame.withColumnRenamed("g", "h")), "k", "left").select("k", "h")
    assert unmatched(joined) == (100, 0)
    for number in range(3):
        pando["r1"].execute(f"INSERT INTO {table} SELECT number + {10 * number + 500}, 0 FROM numbers(10)")
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando.sync(table)
    assert unmatched(joined) == (100, 0)


@pytest.fixture
def growing(pando: Pando, table: str) -> Iterator[str]:
    """Its rows come in hundreds, each hundred in one step; every second one makes a partition."""
    stopped = threading.Event()

    def grow() -> None:
        number = 1
        while not stopped.wait(0.2):
            client = pando[f"r{1 + number % 2}"]
            client.execute(f"INSERT INTO {table} SELECT number + {100 * number}, {number // 2 % 9} FROM numbers(100)")
            number += 1

    thread = threading.Thread(target=grow)
    thread.start()
    yield table
    stopped.set()
    thread.join(60)


@pytest.mark.long
def test_threads_of_a_session_while_rows_come(pando: Pando, spark: SparkSession, growing: str) -> None:
    """Joins of a frame with itself, cached frames and views; each sees whole INSERTs, at least those of before."""
    options = pando.options(growing, max_rows_per_task="200")
    load(spark, options).createOrReplaceTempView("growing")

    def work(number: int) -> None:
        use_session(spark)
        frame = spark.read.format("pando").options(**options).load()
        for turn in range(2):
            least = pando.value(f"SELECT count() FROM {growing}")
            assert isinstance(least, int)
            match (number + turn) % 4:
                case 0:
                    counts = [unmatched(frame.alias("a").join(frame.alias("b"), "k", "full").select("a.g", "b.g"))]
                case 1:
                    twice = frame.alias("a").join(frame.alias("b"), ["k", "g"], "full").groupBy("g", "k").count()
                    rows = twice.collect()
                    counts = [(len(rows), sum(row["count"] != 1 for row in rows))]
                case 2:
                    cached = frame.where(f"k >= 0 AND k < {10_000_000 + number}").cache()
                    try:
                        size = cached.count()
                        counts = [
                            unmatched(cached.alias("a").join(cached.alias("b"), "k", "full").select("a.g", "b.g"))
                        ]
                        assert counts[0][0] == size == cached.count()
                    finally:
                        cached.unpersist()
                case _:
                    row = spark.sql(
                        "SELECT (SELECT count(*) FROM growing), count(k), count(DISTINCT k) FROM growing"
                    ).collect()[0]
                    counts = [(row[0], row[0] - row[1]), (row[1], row[1] - row[2])]
            for count, wrong in counts:
                assert wrong == 0
                assert count % 100 == 0
                assert count >= least - 100, "the other replica may lack the last INSERT"

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, number) for number in range(THREADS)]:
            done.result()
