"""Aggregates of which the servers make a part for each task, and what else a task computes there (``task_query``)."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import LongType, StructField, StructType

from parts.common.errors import PandoError, UserError
from spark_connector import aggregate, create_table, narrowed, prepare
from spark_connector.python_source.scan_reader import ScanReader
from spark_connector.shared.transport import Transport
from tests.spark.conftest import Pando, load, save
from tests.spark.test_spark_scans import free_port, read_all

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

COLUMNS = """
    k UInt32, g Nullable(String), e Enum8('b' = 1, 'a' = 2), i8 Nullable(Int8), u32 UInt32, i64 Int64, u64 UInt64,
    f Nullable(Float64), f32 Float32, dec Nullable(Decimal(12, 3)), wide Decimal(28, 11), b Bool, s Nullable(String),
    lc LowCardinality(String), d Date, d32 Nullable(Date32), ts DateTime('UTC'), ms DateTime64(3), id UUID
"""
NUMBERS = ("i8", "u32", "i64", "u64", "f", "f32", "dec", "wide")
ANY = (*NUMBERS, "k", "e", "b", "s", "lc", "d", "d32", "ts", "ms", "id", "g")


@pytest.fixture(scope="module")
def table(pando: Pando) -> str:
    name = pando.new_table(COLUMNS, "k", settings="index_granularity = 512")
    for start in (0, 4000):
        pando["r1"].execute(f"""
            INSERT INTO {name} SELECT number, if(number % 7 = 0, NULL, toString(number % 7)),
            if(number % 3 = 0, 'a', 'b'), if(number % 7 = 1, NULL, number % 100 - 50), number * 500000,
            toInt64(number) * 1000000007 - 3000000000000, toUInt64(number) * 1000000000001,
            multiIf(number % 7 = 2, NULL, number % 7 = 3, nan, number % 100 = 99, nan, number / 8),
            multiIf(number % 9 = 0, nan, number % 4 = 0, -0.0, number % 8 = 1, 0.0, number % 8),
            if(number % 5 = 0, NULL, toDecimal64(number, 3) / 7), toDecimal128(number, 11) / 3 - 1000,
            number % 2 = 0, if(number % 11 = 0, NULL, concat('ä', toString(number % 90))), toString(number % 3),
            toDate('2024-01-01') + number % 50, if(number % 7 = 4, NULL, toDate32('1950-01-01') + number % 9),
            toDateTime(1700000000 + number, 'UTC'), fromUnixTimestamp64Milli(1700000000123 + number),
            toUUID(concat('00000000-0000-0000-0000-0000000', leftPad(toString(number % 40000), 5, '0')))
            FROM numbers({start}, 4000)""")
    pando.sync(name)
    return name


def calls(columns: tuple[str, ...], *functions: str) -> dict[str, str]:
    return {f"{function} of {name}": f"{function}({name})" for name in columns for function in functions}


def own(frame: DataFrame, group_by: list[str], aggregates: Mapping[str, str]) -> DataFrame:
    return frame.groupBy(*group_by).agg(*(expr(text).alias(name) for name, text in aggregates.items()))


def assert_equal(ours: DataFrame, theirs: DataFrame) -> None:
    """Also in the types; floating sums but for their last digits."""
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in theirs.schema]
    found, expected = (sorted(frame.collect(), key=repr) for frame in (ours, theirs))
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        for name, mine, other in zip(ours.columns, left, right, strict=True):
            if isinstance(other, float) and not math.isnan(other):
                assert mine == pytest.approx(other, rel=1e-12), name
            else:
                assert repr(mine) == repr(other), name


@pytest.mark.parametrize("group_by", [[], ["g", "lc"], ["f32"], ["e", "d32"]])
def test_parts_of_tasks_make_what_spark_makes_of_all_rows(
    pando: Pando, spark: SparkSession, table: str, group_by: list[str]
) -> None:
    options = pando.options(table, partitions="5")
    aggregates = {"rows": "count(*)", **calls(NUMBERS, "sum", "avg"), **calls(ANY, "count", "min", "max")}
    ours = aggregate(spark, options, group_by, aggregates=aggregates)
    assert_equal(ours, own(load(spark, options), group_by, aggregates))


def test_a_condition_and_no_rows(pando: Pando, spark: SparkSession, table: str) -> None:
    options = pando.options(table, partitions="3", filter="k % 2 = 1 -- odd")
    aggregates = {"rows": "COUNT(*)", "k": "max( `k` )", "n": "count(s)", **calls(NUMBERS, "sum", "avg", "min")}
    plain = load(spark, options)
    for condition in ("g = '3' AND k < 3000", "k > 1000000"):
        for group_by in ([], ["g"]):
            ours = aggregate(spark, options, group_by, aggregates=aggregates, filter=condition)
            assert_equal(ours, own(plain.where(condition), group_by, aggregates))


def test_a_group_goes_once_through_the_pipe_for_each_task(pando: Pando, spark: SparkSession, table: str) -> None:
    sql = "SELECT lc, toInt64(count()) AS n FROM slot GROUP BY lc"
    read = load(spark, pando.options(table, partitions="4", task_query=sql)).collect()
    assert len(read) == 4 * 3
    assert sum(row.n for row in read) == 8000


def test_sums_overflow_as_they_do_in_spark(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt8, i Int64", "k")
    pando["r1"].execute(f"INSERT INTO {table} SELECT 0, 9223372036854775807 FROM numbers(3)")
    pando.sync(table)
    frame = aggregate(spark, pando.options(table), aggregates={"s": "sum(i)"})
    with pytest.raises(Exception, match="OVERFLOW"):
        frame.collect()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert_equal(
            aggregate(spark, pando.options(table), aggregates={"s": "sum(i)"}),
            own(load(spark, pando.options(table)), [], {"s": "sum(i)"}),
        )
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    pando["r1"].execute(f"INSERT INTO {table} SELECT 0, -9223372036854775807 FROM numbers(3)")
    pando.sync(table)
    assert aggregate(spark, pando.options(table), aggregates={"s": "sum(i)"}).collect() == [(0,)]


def test_averages_of_decimals_are_rounded_once(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("g UInt32, x Decimal(15, 2), y Decimal(28, 11), u UInt64", "g")
    pando["r1"].execute(
        f"INSERT INTO {table} SELECT number % 500, toDecimal64(intHash32(number) % 100000, 2) / 100 - 500, "
        "toDecimal128(intHash64(number) % 10000000, 11) / 999983 * 3, intHash64(number) FROM numbers(20000)"
    )
    pando["r1"].execute(f"INSERT INTO {table} VALUES (1000, 0.01, 0.00000000001, 1), (1000, 0.02, 0, 0)")
    pando.sync(table)
    aggregates = calls(("x", "y", "u"), "avg", "sum")
    options = pando.options(table, partitions="3")
    ours = aggregate(spark, options, ["g"], aggregates=aggregates)
    assert_equal(ours, own(load(spark, options), ["g"], aggregates))
    assert ours.where("g = 1000").collect()[0]["avg of x"] == Decimal("0.015000")


def test_columns_may_have_any_name(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("`_0` UInt8, `a.b` Nullable(Int32), `c``d` String", "tuple()")
    pando["r1"].execute(f"INSERT INTO {table} VALUES (1, 2, 'x'), (3, NULL, 'x'), (5, 7, 'y')")
    pando.sync(table)
    options, aggregates = pando.options(table), {"a.b": "sum(a.b)", "most`": "max(_0)"}
    rows = aggregate(spark, options, ["c`d"], aggregates=aggregates).collect()
    assert sorted(map(tuple, rows)) == [("x", 2, 3), ("y", 7, 5)]


def test_columns_with_commas_blanks_and_backquotes(pando: Pando, spark: SparkSession) -> None:
    schema = StructType([StructField(name, LongType()) for name in ("a,b", " g ", "c`d", "sum(x)")])
    frame = spark.createDataFrame([(1, 1, 10, 5), (2, 1, 20, 6), (3, 2, 30, 7)], schema)
    table = f"odd_names_{id(pando)}"
    create_table(frame, pando.urls["r1"], table, order_by=[" g ", "a,b"], partition_by="` g ` % 2", engine="MergeTree")
    options = pando.options(table, url=pando.urls["r1"])
    save(prepare(frame, options["url"], table), options)
    aggregates = {"x,y": "sum(`a,b`)", "z": "max(`c``d`)", "w": "min(sum(x))"}
    assert sorted(map(tuple, aggregate(spark, options, [" g "], aggregates=aggregates).collect())) == [
        (1, 3, 20, 5), (2, 3, 30, 7)]  # fmt: skip
    narrow = narrowed(load(spark, options).select("`a,b`", "` g `"))
    assert sorted(map(tuple, narrow.collect())) == [(1, 1), (2, 1), (3, 2)]
    only = load(spark, {**options, "columns": "`a,b`, `c``d`"})
    assert sorted(map(tuple, only.collect())) == [(1, 10), (2, 20), (3, 30)]


def test_tasks_compute_over_one_state(pando: Pando, spark: SparkSession) -> None:
    """Whatever comes between them, and on whichever replica."""
    table = pando.new_table("k UInt32, s String", "k", settings="index_granularity = 1024, old_parts_lifetime = 1")
    pando["r1"].execute(f"INSERT INTO {table} SELECT number, 'x' FROM numbers(20000)")
    pando.sync(table)
    options = pando.parsed(
        table, partitions="4", task_query="SELECT toInt64(count()) AS n, toInt64(sum(k)) AS s FROM slot"
    )
    schema = StructType([StructField("n", LongType(), False), StructField("s", LongType(), False)])
    reader = ScanReader(options, schema)
    first, *others = reader.partitions()
    read = read_all(reader, [first]).to_pylist()
    for number, name in enumerate(("r1", "r2")):
        pando[name].execute(f"INSERT INTO {table} SELECT number, 'y' FROM numbers({20000 + number * 500}, 500)")
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando.sync(table)
    assert len(others) == 3
    read += read_all(reader, others).to_pylist()
    assert (sum(row["n"] for row in read), sum(row["s"] for row in read)) == (20_000, sum(range(20_000)))
    elsewhere = ScanReader(pando.parsed(table, url=f"http://127.0.0.1:{free_port()},{pando.urls['r2']}",
                                         task_query=options.task_query), schema)  # fmt: skip
    assert sum(row["n"] for row in read_all(elsewhere, elsewhere.partitions()).to_pylist()) == 21_000


def test_the_first_rows_of_tasks_make_the_first_of_all(pando: Pando, spark: SparkSession, table: str) -> None:
    sql = "SELECT k, s, i64 FROM slot WHERE s IS NOT NULL ORDER BY k DESC LIMIT 7"
    options = pando.options(table, columns="k,s,i64", partitions="3")
    first = load(spark, {**options, "task_query": sql})
    assert first.count() == 21
    expected = load(spark, options).where("s IS NOT NULL").orderBy("k", ascending=False).limit(7)
    assert first.orderBy("k", ascending=False).limit(7).collect() == expected.select("k", "s", "i64").collect()
    every = load(spark, {**pando.options(table), "task_query": "SELECT * FROM slot"})
    assert_equal(every, load(spark, pando.options(table)))


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELEC 1", 62), ("SELECT nope FROM slot", 47),
     ("SELECT k, k FROM slot", 15), ("SELECT 1) UNION ALL (SELECT 2", 62),
     ("SHOW TABLES", 62), ("INSERT INTO slot VALUES (1)", 62),
     ("SELECT * FROM file('x.csv')", 164), ("SELECT f FROM slot", 47), ("SELECT * FROM default.slot", 60)],
)  # fmt: skip
def test_what_a_task_cannot_compute_is_refused(pando: Pando, table: str, sql: str, code: int) -> None:
    options = pando.parsed(table)
    body = {"table": table, "columns": ["k"], "query": sql, "scan": uuid.uuid4().hex}
    with Transport(options) as transport:
        with pytest.raises(PandoError) as raised:
            transport.call(options.urls[0], "/scan/plan", body)
        assert raised.value.code == code
        with pytest.raises(PandoError) as raised, transport.stream(options.urls[0], "/scan/read", body):
            pass
        assert raised.value.code == code


def test_what_is_not_merged_is_refused(pando: Pando, spark: SparkSession, table: str) -> None:
    options = pando.options(table)
    for call, code in (("median(k)", 48), ("sum k", 36), ("sum(s)", 48), ("sum(nope)", 16)):
        with pytest.raises(UserError) as raised:
            aggregate(spark, options, aggregates={"x": call})
        assert raised.value.code == code, call
    with pytest.raises(UserError, match="'aggregates' is empty"):
        aggregate(spark, options, ["g"], aggregates={})
    with pytest.raises(UserError, match="without 'query'"):
        aggregate(spark, {"url": options["url"], "query": "SELECT 1 AS a"}, aggregates={"x": "sum(a)"})
    with pytest.raises(Exception, match="'task_query' is for batch reads"):
        save(spark.range(1), {**options, "task_query": "SELECT 1 AS a"})
    with suppress(UserError):
        aggregate(spark, {**options, "nonsense": "1"}, aggregates={"x": "count(*)"})
        pytest.fail("an unknown option is refused")
