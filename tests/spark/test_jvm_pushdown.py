"""What Spark pushes into a read: the same answers as without, for values at which the two could differ."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.functions import col

from tests.spark.conftest import Pando, load
from tests.spark.edges import CONDITIONS, LEFT_TO_SPARK, make_table_of_edges
from tests.spark.test_jvm_read import plan

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

KEYS = ["k", "i8", "u64", "dec", "b", "s", "lc", "e", "id", "fs", "d", "d32", "ts", "ms", "f", "f32"]
NUMBERS = ["k", "i8", "u64", "f", "f32", "dec"]
COMPUTED = ["dec * (1 - dec)", "dec * dec + i8", "f * 2.5D - 1.0D", "(dec + k) * 3", "f32 * f", "dec - u64", "f * k"]
FUNCTIONS = ["min", "max", "count", "sum", "avg", "count_distinct"]
CASES = 12
SEEDS = int(os.environ.get("PANDO_PUSH_DOWN_SEEDS", "32"))


class Pair:
    """A table as the servers help to read it, in three slots or as a whole, and its rows in Spark's memory."""

    def __init__(self, ours: DataFrame, whole: DataFrame, oracle: DataFrame) -> None:
        self.ours = ours
        self.whole = whole
        self.oracle = oracle


@pytest.fixture(scope="module")
def spark(jvm_session: SparkSession) -> SparkSession:
    return jvm_session


