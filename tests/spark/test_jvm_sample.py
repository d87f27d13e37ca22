"""Samples of Spark that the servers draw: how many rows, which, and what is left to Spark."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import Pando, load
from tests.spark.test_jvm_read import plan

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

ROWS = 60_000


@pytest.fixture(scope="module")
def spark(jvm_session: SparkSession) -> SparkSession:
    return jvm_session


@pytest.fixture(scope="module")
def table(pando: Pando) -> str:
    """Three partitions of one part each, whose rows are alike."""
    name = pando.new_table("p UInt8, k UInt32, s String", "k", partition="p", settings="index_granularity = 512")
    pando["r1"].execute(f"INSERT INTO {name} SELECT number % 3, intDiv(number, 3), 'abc' FROM numbers({ROWS})")
    pando.sync(name)
    return name


def keys(frame: DataFrame) -> set[tuple[int, int]]:
    return {(row["p"], row["k"]) for row in frame.select("p", "k").collect()}


def is_drawn_by_servers(frame: DataFrame) -> bool:
    shown = plan(frame)
    return " Sample " not in shown and "sample: " in shown


def assert_share(found: int, of: int, share: float) -> None:
    """Six deviations of a fair draw."""
    assert abs(found - of * share) <= 6 * math.sqrt(of * share * (1 - share)) + 1, (found, of * share)


def test_rows_are_drawn_by_their_share_and_seed(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table, partitions="5"))
    drawn: dict[float, set[tuple[int, int]]] = {}
    for share in (0.0, 0.001, 0.3, 0.6, 1.0):
        sample = frame.sample(share, 7)
        assert is_drawn_by_servers(sample)
        drawn[share] = keys(sample)
        assert_share(len(drawn[share]), ROWS, share)
        assert keys(frame.sample(share, 7)) == drawn[share]
    assert drawn[0.0] < drawn[0.001] < drawn[0.3] < drawn[0.6] < drawn[1.0]
    other = keys(frame.sample(0.3, 8))
    assert_share(len(other & drawn[0.3]), ROWS, 0.09)
    of_one, of_two = ({k for p, k in drawn[0.3] if p == partition} for partition in (1, 2))
    assert_share(len(of_one & of_two), ROWS // 3, 0.09)  # equal places of two parts are drawn apart


def test_what_is_computed_of_a_sample(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table))
    sample = frame.sample(0.25, 42)
    drawn = keys(sample)
    counted = sample.groupBy().count()
    assert "query: SELECT" in plan(counted)
    assert is_drawn_by_servers(counted)
    assert counted.collect() == [(len(drawn),)]
    by_partition = {row["p"]: row["count"] for row in sample.groupBy("p").count().collect()}
    assert by_partition == {partition: sum(p == partition for p, _ in drawn) for partition in range(3)}
    assert keys(sample.where("k < 1000")) == {key for key in drawn if key[1] < 1000}
    first = sample.orderBy("k", "p").limit(5)
    assert "query: SELECT" in plan(first)
    assert [(row["p"], row["k"]) for row in first.collect()] == sorted(drawn, key=lambda key: (key[1], key[0]))[:5]
    assert sample.limit(3).count() == 3
    assert keys(sample.join(sample.select("p", "k"), ["p", "k"])) == drawn
    small = frame.where("k < 20").groupBy("p", "k").count()
    assert keys(sample.join(small, ["p", "k"])) == {key for key in drawn if key[1] < 20}


def test_sql(pando: Pando, spark: SparkSession, table: str) -> None:
    load(spark, pando.options(table)).createOrReplaceTempView("drawn")
    asked = "SELECT p, k FROM drawn TABLESAMPLE (10 PERCENT) REPEATABLE (3) WHERE p = 1"
    assert is_drawn_by_servers(spark.sql(asked))
    found = keys(spark.sql(asked))
    assert_share(len(found), ROWS // 3, 0.1)
    assert found == keys(spark.sql(asked))
    assert spark.sql("SELECT * FROM drawn TABLESAMPLE (5 ROWS)").count() == 5


def test_what_spark_draws(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table))
    twice = frame.sample(withReplacement=True, fraction=0.5, seed=1)
    assert not is_drawn_by_servers(twice)
    assert_share(twice.count(), ROWS * 2, 0.25)
    halves = frame.randomSplit([0.5, 0.5], 3)
    assert sum(half.count() for half in halves) == ROWS
    named = pando.new_table("k UInt32, _part String", "k")
    pando["r1"].execute(f"INSERT INTO {named} SELECT number, 'x' FROM numbers(1000)")
    pando.sync(named)
    assert not is_drawn_by_servers(load(spark, pando.options(named)).sample(0.5, 1))


def test_the_size_of_a_sample_is_known(pando: Pando, spark: SparkSession, table: str) -> None:
    frame = load(spark, pando.options(table))

    def size(asked: DataFrame) -> int:
        return int(asked._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    assert 0.009 < size(frame.sample(0.01, 1)) / size(frame) < 0.011
