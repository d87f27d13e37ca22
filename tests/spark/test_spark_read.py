"""Reading by Spark: types, narrowing, pruning, errors."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.portions import one_in
from tests.spark.conftest import Pando, first_line, load

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

EVERY_TYPE = (
    "k UInt64, i8 Int8, u8 UInt8, u16 UInt16, u32 UInt32, f Float32, b Bool, dec Decimal(10, 2), s String, "
    "lc LowCardinality(String), fs FixedString(4), d Date, d32 Date32, dt DateTime, dtz DateTime('Asia/Tokyo'), "
    "dt64 DateTime64(3), ns DateTime64(9), e Enum8('a' = 1, 'b' = 2), uu UUID, ip IPv4, ip6 IPv6, n Nullable(Int32), "
    "ln LowCardinality(Nullable(String)), a Array(UInt16), an Array(Nullable(String)), m Map(String, UInt32), "
    "tp Tuple(x Int8, y String), ae Array(Enum8('p' = 1)), mat UInt8 MATERIALIZED 7, ali UInt8 ALIAS u8 + 1"
)
ROW = """{"k": 18446744073709551615, "i8": -5, "u8": 200, "u16": 65535, "u32": 4294967295, "f": 1.5, "b": true,
"dec": "12.34", "s": "zoë", "lc": "low", "fs": "ab", "d": "2020-01-02", "d32": "1925-01-02",
"dt": "2020-01-02 03:04:05", "dtz": "2020-01-02 03:04:05", "dt64": "2020-01-02 03:04:05.123",
"ns": "1969-12-31 23:59:59.999999", "e": "b",
"uu": "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "ip": "1.2.3.4", "ip6": "2001:db8::1", "n": null, "ln": null,
"a": [1, 2, 65535], "an": ["q", null], "m": {"q": 4000000000}, "tp": {"x": -3, "y": "yy"}, "ae": ["p", "p"]}"""
UTC = datetime.UTC


@pytest.fixture(scope="module")
def every_type(pando: Pando) -> str:
    table = pando.new_table(EVERY_TYPE, "k")
    pando["r1"].execute(f"INSERT INTO {table} FORMAT JSONEachRow {ROW}")
    pando.sync(table)
    return table


@pytest.fixture(scope="module")
def numbers(pando: Pando) -> str:
    """100,000 rows in several parts and partitions; ``v`` is the key's half."""
    table = pando.new_table("k UInt32, day Date, v UInt32, s String", "k PARTITION BY toYYYYMM(day)")
    for start in range(0, 100_000, 25_000):
        pando["r1"].execute(
            f"INSERT INTO {table} SELECT number, toDate('2024-01-01') + intDiv(number, 1000), intDiv(number, 2), "
            f"toString(number) FROM numbers({start}, 25000)"
        )
    pando.sync(table)
    return table


def test_every_type_arrives(pando: Pando, spark: SparkSession, every_type: str) -> None:
    frame = load(spark, pando.options(every_type))
    nullable = {field.name for field in frame.schema if field.nullable}
    assert nullable == {"n", "ln"}
    row = frame.collect()[0].asDict(recursive=True)
    instants = {name: row.pop(name).astimezone(UTC) for name in ("dt", "dtz", "dt64", "ns")}
    assert row == {
        "k": Decimal(18446744073709551615), "i8": -5, "u8": 200, "u16": 65535, "u32": 4294967295, "f": 1.5, "b": True,
        "dec": Decimal("12.34"), "s": "zoë", "lc": "low", "fs": "ab", "d": datetime.date(2020, 1, 2),
        "d32": datetime.date(1925, 1, 2), "e": "b", "uu": "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "ip": "1.2.3.4",
        "ip6": "2001:db8::1", "n": None, "ln": None, "a": [1, 2, 65535], "an": ["q", None], "m": {"q": 4000000000},
        "tp": {"x": -3, "y": "yy"}, "ae": ["p", "p"],
    }  # fmt: skip
    assert instants == {
        "dt": datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "dtz": datetime.datetime(2020, 1, 1, 18, 4, 5, tzinfo=UTC),
        "dt64": datetime.datetime(2020, 1, 2, 3, 4, 5, 123000, tzinfo=UTC),
        "ns": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    }
    shown = frame.selectExpr("date_format(dt, 'yyyy-MM-dd HH:mm')").collect()[0][0]
    assert shown == "2020-01-01 22:04", "timestamps are instants, shown in the session's zone"