@pytest.fixture(scope="module")
def pair(pando: Pando, spark: SparkSession, python_session: SparkSession) -> Pair:
    table = make_table_of_edges(pando)
    options = pando.options(table, partitions="3")
    # With it Spark takes NaN for any number.
    python_session.conf.set("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
    oracle = load(python_session, options).cache()
    assert oracle.count() == 3000
    return Pair(load(spark, options), load(spark, pando.options(table)), oracle)


def normal(value: object) -> str:
    """A value without the last digits of sums, and without the sign of zero, which Spark finds in any order."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value + 0.0:.9e}" if value else "0.0"
    return repr(value)


def rows(frame: DataFrame) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(normal, row)) for row in frame.collect())


def assert_same(pair: Pair, query: str, made: tuple[DataFrame, DataFrame]) -> None:
    ours, theirs = made
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in theirs.schema]
    found, expected = rows(ours), rows(theirs)
    assert found == expected, (
        query,
        plan(ours),
        list((found - expected).items())[:3],
        list((expected - found).items())[:3],
    )


@pytest.mark.long
def test_a_condition_keeps_the_rows_that_spark_keeps(pair: Pair) -> None:
    """One query for each of the two sides: how many of the rows every condition keeps, and which."""
    texts = [text for condition in CONDITIONS for text in (condition, f"NOT ({condition})")]
    asked = [
        functions.sum(functions.when(functions.expr(text), col("k").cast("long") + 1)).alias(str(n))
        for n, text in enumerate(texts)
    ]
    expected = pair.oracle.agg(*asked).collect()[0]
    filters = [pair.ours.where(text).agg(functions.sum(col("k").cast("long") + 1)) for text in texts]
    whole = filters[0]
    for frame in filters[1:]:
        whole = whole.unionAll(frame)
    found = [row[0] for row in whole.collect()]
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, expected, strict=True))


@pytest.mark.long
def test_spark_filters_no_row_again_where_the_server_says_the_same(pair: Pair) -> None:
    kept = {text for text in CONDITIONS if " Filter " in plan(pair.ours.where(text).select("k"))}
    assert kept <= LEFT_TO_SPARK | {"s LIKE '_ä%'", "s LIKE 'a\\\\%_'", "isnan(f)", "lc LIKE 'x_'"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_query_gives_the_same(pair: Pair, seed: int) -> None:
    choose = random.Random(seed)
    for number in range(CASES):
        query, ours = RandomQuery(choose), choose.choice([pair.ours, pair.whole])
        assert_same(pair, f"seed {seed}, case {number}: {query}", (query.ask(ours), query.ask(pair.oracle)))


class RandomQuery:
    """Conditions, and groups or first rows or columns of what they keep."""

    def __init__(self, choose: random.Random) -> None:
        self.condition = self._condition(choose, choose.choice([0, 0, 1, 2])) if choose.random() < 0.7 else "true"
        self.kind = choose.choice(["columns", "groups", "groups", "total", "top", "top", "distinct", "limit", "join"])
        self.names = choose.sample(KEYS, choose.randint(1, 3))
        self.values = choose.sample(KEYS, choose.randint(1, 4))
        self.functions = [choose.choice(FUNCTIONS) for _ in self.values]
        self.computed = choose.choice(COMPUTED) if choose.random() < 0.4 else ""
        self.order = [choose.choice(["asc", "desc", "asc_nulls_last", "desc_nulls_first"]) for _ in self.names]
        self.rows = choose.choice([1, 2, 7, 100, 5000])

    def __str__(self) -> str:
        return str(vars(self))

    def _condition(self, choose: random.Random, depth: int) -> str:
        if depth == 0:
            return choose.choice(CONDITIONS)
        sides = [self._condition(choose, depth - 1) for _ in range(2)]
        text = choose.choice([" AND ", " OR "]).join(f"({side})" for side in sides)
        return text if choose.random() < 0.7 else f"NOT ({text})"

    def ask(self, frame: DataFrame) -> DataFrame:
        kept = frame.where(self.condition)
        match self.kind:
            case "columns":
                return kept.select(*self.names)
            case "groups":
                return kept.groupBy(*self.names).agg(*self._aggregates())
            case "total":
                return kept.agg(functions.count("*").alias("rows"), *self._aggregates())
            case "top":
                order: list[Column] = [
                    getattr(col(name), how)() for name, how in zip(self.names, self.order, strict=True)
                ]
                return kept.orderBy(*order).limit(self.rows).select(*self.names)
            case "distinct":
                return kept.select(*self.names).distinct()
            case "limit":
                return kept.limit(self.rows).agg(functions.count("*"), functions.count_distinct("k"))
        other = frame.select(col("k").alias("o"), col(self.names[0]).alias("other"))
        return kept.select("k", *self.values).join(other, col("k") == col("o")).where("o < 400")

    def _aggregates(self) -> Sequence[Column]:
        made = []
        for number, (name, function) in enumerate(zip(self.values, self.functions, strict=True)):
            own = function if name in NUMBERS or function not in ("sum", "avg") else "count"
            made.append(getattr(functions, own)(name).alias(f"a{number}"))
        if self.computed:
            made += [functions.sum(functions.expr(self.computed)), functions.avg(functions.expr(self.computed))]
        return made


def test_aggregates_and_first_rows_are_computed_by_the_servers(pair: Pair) -> None:
    ours = pair.ours
    assert "GROUP BY" in plan(
        ours.where("k < 9").groupBy("e", "lc").agg(functions.avg("f"), functions.max("s"), functions.sum("i8"))
    )
    assert "count()" in plan(ours.groupBy().count())
    assert "sumOrNull" in plan(ours.groupBy("s").agg(functions.sum("dec"), functions.max("k")))
    assert "LIMIT 3" in plan(ours.orderBy(col("f").desc(), "s").limit(3))
    assert "limit: 3" in plan(ours.limit(3))
    for left in (
        ours.groupBy("f").count(),
        ours.agg(functions.sum("u64")),
        ours.agg(functions.avg("dec")),
        ours.agg(functions.count_distinct("k")),
        ours.where("length(s) > 1").groupBy("lc").count(),
        ours.orderBy(functions.upper("s")).limit(3),
    ):
        assert "query:" not in plan(left)


def test_one_server_aggregates_a_whole_table(pair: Pair) -> None:
    """It computes what slots could not merge, and Spark has nothing left to do."""
    for asked in (
        functions.avg("dec"),
        functions.count_distinct("k"),
        functions.sum("u64"),
        functions.sum(functions.expr("dec * (1 - dec)")),
        functions.avg(functions.expr("f * 2.5D")),
    ):
        frame = pair.whole.where("k < 2000").agg(asked)
        assert "Aggregate" not in plan(frame), plan(frame)
        assert "Exchange" not in plan(frame)
        assert_same(pair, str(asked), (frame, pair.oracle.where("k < 2000").agg(asked)))
        assert "Aggregate" in plan(pair.ours.agg(asked))
    top = pair.whole.where("k < 2000").orderBy(col("f").desc(), "k").limit(5).select("k", "s")
    assert "FROM slot WHERE" in plan(top)
    assert "Exchange" not in plan(top)
    for text in (
        "avg(dec * (1 - dec))",
        "sum(f / 2)",
        "count(DISTINCT f)",
        "avg(k * 2)",
        "sum(abs(dec))",
        "sum(DISTINCT k)",
    ):
        assert "query:" not in plan(pair.whole.agg(functions.expr(text)))


@pytest.mark.long
def test_a_limit_with_an_offset(pair: Pair) -> None:
    """The servers give as many rows of a task as both need, and Spark passes over the first ones."""
    first = pair.ours.orderBy("k").offset(5).limit(3)
    assert [row.k for row in first.select("k").collect()] == [5, 6, 7]
    assert "LIMIT 8" in plan(first)
    some = pair.ours.offset(5).limit(3)
    assert "limit: 8" in plan(some)
    assert len(some.collect()) == 3
    assert pair.ours.where("k < 10").offset(8).limit(7).count() == 2
    assert pair.ours.offset(2990).count() == 10
    assert pair.ours.limit(7).offset(9).collect() == []


@pytest.mark.long
def test_an_empty_table_has_one_row_of_totals(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String, n Nullable(Int64), f Float32", "k")
    frame = load(spark, pando.options(table))
    asked = [
        functions.count("*"),
        functions.count("n"),
        functions.sum("k"),
        functions.sum("n"),
        functions.avg("f"),
        functions.min("s"),
        functions.max("f"),
        functions.max("k"),
    ]
    assert frame.agg(*asked).collect() == [(0, 0, None, None, None, None, None, None)]
    assert frame.groupBy("s").count().collect() == []
    assert frame.orderBy("k").limit(3).collect() == frame.limit(2).collect() == []


@pytest.mark.long
def test_sums_overflow_as_they_do_in_spark(pando: Pando, spark: SparkSession, python_session: SparkSession) -> None:
    table = pando.new_table("g UInt8, i Int64, u UInt64", "g")
    pando["r1"].execute(f"INSERT INTO {table} SELECT 0, 9223372036854775807, 18446744073709551615 FROM numbers(3)")
    pando.sync(table)
    options = pando.options(table)
    ours, theirs = load(spark, options), load(python_session, options)
    averages = [functions.avg("i"), functions.sum("u"), functions.max("u"), functions.min("i")]
    assert ours.agg(*averages).collect() == theirs.agg(*averages).collect()
    assert ours.agg(functions.sum("u")).collect() == [(Decimal(3 * 18446744073709551615),)]
    for frame in (ours, theirs):
        with pytest.raises(Exception, match=r"OVERFLOW|27670116110564327421 to type INT64"):
            frame.agg(functions.sum("i")).collect()
    for session in (spark, python_session):
        session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert (
            ours.groupBy("g").agg(functions.sum("i")).collect() == theirs.groupBy("g").agg(functions.sum("i")).collect()
        )
    finally:
        for session in (spark, python_session):
            session.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("n",)])
def test_a_sum_of_decimals_may_be_longer_than_one_value(
    pando: Pando, spark: SparkSession, python_session: SparkSession, more: tuple[str, ...]
) -> None:
    """Spark reads partial sums in the type of one value: a longer one comes in several rows, which count once."""
    table = pando.new_table("g Int8, d Decimal(5, 2), n Nullable(Decimal(18, 9)), i Int32, f Float64", "g")
    pando["r1"].execute(
        f"INSERT INTO {table} SELECT number % 5 - 2 AS g, if(g = 0, 999.99, g * 499.99), "
        "if(g = 1, NULL, g * 499999999.5), number, 0.5 FROM numbers(1003)"
    )
    pando["r1"].execute(
        f"INSERT INTO {table} VALUES (7, 0, 0, 1, 0.5), (8, -999.99, NULL, 1, 0.5), (9, 999.99, 1, 1, 1)"
    )
    pando.sync(table)
    asked = [
        functions.count("*"),
        functions.count("n"),
        functions.sum("d"),
        functions.sum("i"),
        functions.sum("f"),
        functions.min("d"),
        functions.max("n"),
        *map(functions.sum, more),
    ]
    options = pando.options(table, partitions="3")
    ours, theirs = load(spark, options), load(python_session, options)
    assert "ARRAY JOIN" in plan(ours.agg(*asked))
    assert ours.agg(*asked).collect() == theirs.agg(*asked).collect()
    assert rows(ours.groupBy("g").agg(*asked)) == rows(theirs.groupBy("g").agg(*asked))
    assert ours.where("g > 100").agg(*asked).collect() == theirs.where("g > 100").agg(*asked).collect()


@pytest.mark.long
def test_a_long_answer_of_one_server_is_kept_in_a_file_while_it_is_read(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt64, v Float64", "k")
    pando["r1"].execute(f"INSERT INTO {table} SELECT number, number FROM numbers(3000000)")
    pando.sync(table)
    groups = load(spark, pando.options(table)).groupBy("k").agg(functions.sum("v").alias("v"))
    assert "FROM slot GROUP BY" in plan(groups)
    [row] = groups.agg(functions.count("*").alias("n"), functions.sum("v").alias("v")).collect()
    assert (row.n, row.v) == (3_000_000, 3_000_000 * 2_999_999 / 2)
    temporary = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")  # type: ignore[union-attr]
    assert not list(Path(temporary).glob("pando-*.tmp"))
