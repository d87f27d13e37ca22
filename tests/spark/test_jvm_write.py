"""Writing by Spark's statements into tables of the catalog: every row once, and no value lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from spark_connector import use_catalog
from tests.portions import one_in
from tests.spark.catalog import Session
from tests.spark.conftest import Pando, rows, save
from tests.spark.test_jvm_read import Between

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def sql(jvm_session: SparkSession, pando: Pando) -> Session:
    return Session(jvm_session, pando)


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("id AS k", "cast(id AS string) AS s")


def counted(pando: Pando, table: str) -> Sequence[tuple[object, ...]]:
    """(rows, distinct keys) on each replica."""
    pando.sync(table)
    return [rows(client, f"SELECT count(), uniqExact(k) FROM {table}")[0] for client in pando.clients.values()]


def keys(pando: Pando, table: str) -> list[object]:
    return [key for (key,) in rows(pando["r1"], f"SELECT k FROM {table} ORDER BY k")]


def failing(frame: DataFrame, attempts: int) -> DataFrame:
    """Its last task fails behind its rows, in its first attempts."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() < attempts:
            raise RuntimeError("this task fails")

    return frame.mapInArrow(fail, frame.schema)


# -- rows go in once --------------------------------------------------------------------------------------------------


def test_insert_and_append(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s Nullable(String)", "k")
    sql(f"INSERT INTO pando.default.{table} VALUES (1, 'one'), (2, NULL)")
    sql(f"INSERT INTO pando.default.{table} (s, k) SELECT 'three', 3")
    frame = numbers(sql.spark, 5000).where("k >= 4")
    frame.select("s", "k").writeTo(f"pando.default.{table}").option("batch_rows", "700").append()
    assert counted(sql.pando, table) == [(4999, 4999)] * 2
    assert sql.server(f"SELECT k, s FROM {table} WHERE k < 5 ORDER BY k", "r2") == [
        (1, "one"), (2, None), (3, "three"), (4, "4"),
    ]  # fmt: skip
    assert sql.pando.value(f"SELECT countIf(toString(k) != s) FROM {table} WHERE k > 4") == 0


def test_a_task_that_fails_behind_its_rows_is_repeated(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s String", "k")
    frame = failing(numbers(sql.spark, 6000), 1)
    frame.writeTo(f"pando.default.{table}").option("batch_rows", "500").append()
    assert counted(sql.pando, table) == [(6000, 6000)] * 2


@pytest.mark.long
@pytest.mark.parametrize("engine", ["", "MergeTree"])
def test_a_job_that_fails_leaves_nothing(sql: Session, engine: str) -> None:
    table = sql.pando.new_table("k Int64, s String", "k", engine=engine)
    writer = failing(numbers(sql.spark, 6000), 9).writeTo(f"alone.default.{table}").option("batch_rows", "500")
    for write in (writer.append, writer.overwritePartitions):
        with pytest.raises(Exception, match="this task fails"):
            write()
    assert keys(sql.pando, table) == []
    numbers(sql.spark, 10).writeTo(f"alone.default.{table}").append()
    assert keys(sql.pando, table) == list(range(10))


def test_an_application_commits_a_version_once(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s String", "k")
    for version, count in ((7, 100), (7, 200), (6, 300), (8, 400)):
        writer = numbers(sql.spark, count).writeTo(f"pando.default.{table}")
        writer.option("txnAppId", "job").option("txnVersion", str(version)).append()
    assert counted(sql.pando, table) == [(500, 400)] * 2
    for _ in range(2):
        numbers(sql.spark, 10).writeTo(f"pando.default.{table}").option("token", "t").append()
    assert counted(sql.pando, table) == [(510, 400)] * 2
    with pytest.raises(Exception, match=r"Code: 389\. .*wrote 10 rows .* before, and this one has 11"):
        numbers(sql.spark, 11).writeTo(f"pando.default.{table}").option("token", "t").append()


@pytest.mark.long
@pytest.mark.parametrize("lost", ["insert_transaction", "COMMIT TRANSACTION"])
def test_an_answer_that_is_lost(sql: Session, lost: str) -> None:
    """The request was carried out, and is sent again: to the same server, which answers after three times."""
    table = sql.pando.new_table("k Int64, s String", "k")
    with Between(sql.pando.urls["r1"]) as between:
        name = sql.new_name()
        use_catalog(sql.spark, between.url, name)
        sql(f"SELECT count(*) FROM {name}.default.{table}")
        between.loses, between.most_lost = lost, 3
        numbers(sql.spark, 1000).writeTo(f"{name}.default.{table}").option("batch_rows", "200").append()
        assert between.lost == 3
    assert counted(sql.pando, table) == [(1000, 1000)] * 2


def test_a_task_that_fails_at_its_last_block_is_repeated(sql: Session) -> None:
    """The leave that Spark's driver gave to the attempt that failed must not keep the next one out."""
    table = sql.pando.new_table("k Int64, s String", "k")
    with Between(sql.pando.urls["r1"]) as between:
        name = sql.new_name()
        use_catalog(sql.spark, between.url, name)
        sql(f"SELECT count(*) FROM {name}.default.{table}")
        for turn in range(10):
            between.loses, between.most_lost, between.lost = "insert_transaction", 1, 0
            numbers(sql.spark, 20, 1).writeTo(f"{name}.default.{table}").option("retries", "0").append()
            assert between.lost == 1, turn
    assert counted(sql.pando, table) == [(200, 20)] * 2


@pytest.mark.long
def test_a_dead_server_is_passed_over(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s String", "k")
    name = sql.new_name()
    use_catalog(sql.spark, f"http://127.0.0.1:1,{sql.pando.urls['r2']}", name)
    numbers(sql.spark, 1000).writeTo(f"{name}.default.{table}").append()
    assert counted(sql.pando, table) == [(1000, 1000)] * 2


@pytest.mark.long
def test_a_block_of_too_many_partitions_is_divided(sql: Session) -> None:
    """Spark cannot compute the partition key, so every block has rows of many partitions."""
    table = sql.pando.new_table("k Int64, s String", "k", partition="intDiv(k, 30)")
    frame = sql.spark.range(0, 6000, 1, 1).selectExpr("id AS k", "cast(id AS string) AS s")
    frame.writeTo(f"pando.default.{table}").option("setting.max_partitions_per_insert_block", "60").append()
    assert counted(sql.pando, table) == [(6000, 6000)] * 2
    mixed = sql.spark.range(0, 900, 1, 1).selectExpr("id * 40 AS k", "'x' AS s")
    with pytest.raises(Exception, match=r"Code: 252\..*Too many partitions for a single INSERT block"):
        mixed.writeTo(f"pando.default.{table}").option("setting.max_partitions_per_insert_block", "60").append()
    assert counted(sql.pando, table) == [(6000, 6000)] * 2


@pytest.mark.long
@pytest.mark.parametrize("way", ["catalog", "format"])
@pytest.mark.parametrize("key", ["toYYYYMM(d)", "(toYear(d), g)", "toStartOfHour(t)", "toMonday(d)"])
def test_few_parts_are_made(sql: Session, key: str, way: str) -> None:
    """A partition's rows come to one task, whatever the order of the frame."""
    table = sql.pando.new_table("k Int64, d Date, g Int32, t DateTime('UTC')", "(g, k)", partition=key)
    sql.pando["r1"].execute(f"SYSTEM STOP MERGES {table}")
    frame = sql.spark.range(0, 2000, 1, 8).selectExpr(
        "id AS k", "date_add(DATE'2024-01-01', cast(id * 7919 % 60 AS int)) AS d", "cast(id % 3 AS int) AS g",
        "TIMESTAMP'2024-01-01 00:00:00Z' + make_dt_interval(0, cast(id * 31 % 9 AS int), cast(id % 60 AS int)) AS t",
    )  # fmt: skip
    if way == "catalog":
        frame.writeTo(f"pando.default.{table}").append()
    else:
        save(frame, sql.pando.options(table))
    assert counted(sql.pando, table) == [(2000, 2000)] * 2
    partitions, parts = sql.server(f"SELECT uniqExact(partition), count() FROM system.parts WHERE table = '{table}'")[0]
    assert parts == partitions
    assert int(str(partitions)) > 1


# -- overwriting ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_overwriting(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s String", "k", partition="k % 3")
    full = f"pando.default.{table}"
    numbers(sql.spark, 9).writeTo(full).append()
    sql.spark.sql("SELECT 100L AS k, 'new' AS s").writeTo(full).overwritePartitions()
    assert keys(sql.pando, table) == [0, 2, 3, 5, 6, 8, 100]
    sql(f"INSERT OVERWRITE {full} VALUES (1, 'a'), (2, 'b')")
    assert keys(sql.pando, table) == [1, 2]
    numbers(sql.spark, 2).writeTo(full).overwrite(expr("true"))
    assert keys(sql.pando, table) == [0, 1]
    sql.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE {full} VALUES (4, 'only')")
    finally:
        sql.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert keys(sql.pando, table) == [0, 4]
    numbers(sql.spark, 0).writeTo(full).overwritePartitions()
    assert keys(sql.pando, table) == [0, 4]
    numbers(sql.spark, 0).writeTo(full).overwrite(expr("true"))
    assert counted(sql.pando, table) == [(0, 0)] * 2


# -- values -----------------------------------------------------------------------------------------------------------

VALUES = [
    ("Int8", "CAST(-128 AS BYTE)", "CAST(127 AS BYTE)"),
    ("UInt8", "CAST(0 AS SHORT)", "CAST(255 AS SHORT)"),
    ("UInt16", "0", "65535"),
    ("UInt32", "0L", "4294967295L"),
    ("Int64", "-9223372036854775807L", "9223372036854775807L"),
    ("UInt64", "0BD", "18446744073709551615BD"),
    ("Float32", "CAST('NaN' AS FLOAT)", "CAST(3.4028234e38 AS FLOAT)"),
    ("Float64", "CAST('-Infinity' AS DOUBLE)", "-0.0D"),
    ("Decimal(38, 10)", "-9999999999999999999999999999.9999999999BD", "0.0000000001BD"),
    ("Decimal(9, 2)", "-9999999.99BD", "9999999.99BD"),
    ("Bool", "true", "false"),
    ("String", "''", "'zoë 日本\t'"),
    ("FixedString(4)", "'ab'", "'abcd'"),
    ("LowCardinality(String)", "''", "'low'"),
    ("Enum8('a' = 1, 'b' = 2)", "'a'", "'b'"),
    ("UUID", "'61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "'00000000-0000-0000-0000-000000000000'"),
    ("IPv4", "'0.0.0.0'", "'255.255.255.255'"),
    ("IPv6", "'::'", "'2001:db8::1'"),
    ("Date", "DATE'1970-01-01'", "DATE'2149-06-06'"),
    ("Date32", "DATE'1900-01-01'", "DATE'2299-12-31'"),
    ("DateTime", "TIMESTAMP'1970-01-01 00:00:00Z'", "TIMESTAMP'2106-02-07 06:28:15Z'"),
    ("DateTime('Asia/Tokyo')", "TIMESTAMP'2020-03-08 02:30:00'", "TIMESTAMP'2020-11-01 01:30:00'"),
    ("DateTime64(3, 'Asia/Tokyo')", "TIMESTAMP'1900-01-01 00:00:00Z'", "TIMESTAMP'2299-12-31 23:59:59.999Z'"),
    ("DateTime64(6)", "TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2299-12-31 23:59:59.999999Z'"),
    ("DateTime64(9)", "TIMESTAMP'1900-01-01 00:00:00.000001Z'", "TIMESTAMP'2262-04-11 23:47:14.999999Z'"),
    ("Array(UInt16)", "CAST(array() AS array<int>)", "array(0, 65535)"),
    ("Array(UInt64)", "array(0BD, 18446744073709551615BD)", "array(7BD)"),
    ("Array(Nullable(Date))", "array(NULL, DATE'2149-06-06')", "array(DATE'1970-01-01')"),
    ("Map(String, UInt32)", "CAST(map() AS map<string, bigint>)", "map('q', 4294967295L)"),
    ("Map(String, Array(DateTime64(3)))", "map('q', array(TIMESTAMP'2000-01-01 00:00:00.123Z'))", "map('', array())"),
    ("Tuple(x UInt8, y Nullable(String))", "struct(255S AS x, NULL AS y)", "struct(0S AS x, 'y' AS y)"),
]
"""Types with values at their ends."""


@pytest.mark.long
def test_values_of_every_type_are_those_of_the_python_writer(sql: Session) -> None:
    columns, first, second, third = ["k Int32"], ["1 AS k"], ["2 AS k"], ["3 AS k"]
    for place, (type_, least, most) in enumerate(VALUES):
        columns.append(f"c{place} {type_}")
        first.append(f"{least} AS c{place}")
        second.append(f"{most} AS c{place}")
        third.append(f"{most} AS c{place}")
        if not type_.startswith(("Array", "Map", "Tuple")):
            inner = type_.removeprefix("LowCardinality(").removesuffix(")") if type_.startswith("Low") else type_
            columns.append(
                f"n{place} " + (f"LowCardinality(Nullable({inner}))" if inner != type_ else f"Nullable({type_})")
            )
            first.append(f"{most} AS n{place}")
            second.append(f"{least} AS n{place}")
            third.append(f"NULL AS n{place}")
    ours, theirs = (sql.pando.new_table(", ".join(columns), "k") for _ in range(2))
    frame = sql.spark.sql(" UNION ALL ".join(f"SELECT {', '.join(row)}" for row in (first, second, third)))
    frame.writeTo(f"pando.default.{ours}").append()
    save(frame, sql.pando.options(theirs))
    sql.pando.sync(ours)
    sql.pando.sync(theirs)
    texts = ", ".join(f"toString({name})" for name in frame.columns)
    found = [sql.server(f"SELECT {texts} FROM {table} ORDER BY k") for table in (ours, theirs)]
    assert len(found[0]) == 3
    for name, mine, expected in zip(
        frame.columns, zip(*found[0], strict=True), zip(*found[1], strict=True), strict=True
    ):
        assert mine == expected, name
    read = [sql(f"SELECT * FROM pando.default.{table} ORDER BY k") for table in (ours, theirs)]
    assert repr(read[0]) == repr(read[1])


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    one_in(
        99,
        [
            ("UInt8", "256", r"Code: 321\. .*Column 'v' of type UInt8 cannot hold 256: .*range"),
            ("Nullable(UInt16)", "-1", r"Code: 321\. .*cannot hold -1"),
            ("UInt32", "4294967296", r"Code: 321\. .*cannot hold 4294967296"),
            ("UInt64", "18446744073709551616BD", r"Code: 321\. .*cannot hold 18446744073709551616"),
            ("UInt64", "-1", r"Code: 321\. .*cannot hold -1"),
            ("Int8", "128", "OVERFLOW|overflow"),
            ("Decimal(4, 2)", "100", "NUMERIC_VALUE_OUT_OF_RANGE|overflow"),
            ("DateTime", "TIMESTAMP'2024-01-01 00:00:00.5'", r"Code: 321\. .*finer"),
            ("DateTime64(3)", "TIMESTAMP'2024-01-01 00:00:00.0005'", r"Code: 321\. .*finer"),
            ("DateTime('Asia/Tokyo')", "TIMESTAMP'1969-12-31 23:59:59Z'", r"Code: 321\. .*range"),
            ("DateTime64(6)", "TIMESTAMP'2300-01-01 00:00:00Z'", r"Code: 321\. .*range"),
            ("DateTime64(9)", "TIMESTAMP'2290-01-01 00:00:00Z'", r"Code: 321\. .*range"),
            ("Date", "DATE'2149-06-07'", r"Code: 321\. .*cannot hold 2149-06-07"),
            ("LowCardinality(Nullable(Date32))", "DATE'1899-12-31'", r"Code: \d+\. .*"),
            ("Array(UInt8)", "array(1, 256)", r"Code: 321\. .*cannot hold 256"),
            ("Map(String, UInt8)", "map('a', -1)", r"Code: 321\. .*cannot hold -1"),
            ("Tuple(x Array(Date))", "named_struct('x', array(DATE'1969-01-01'))", r"Code: 321\. .*1969-01-01"),
            ("Enum8('a' = 1)", "'b'", r"Code: \d+\. DB::Exception"),
            ("FixedString(2)", "'abc'", r"Code: \d+\. DB::Exception"),
            ("UUID", "'x'", r"Code: \d+\. DB::Exception"),
            ("Int32", "CAST(NULL AS INT)", "(?i)null"),
            ("Int32", "'text'", "(?i)cast|INCOMPATIBLE"),
            ("Int32", "1.9D", r"Code: 53\. .*DOUBLE may lose something as INT"),
            ("Decimal(9, 2)", "1.999BD", r"Code: 53\. .*DECIMAL\(4,3\) may lose something as DECIMAL\(9,2\)"),
            ("Float32", "1e300D", r"Code: 53\. .*DOUBLE may lose something as FLOAT"),
            ("Date", "TIMESTAMP'2020-01-01 10:00:00'", r"Code: 53\. .*TIMESTAMP may lose something as DATE"),
            ("Array(Int64)", "array(1.5D)", r"Code: 53\. .*DOUBLE may lose something as BIGINT"),
        ],
    ),
)
def test_what_does_not_fit_is_refused(sql: Session, type_: str, value: str, message: str) -> None:
    table = sql.pando.new_table(f"k Int32, v {type_}", "k", engine="MergeTree")
    with pytest.raises(Exception, match=f"(?s){message}"):
        sql(f"INSERT INTO alone.default.{table} SELECT id, {value} FROM range(3)")
    assert keys(sql.pando, table) == []


@pytest.mark.long
def test_wrong_jobs_are_refused_before_the_first_row(sql: Session) -> None:
    table = sql.pando.new_table("k Int64, s String, m Int64 MATERIALIZED k", "k", engine="MergeTree")
    frame = numbers(sql.spark, 3)
    with pytest.raises(Exception, match=r"Code: 36\. .*names 2 servers"):
        frame.writeTo(f"pando.default.{table}").append()
    for options, message in (
        ({"nope": "1"}, r"Code: 36\. .*no option 'nope'"),
        ({"txnAppId": "a"}, "give 'txnAppId' together with 'txnVersion'"),
        ({"batch_rows": "none"}, "'batch_rows' must be a whole number"),
        ({"setting.insert_transaction": "x"}, "is made by the connector"),
        ({"setting.nope": "1"}, r"Code: 115\."),
    ):
        writer = frame.writeTo(f"alone.default.{table}")
        for name, value in options.items():
            writer = writer.option(name, value)
        with pytest.raises(Exception, match=message):
            writer.append()
    for columns in ("k", "k, s, 1 AS x", "k, s, k AS m"):
        with pytest.raises(Exception, match=r"INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH"):
            frame.selectExpr(*columns.split(", ")).writeTo(f"alone.default.{table}").append()
    assert keys(sql.pando, table) == []


@pytest.mark.long
def test_a_cast_that_is_written_is_carried_out(sql: Session) -> None:
    table = sql.pando.new_table("k Int32, n Decimal(9, 2), d Float64", "k", engine="MergeTree")
    sql(f"INSERT INTO alone.default.{table} SELECT CAST(1.9D AS INT), CAST(1.999BD AS DECIMAL(9, 2)), 1.5")
    assert [repr(value) for value in sql(f"SELECT * FROM alone.default.{table}")[0]] == ["1", "Decimal('2.00')", "1.5"]