def test_columns_and_a_given_schema_narrow(pando: Pando, spark: SparkSession, every_type: str) -> None:
    narrow = load(spark, pando.options(every_type, columns="s, mat"))
    assert narrow.collect() == [("zoë", 7)]
    reader = spark.read.format("pando").options(**pando.options(every_type))
    wide = reader.schema("u8 BIGINT, fs BINARY, dec DECIMAL(20, 4)").load()
    assert wide.collect() == [(200, bytearray(b"ab\0\0"), Decimal("12.3400"))]


@pytest.mark.parametrize(
    ("schema", "message"),
    [("u32 INT", "cannot be read as int"), ("nope INT", "no column 'nope'"), ("ali INT", "is an ALIAS")],
)
def test_a_schema_that_does_not_fit(
    pando: Pando, spark: SparkSession, every_type: str, schema: str, message: str
) -> None:
    frame = spark.read.format("pando").options(**pando.options(every_type)).schema(schema).load()
    with pytest.raises(Exception, match=message) as refused:
        frame.collect()
    assert re.search(message, first_line(refused.value))


@pytest.mark.parametrize(
    ("options", "message"),
    one_in(
        4,
        [
            ({"tabel": "x"}, "unknown option 'tabel'. Maybe you meant 'table'"),
            ({"url": "nowhere"}, "the option 'url' has 'nowhere'"),
            ({"partitions": "many"}, "the option 'partitions' must be a whole number"),
            ({"columns": "s, nope"}, "There is no column 'nope'"),
            ({"table": "nope"}, r"Code: 60\. DB::Exception: .*\(UNKNOWN_TABLE\)"),
            ({"database": "nope"}, r"Code: 81\. .*\(UNKNOWN_DATABASE\)"),
            ({"user": "nobody", "password": "x"}, r"Code: 516\. .*\(AUTHENTICATION_FAILED\)"),
            ({"url": "http://127.0.0.1:1", "retries": "1"}, "Cannot connect to http://127.0.0.1:1"),
        ],
    ),
)
def test_wrong_options_are_named(
    pando: Pando, spark: SparkSession, every_type: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as refused:
        load(spark, {**pando.options(every_type), **options})
    assert re.search(message, first_line(refused.value)), "what to do is said at once, not below a traceback"


@pytest.mark.long
def test_tasks_are_balanced_over_parts(pando: Pando, spark: SparkSession, numbers: str) -> None:
    frame = load(spark, pando.options(numbers, partitions="5"))
    assert frame.rdd.getNumPartitions() == 5
    counts = [row["n"] for row in frame.selectExpr("spark_partition_id() p").groupBy("p").count()
              .withColumnRenamed("count", "n").collect()]  # fmt: skip
    assert sum(counts) == 100_000
    assert max(counts) - min(counts) <= 2 * 8192
    assert frame.selectExpr("sum(v)", "count(distinct s)").collect() == [
        (pando.value(f"SELECT sum(v) FROM {numbers}"), 100_000)
    ]


def test_an_empty_table(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    assert load(spark, pando.options(table)).collect() == []


@pytest.mark.long
def test_the_filter_option_filters_and_prunes(pando: Pando, spark: SparkSession, numbers: str) -> None:
    condition = "toYYYYMM(day) = 202402 AND v % 3 = 1"
    frame = load(spark, pando.options(numbers, filter=condition, columns="k"))
    expected = pando.value(f"SELECT sum(k) FROM {numbers} WHERE {condition}")
    assert frame.selectExpr("sum(k)").collect() == [(expected,)]
    assert frame.where("k > 1000000").count() == 0
    assert frame.selectExpr("sum(k)").collect() == [(expected,)]


@pytest.mark.long
def test_a_view_used_twice_in_one_query(pando: Pando, spark: SparkSession, numbers: str) -> None:
    """Spark would hand the filters of one use to the other, so none are pushed, whatever its configuration says."""
    options = pando.options(numbers)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        load(spark, options).createOrReplaceTempView("twice")
        counts = "(SELECT count(*) FROM twice WHERE k < 1000), (SELECT count(*) FROM twice WHERE k >= 98000)"
        assert spark.sql(f"SELECT {counts}").collect() == [(1000, 2000)]
        assert spark.sql(f"SELECT {counts}, (SELECT count(*) FROM twice)").collect() == [(1000, 2000, 100_000)]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    with pytest.raises(Exception, match=r"'push_filters' is not offered.*option 'filter'"):
        load(spark, {**options, "push_filters": "true"})


@pytest.mark.long
def test_a_frame_shows_what_is_there_when_it_is_used(pando: Pando, spark: SparkSession) -> None:
    """A frame is loaded once; each query over it reads the table as it is then, and never parts that are gone."""
    table = pando.new_table("k UInt32", "k", settings="old_parts_lifetime = 0")
    frame = load(spark, pando.options(table, partitions="3"))
    frame.createOrReplaceTempView("lasting")
    for start in (0, 10):
        pando["r1"].execute(f"INSERT INTO {table} SELECT number FROM numbers({start}, 10)")
        pando.sync(table)
        assert frame.count() == start + 10
        assert spark.sql("SELECT max(k) FROM lasting").collect() == [(start + 9,)]
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando.sync(table)
    assert sorted(row.k for row in frame.collect()) == list(range(20))
    assert frame.alias("a").join(frame.alias("b"), "k").count() == 20
    pando["r1"].execute(f"TRUNCATE TABLE {table}")
    pando.sync(table)
    assert frame.count() == 0
    assert frame.rdd.count() == 0


@pytest.mark.long
def test_a_static_frame_in_foreach_batch_lives_on(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    table = pando.new_table("k UInt32", "k", settings="old_parts_lifetime = 0")
    static = load(spark, pando.options(table, partitions="2"))
    counts: list[int] = []

    def count(_: object, number: int) -> None:
        pando["r1"].execute(f"INSERT INTO {table} VALUES ({number})")
        pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
        pando.sync(table)
        counts.append(static.count())

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rate.writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        until(lambda: len(counts) >= 3 or not query.isActive, 120)
    finally:
        query.stop()
    assert counts[:3] == [1, 2, 3], query.exception()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
def test_a_stream_of_a_table_without_block_numbers_is_refused(
    pando: Pando, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    stream = spark.readStream.format("pando").options(**pando.options(numbers)).load()
    answer = "failed to connect back"
    for attempt in range(5):  # Spark gives the process of a source ten seconds to begin, whatever the machine does
        if "failed to connect back" in answer:
            query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / str(attempt))).start()
            with pytest.raises(StreamingQueryException) as refused:
                query.awaitTermination(120)
            answer = str(refused.value)
    assert "cannot be read as a stream" in answer
    assert "UnboundLocalError" not in answer


@pytest.mark.long
def test_no_secret_of_a_catalog_table_reaches_a_file(
    pando: Pando, spark: SparkSession, numbers: str, tmp_path: Path
) -> None:
    """Spark writes the metadata of columns into the files it makes of them, and a catalog table's options are there."""
    options = f"url '{pando.urls['r1']}', table '{numbers}'"
    with pytest.raises(Exception, match=r"must not have the option 'password'.*'password_env'"):
        spark.sql(f"CREATE TABLE with_secret USING pando OPTIONS ({options}, user 'default', password 'hunter2')")
    assert not spark.catalog.tableExists("with_secret")
    spark.sql(f"CREATE TABLE with_name USING pando OPTIONS ({options}, password_env 'PANDO_TEST_PASSWORD')")
    try:
        spark.sql("SELECT k FROM with_name WHERE k < 10").write.parquet(str(tmp_path / "copy"))
        written = [file.read_bytes() for file in (tmp_path / "copy").iterdir()]
        assert written
        assert not any(b"hunter2" in data for data in written)
    finally:
        spark.sql("DROP TABLE with_name")


def test_a_catalog_table_that_lost_its_options_says_so(pando: Pando, spark: SparkSession, numbers: str) -> None:
    url = pando.urls["r1"]
    spark.sql(f"CREATE TABLE with_columns (k BIGINT) USING pando OPTIONS (url '{url}', table '{numbers}')")
    try:
        with pytest.raises(Exception, match=r"'url' is missing.*list of columns, or AS SELECT"):
            spark.sql("SELECT count(*) FROM with_columns").collect()
    finally:
        spark.sql("DROP TABLE with_columns")


@pytest.mark.long
def test_sql_over_a_catalog_table(pando: Pando, spark: SparkSession, numbers: str) -> None:
    url = pando.urls["r1"]
    spark.sql(f"CREATE TABLE numbers_of_pando USING pando OPTIONS (url '{url}', table '{numbers}')")
    try:
        query = "SELECT month(day) m, count(*) n FROM numbers_of_pando WHERE k < 60000 GROUP BY 1 ORDER BY 1"
        assert spark.sql(query).collect() == [(1, 31000), (2, 29000)]
    finally:
        spark.sql("DROP TABLE numbers_of_pando")
