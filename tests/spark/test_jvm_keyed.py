"""Joins and groupings by the keys of partitions and shards: without a shuffle where that is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, collect_list, expr, size
from pyspark.sql.window import Window

from spark_connector import use_catalog
from tests.spark.conftest import Pando, load, rows
from tests.spark.test_jvm_read import Between, plan

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

LONG = partial(pytest.param, marks=pytest.mark.long)
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
COLUMNS = "p UInt8, s LowCardinality(String), n Nullable(Int32), day Date, t DateTime, k UInt32"
ROWS = (
    "number % 5, concat('s', toString(number % 3)), if(number % 4 = 0, NULL, number % 4), "
    "toDate('2020-01-20') + number % 20, toDateTime(number % 4), number"
)


@pytest.fixture
def spark(jvm_session: SparkSession) -> Iterator[SparkSession]:
    """Without joins by broadcast, which need no shuffle either; as ``spark_connector.session()`` makes one."""
    with setting(jvm_session, "spark.sql.autoBroadcastJoinThreshold", "-1"), setting(jvm_session, ALL_KEYS, "false"):
        yield jvm_session


def new_table(pando: Pando, partition: str, count: int = 600, columns: str = COLUMNS, values: str = ROWS) -> str:
    table = pando.new_table(columns, "k", partition=partition, settings="allow_nullable_key = 1")
    insert(pando, table, f"SELECT {values} FROM numbers({count})")
    insert(pando, table, f"SELECT {values} FROM numbers({count}, {count})")
    return table


def insert(pando: Pando, table: str, select: str) -> None:
    pando["r1"].execute(f"INSERT INTO {table} {select}")
    pando.sync(table)


def read(pando: Pando, spark: SparkSession, table: str, **options: str) -> DataFrame:
    return load(spark, pando.options(table, **{"max_rows_per_task": "500", **options}))


def join(pando: Pando, spark: SparkSession, first: str, second: str, *keys: str) -> DataFrame:
    return read(pando, spark, first).join(read(pando, spark, second), list(keys))


def shuffles(frame: DataFrame) -> bool:
    """Whether the frame, which has run, shuffled rows."""
    return "Exchange" in plan(frame).partition("== Initial Plan ==")[0]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("partition", "keys"),
    [
        ("p", ["p"]),
        ("(p, toYYYYMM(day))", ["day", "p"]),
        LONG("p", ["k", "p"]),
        LONG("s", ["s"]),
        LONG("n", ["n"]),
        LONG("day", ["day"]),
        LONG("toYYYYMM(day)", ["day"]),
        LONG("(p, toMonday(day))", ["p"]),
        LONG("(p, toMonday(day))", ["day"]),
        LONG("intDiv(k, 300)", ["k"]),
    ],
)
def test_a_join_by_the_partition_key(pando: Pando, spark: SparkSession, partition: str, keys: list[str]) -> None:
    first, second = new_table(pando, partition), new_table(pando, partition, count=250)
    frame = join(pando, spark, first, second, *keys).groupBy(*keys).count()
    found = sorted(map(tuple, frame.collect()), key=str)
    assert not shuffles(frame)
    with setting(spark, "spark.sql.sources.v2.bucketing.enabled", "false"):
        shuffled = join(pando, spark, first, second, *keys).groupBy(*keys).count()
        assert sorted(map(tuple, shuffled.collect()), key=str) == found
        assert shuffles(shuffled)
    using = ", ".join(keys)
    expected = rows(pando["r1"], f"SELECT {using}, count() FROM {first} JOIN {second} USING ({using}) GROUP BY {using}")
    assert {row[-1] for row in expected} == {row[-1] for row in found}
    assert sum(row[-1] for row in expected) == sum(row[-1] for row in found) > 0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ("p", "p % 3", "p"),  # another function
        LONG("toYYYYMM(day)", "toMonday(day)", "day"),
        LONG("p", "s", "p"),
        ("toHour(t)", "toHour(t)", "t"),  # in the zone of the server, which may change
        LONG("cityHash64(k, p) % 4", "cityHash64(k, p) % 4", "k"),
        LONG("tuple()", "tuple()", "p"),
    ],
)
def test_other_joins_are_shuffled(pando: Pando, spark: SparkSession, first: str, second: str, key: str) -> None:
    frame = join(pando, spark, new_table(pando, first), new_table(pando, second), key).groupBy(key).count()
    assert frame.collect()
    assert shuffles(frame)


def test_functions_of_columns_of_other_types_are_others(pando: Pando, spark: SparkSession) -> None:
    """Both columns are read as a long."""
    first = new_table(pando, "cityHash64(k) % 4", columns="k UInt32", values="number")
    second = new_table(pando, "cityHash64(k) % 4", columns="k Int64", values="number")
    frame = join(pando, spark, first, second, "k")
    assert len(frame.collect()) == 1200
    assert shuffles(frame)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["left", "right", "full", "left_semi", "left_anti"])
def test_sides_with_other_partitions(pando: Pando, spark: SparkSession, kind: str) -> None:
    first, second = new_table(pando, "p"), new_table(pando, "p", values=ROWS.replace("number % 5", "3 + number % 4"))
    left, right = read(pando, spark, first), read(pando, spark, second).withColumnRenamed("k", "other")
    frame = left.join(right.where("other % 7 = 0"), "p", kind).selectExpr("p", "k")
    found = sorted(map(tuple, frame.collect()), key=str)
    assert not shuffles(frame)
    with setting(spark, "spark.sql.sources.v2.bucketing.enabled", "false"):
        again = left.join(right.where("other % 7 = 0"), "p", kind).selectExpr("p", "k")
        assert sorted(map(tuple, again.collect()), key=str) == found
        assert shuffles(again)


def test_groupings_and_windows_that_spark_computes(pando: Pando, spark: SparkSession) -> None:
    frame = read(pando, spark, new_table(pando, "(p, toYYYYMM(day))"))
    grouped = frame.groupBy("p", "s").agg(collect_list("k").alias("all"))
    assert sum(len(row["all"]) for row in grouped.collect()) == 1200
    assert not shuffles(grouped)
    ranked = frame.withColumn("r", expr("row_number()").over(Window.partitionBy("day").orderBy("k"))).where("r = 1")
    assert len(ranked.collect()) == 20
    assert not shuffles(ranked)
    computed = frame.groupBy("p").count()
    assert sorted(map(tuple, computed.collect())) == [(p, 240) for p in range(5)]


@pytest.mark.long
@pytest.mark.parametrize(("partition", "key"), [("p", "p"), ("toYYYYMM(day)", "day")])
def test_one_side_that_spark_shuffles(pando: Pando, spark: SparkSession, partition: str, key: str) -> None:
    """Spark computes keys for the rows of the other side, if it is told to; it cannot compute a function."""
    divided, other = new_table(pando, partition), new_table(pando, "tuple()")

    def count() -> list[tuple[object, ...]]:
        grouped = read(pando, spark, divided).groupBy(key).agg(collect_list("k").alias("all"))
        joined = grouped.join(read(pando, spark, other), key).groupBy(key).agg(expr("sum(size(all))"))
        return sorted(map(tuple, joined.collect()))

    with setting(spark, "spark.sql.sources.v2.bucketing.enabled", "false"):
        expected = count()
    with setting(spark, "spark.sql.sources.v2.bucketing.shuffle.enabled", "true"):
        assert count() == expected


def test_three_tables_and_columns_of_other_names(pando: Pando, spark: SparkSession) -> None:
    tables = [new_table(pando, "p", count=100) for _ in range(3)]
    first, second, third = (read(pando, spark, name, max_rows_per_task="100") for name in tables)
    renamed = second.select(col("p").alias("q"), (col("k") * 2).alias("m")).where("m % 3 = 0")
    frame = first.join(renamed, col("p") == col("q")).join(third.select(col("p").alias("r")), col("q") == col("r"))
    counted = frame.groupBy("p").agg(size(collect_list("m")).alias("c"))
    found = sorted(map(tuple, counted.collect()))
    assert not shuffles(counted)
    of_server = f"SELECT p, countIf(k * 2 % 3 = 0) * 40 * 40 FROM {tables[0]} GROUP BY p ORDER BY p"
    assert found == rows(pando["r1"], of_server)


# -- states -----------------------------------------------------------------------------------------------------------


@contextmanager
def between(pando: Pando, before: Callable[[str], None]) -> Iterator[tuple[str, list[str]]]:
    """A server that calls ``before`` with the path of each request, and the paths so far."""
    paths: list[str] = []

    def note(path: str) -> None:
        before(path)
        paths.append(path)

    with Between(pando.urls["r1"], before=note) as proxy:
        yield proxy.url, paths


@pytest.mark.long
def test_rows_and_partitions_that_come_meanwhile(pando: Pando, spark: SparkSession) -> None:
    """Between any two requests; a query sees all of the state in which it began, and the next one the new rows."""
    table = new_table(pando, "p", count=50)
    seen = [0]

    def add(path: str) -> None:
        if path in ("/scan/read", "/scan/begin"):
            seen[0] += 1
            values = ROWS.replace("number % 5", str(seen[0] % 9))
            pando["r1"].execute(f"INSERT INTO {table} SELECT {values} FROM numbers({1000 * seen[0]}, 10)")
            if seen[0] % 5 == 0:
                pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")

    with between(pando, add) as (url, _):
        frame = read(pando, spark, table, url=url, max_rows_per_task="50")
        both = frame.alias("a").join(frame.alias("b"), ["p", "k"], "full")
        counts = []
        for _ in range(3):
            twice = both.selectExpr("p", "k", "a.s AS x", "b.s AS y")
            found = twice.collect()
            assert not shuffles(twice)
            assert not [row for row in found if row.x is None or row.y is None]
            counts.append(len(found))
    assert 100 < counts[0] < counts[1] < counts[2]


def test_a_frame_that_runs_again(pando: Pando, spark: SparkSession) -> None:
    """Spark keeps its plan: what it reads is one state, and another frame sees the new partitions."""
    table = new_table(pando, "p", count=50)
    frame = read(pando, spark, table, max_rows_per_task="20")
    joined = frame.alias("a").join(frame.alias("b"), "p").selectExpr("p")
    assert len(joined.collect()) == 5 * 20 * 20
    insert(pando, table, f"SELECT {ROWS.replace('number % 5', '77')} FROM numbers(10)")
    assert len(joined.collect()) in (2000, 2100)
    assert len(joined.select("p").collect()) == 2100


def test_a_plan_that_is_shown_before_it_runs(pando: Pando, spark: SparkSession) -> None:
    table = new_table(pando, "p", count=50)
    frame = join(pando, spark, table, table, "p").select("p")
    assert "Exchange" in plan(frame)
    insert(pando, table, f"SELECT {ROWS.replace('number % 5', '77')} FROM numbers(10)")
    assert len(frame.collect()) == 2100


@pytest.mark.long
def test_replicas_that_are_killed(pando: Pando, spark: SparkSession) -> None:
    first, second = new_table(pando, "p"), new_table(pando, "p")
    expected = pando.value(f"SELECT count() FROM {first} JOIN {second} USING (p)")
    for victim in ("r1", "r2"):
        killed: list[str] = []

        def kill(path: str, victim: str = victim, killed: list[str] = killed) -> None:
            if path == "/scan/read" and not killed:
                killed.append(victim)
                pando.cluster.kill(victim)

        try:
            with between(pando, kill) as (url, _):
                urls = f"{url},{pando.urls['r2']}"
                frames = [read(pando, spark, name, url=urls) for name in (first, second)]
                counted = frames[0].join(frames[1], "p").groupBy("p").agg(size(collect_list(expr("1"))).alias("c"))
                assert sum(row.c for row in counted.collect()) == expected
                assert not shuffles(counted)
        finally:
            pando.cluster.restart(victim)
            pando.wait_writable(first)
        assert killed


def test_a_join_narrows_a_scan_that_is_divided(pando: Pando, spark: SparkSession) -> None:
    first, second = new_table(pando, "p"), new_table(pando, "p")
    small = pando.new_table("k UInt32", "k")
    insert(pando, small, "SELECT number FROM numbers(100)")
    frame, few = read(pando, spark, first), load(spark, pando.options(small)).where("k < 3")
    with between(pando, lambda _: None) as (url, paths):
        other = read(pando, spark, second, url=url).withColumnRenamed("k", "m")
        narrowed = frame.join(broadcast(few), "k").join(other, "p").select("p", "k")
        assert sorted(map(tuple, narrowed.collect())) == sorted((k % 5, k) for k in range(3) for _ in range(240))
        assert "hashpartitioning" not in plan(narrowed).partition("== Initial Plan ==")[0]
        assert "dynamicpruning" in plan(narrowed)
        assert paths.count("/scan/begin") == 1


# -- what it costs ----------------------------------------------------------------------------------------------------


def test_no_request_where_it_does_not_help(pando: Pando, spark: SparkSession) -> None:
    table, other = new_table(pando, "p"), new_table(pando, "s")
    with between(pando, lambda _: None) as (url, paths):
        frame, second = (read(pando, spark, name, url=url) for name in (table, other))
        small = read(pando, spark, table, url=url, max_rows_per_task="100000")
        for query in (
            frame.where("k > 3"), frame.groupBy("p").count(), frame.groupBy("s").agg(collect_list("k")),
            frame.join(second, "k"), small.groupBy("p").agg(collect_list("k")), frame.join(broadcast(frame), "p"),
            frame.orderBy("p").limit(3),
        ):  # fmt: skip
            assert query.collect()
        with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "10000000"):
            assert frame.alias("a").join(frame.alias("b"), "p").count() == 1200 * 240
        with setting(spark, ALL_KEYS, "true"):
            assert frame.alias("a").join(frame.alias("b"), ["p", "k"]).count() == 1200
        assert "/scan/begin" not in paths
        del paths[:]
        assert len(frame.alias("a").join(frame.alias("b"), "p").selectExpr("p").collect()) == 1200 * 240
        assert paths.count("/scan/begin") <= 2
        assert paths.count("/scan/read") <= 10


@pytest.mark.long
def test_many_small_partitions_are_shuffled(pando: Pando, spark: SparkSession) -> None:
    """Each would be a request."""
    frame = read(pando, spark, new_table(pando, "k % 50")).groupBy("k").agg(collect_list("p"))
    assert len(frame.collect()) == 1200
    assert shuffles(frame)


# -- shards -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sharded(pando: Pando) -> Iterator[list[str]]:
    """Two tables in two shards by the hash of a column; every server has both shards."""
    names = ["one", "two"]
    for replica, client in pando.clients.items():
        for database in ("left", "right"):
            client.execute(f"CREATE DATABASE {database}")
            for name in names:
                engine = f"ReplicatedMergeTree('/keyed/{database}/{name}', '{replica}')"
                client.execute(f"CREATE TABLE {database}.{name} (k Int64, s String) ENGINE = {engine} ORDER BY k")
        for name in names:
            client.execute(
                f"CREATE TABLE {name} (k Int64, s String) ENGINE = Distributed(databases, '', {name}, cityHash64(k))"
            )
    for name in names:
        pando["r1"].execute(f"INSERT INTO {name} SELECT number - 500, toString(number) FROM numbers(1000)")
        for database in ("left", "right"):
            pando.sync(f"{database}.{name}")
    yield names
    for client in pando.clients.values():
        for name in names:
            client.execute(f"DROP TABLE {name} SYNC")
        for database in ("left", "right"):
            client.execute(f"DROP DATABASE {database} SYNC")


@pytest.mark.long
def test_a_join_by_the_sharding_key(pando: Pando, spark: SparkSession, sharded: list[str]) -> None:
    def run(trusted: str, url: str = "") -> DataFrame:
        more = {"max_rows_per_task": "200", "optimize_skip_unused_shards": trusted} | ({"url": url} if url else {})
        first, second = (load(spark, pando.options(name, **more)) for name in sharded)
        joined = first.join(second.withColumnRenamed("s", "t"), "k").where("s = t").select("k")
        assert sorted(row.k for row in joined.collect()) == list(range(-500, 500))
        grouped = first.groupBy("k").agg(collect_list("s").alias("all"))
        assert sorted(row.k for row in grouped.collect() if len(row["all"]) == 1) == list(range(-500, 500))
        assert shuffles(grouped) == shuffles(joined)
        return joined

    assert shuffles(run("0")), "rows may have been put into any shard"
    assert not shuffles(run("1"))
    with between(pando, lambda _: None) as (url, paths):
        assert not shuffles(run("1", url))
        assert "/scan/begin" not in paths


def test_tables_of_the_catalog(pando: Pando, spark: SparkSession) -> None:
    use_catalog(spark, ",".join(pando.urls.values()), "keyed", max_rows_per_task="500")
    first, second = new_table(pando, "toYYYYMM(day)"), new_table(pando, "toYYYYMM(day)")
    of_server = rows(pando["r1"], f"SELECT count() FROM {first} JOIN {second} USING (day, k)")
    text = f"SELECT count(*) FROM keyed.default.{first} JOIN keyed.default.{second} USING (day, k)"
    assert [tuple(row) for row in spark.sql(text).collect()] == of_server
    shown = spark.sql(f"EXPLAIN {text}").collect()[0][0]
    assert "Exchange hashpartitioning" not in shown
    assert "Exchange SinglePartition" in shown
