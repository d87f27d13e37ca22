"""Making tables from Spark, Spark's catalog, what a session says once, and secrets, which nobody may read anywhere."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from parts.common.errors import PandoError, UserError
from spark_connector import configure, create_table, use_session
from tests.spark.conftest import SECRET, SIDE, Pando, load, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    return file


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_nobody_reads_a_password(pando: Pando, spark: SparkSession, event_log: Path, tmp_path: Path) -> None:
    """Not in plans, schemas, files made of the table, or Spark's log of events (its UI)."""
    table = pando.new_table("k UInt32, s String", "k")
    options = pando.options(table, user="ada", password=SECRET)
    save(spark.sql("SELECT 1 k, 'one' s"), options)
    pando.sync(table)
    frame = load(spark, options)
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "codegen", "cost", "formatted"):
            frame.where("k > 0").explain(mode=mode)
    frame.write.parquet(str(tmp_path / "copy"))
    frame.write.format("json").save(str(tmp_path / "copy.json"))
    wrong = {**options, "password": SECRET + "x"}
    with pytest.raises(Exception, match="AUTHENTICATION_FAILED") as raised:
        load(spark, wrong)
    files = [file for top in (event_log, tmp_path) for file in top.rglob("*") if file.is_file()]
    texts = {str(file): file.read_bytes() for file in files}
    assert any(table.encode() in data or b"BatchScan pando" in data for data in texts.values()), "the log was read"
    texts |= {"plan": shown.getvalue().encode(), "schema": frame.schema.json().encode()}
    texts |= {"error": str(raised.value).encode()}
    assert [name for name, data in texts.items() if SECRET.encode() in data] == []


@pytest.mark.long
def test_a_password_comes_from_a_file_of_the_driver(pando: Pando, spark: SparkSession, secret_file: Path) -> None:
    table = pando.new_table("k UInt32", "k")
    given = pando.options(table, user="ada")
    assert load(spark, {**given, "password_file": str(secret_file)}).collect() == []
    for wrong, message in (
        ({"password_file": str(secret_file) + "x"}, "file of the option 'password_file' cannot be read in the driver"),
        ({"password_file": str(secret_file), "password_env": "PANDO_TEST_PASSWORD"}, "not both"),
    ):
        with pytest.raises(Exception, match=message):
            load(spark, {**given, **wrong})
    options = ", ".join(f"{name} '{value}'" for name, value in {**given, "password_file": str(secret_file)}.items())
    spark.sql(f"CREATE TABLE of_a_file USING pando OPTIONS ({options})")
    try:
        spark.sql("INSERT INTO of_a_file VALUES (5)")
        pando.sync(table)
        assert spark.sql("SELECT k FROM of_a_file").collect() == [(5,)]
    finally:
        spark.sql("DROP TABLE of_a_file")


@pytest.fixture
def configured(pando: Pando, spark: SparkSession, secret_file: Path) -> Iterator[SparkSession]:
    values = {"url": ",".join(pando.urls.values()), "user": "ada", "password_file": str(secret_file)}
    session = spark.newSession()
    for name, value in values.items():
        session.conf.set(f"spark.pando.{name}", value)
    assert configure(session, use_jvm=SIDE == "jvm") == values
    yield session
    use_session(spark)


@pytest.mark.long
def test_a_session_says_it_once(pando: Pando, configured: SparkSession) -> None:
    table = pando.new_table("k UInt32, s String", "k")
    save(configured.sql("SELECT 1 k, 'one' s"), {"table": table})
    pando.sync(table)
    assert load(configured, {"table": table}).collect() == [(1, "one")]
    assert load(configured, {"query": f"SELECT count() AS n FROM {table}"}).columns == ["n"]
    with pytest.raises(Exception, match="AUTHENTICATION_FAILED"):
        load(configured, {"table": table, "user": "ada", "password": "wrong"})
    configured.sql(f"CREATE TABLE briefly USING pando OPTIONS (table '{table}')")
    try:
        assert configured.sql("SELECT s FROM briefly").collect() == [("one",)]
    finally:
        configured.sql("DROP TABLE briefly")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("password", "x", "must not have 'spark.pando.password'"), ("tabel", "x", "unknown option 'tabel'")],
)
def test_a_wrong_configuration_is_refused(spark: SparkSession, name: str, value: str, message: str) -> None:
    spark.conf.set(f"spark.pando.{name}", value)
    try:
        with pytest.raises(UserError, match=message):
            configure(spark)
    finally:
        spark.conf.unset(f"spark.pando.{name}")


# -- making tables ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_table_is_made_for_a_frame(pando: Pando, spark: SparkSession) -> None:
    """On every replica; what is written to it is read back unchanged."""
    frame = spark.sql(
        "SELECT id, CAST(id AS TINYINT) b, CAST(id AS SMALLINT) h, CAST(id AS INT) i, CAST(id AS FLOAT) f, id / 2 d, "
        "id > 1 o, DATE'1950-01-02' day, TIMESTAMP'2020-01-02 03:04:05.123456' t, CAST(id AS DECIMAL(10, 3)) dec, "
        "IF(id = 1, NULL, CAST(id AS STRING)) s, CAST('bin' AS BINARY) bin, array(id, NULL) a, "
        "map('x', IF(id = 1, NULL, 1.5D)) m, named_struct('p', IF(id = 1, NULL, id), 'q', 'z') st FROM range(3)"
    )
    for client in pando.clients.values():
        client.execute("CREATE DATABASE made")
    sql = create_table(
        frame,
        ",".join(pando.urls.values()),
        "made.frames",
        order_by=["day", "id"],
        partition_by="toYYYYMM(t)",
        types={"i": "Nullable(Int64)"},
        settings={"index_granularity": 1024},
    )
    assert "ReplicatedMergeTree('/clickhouse/tables/{shard}/made/frames', '{replica}')" in sql
    assert "SETTINGS index_granularity = 1024" in sql
    options = pando.options("made.frames")
    save(frame, options)
    pando.sync("made.frames")
    for name in ("r1", "r2"):
        assert pando.value("SELECT count() FROM made.frames", name) == 3
    read = load(spark, options)
    expected = sorted(frame.withColumn("bin", frame.bin.cast("string")).collect(), key=lambda row: row.id)
    assert sorted(read.collect(), key=lambda row: row.id) == expected
    with pytest.raises(PandoError, match="is not made on") as raised:
        create_table(frame, pando.urls["r1"], "made.frames", order_by="id", engine="MergeTree")
    assert raised.value.code == 57
    create_table(frame, pando.urls["r1"], "made.frames", order_by="id", engine="MergeTree", if_not_exists=True)


@pytest.mark.parametrize(
    ("schema", "more", "message"),
    [
        ("t TIMESTAMP_NTZ", {}, "no counterpart; cast it to TIMESTAMP"),
        ("i INTERVAL DAY", {}, "interval day has no counterpart"),
        ("k INT", {"engine": "MergeTree", "zookeeper_path": "/x"}, "knows no ZooKeeper"),
        ("k INT", {"engine": "Log"}, "is not made on .*Log"),
        ("k INT", {"order_by": "nope"}, "is not made on .*nope"),
        ("k INT", {"types": {"x": "Int8"}}, "'types' names columns that are not there: x"),
    ],
)
def test_what_cannot_be_made(pando: Pando, spark: SparkSession, schema: str, more: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(PandoError, match=message):
        create_table(StructType.fromDDL(schema), pando.urls["r1"], "unmade", **more)


def test_a_replica_that_cannot_make_it_is_named(pando: Pando) -> None:
    urls = f"{pando.urls['r1']},http://127.0.0.1:1"
    schema = StructType.fromDDL("k INT")
    with pytest.raises(PandoError, match=r"not made on http://127.0.0.1:1: .*r1|127.0.0.1:\d+ made it: go on with"):
        create_table(schema, urls, "half_made", zookeeper_path="/tables/half_made", retries="0")
    create_table(schema, pando.urls["r1"], "half_made", zookeeper_path="/tables/half_made", if_not_exists=True)


# -- Spark's catalog and its modes ------------------------------------------------------------------------------------


def test_modes_and_options_that_are_not_there_say_what_to_do(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32", "k")
    options, frame = pando.options(table), spark.sql("SELECT 1 k")
    for mode in ("error", "ignore"):
        with pytest.raises(Exception, match='use either the "Append" or "Overwrite" mode'):
            save(frame, options, mode)
    with pytest.raises(Exception, match=r"'mergeSchema' is not offered: .*create_table"):
        save(frame, {**options, "mergeSchema": "true"})
    save(frame, {**options, "mergeSchema": "false"})
    with pytest.raises(Exception, match="partitioning or clustering columns do not match"):
        frame.write.format("pando").options(**options).mode("append").partitionBy("k").save()


def test_tables_that_lose_their_options_say_so(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32", "k")
    options = f"url '{pando.urls['r1']}', table '{table}'"
    with pytest.raises(Exception, match=r"'url' is missing.*list of columns, or AS SELECT"):
        spark.sql(f"CREATE TABLE as_select USING pando OPTIONS ({options}) AS SELECT 1 k")
    assert not spark.catalog.tableExists("as_select")
    assert pando.value(f"SELECT count() FROM {table}") == 0


def test_a_column_added_in_the_catalog(pando: Pando, spark: SparkSession) -> None:
    """Is read once the table has it."""
    table = pando.new_table("k UInt32", "k", engine="MergeTree")
    spark.sql(f"CREATE TABLE grows USING pando OPTIONS (url '{pando.urls['r1']}', table '{table}')")
    try:
        spark.sql("ALTER TABLE grows ADD COLUMN (v INT)")
        assert spark.sql("SELECT * FROM grows").columns == ["k", "v"]
        with pytest.raises(Exception, match="ADD COLUMN of Spark changes its catalog alone"):
            spark.sql("SELECT * FROM grows").collect()
        pando["r1"].execute(f"DROP TABLE {table}")
        pando["r1"].execute(f"CREATE TABLE {table} (k UInt32, v Int32) ENGINE = MergeTree ORDER BY k")
        pando["r1"].execute(f"INSERT INTO {table} VALUES (1, -1)")
        assert spark.sql("SELECT * FROM grows").collect() == [(1, -1)]
    finally:
        spark.sql("DROP TABLE grows")


# -- nanoseconds ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_nanoseconds_are_kept_or_refused(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32, t DateTime64(9), n Nullable(DateTime64(7)), a Array(DateTime64(9))", "k")
    exact = "2020-01-02 03:04:05.123456"
    fine = "1969-12-31 23:59:59.999999999"
    pando["r1"].execute(f"INSERT INTO {table} VALUES (1, '{exact}', NULL, [])", settings={"session_timezone": "UTC"})
    pando["r1"].execute(
        f"INSERT INTO {table} VALUES (2, '{fine}', '2020-01-01 00:00:00.1234567', ['{fine}'])",
        settings={"session_timezone": "UTC"},
    )
    pando.sync(table)
    options = pando.options(table)
    utc = datetime.UTC
    microseconds = datetime.datetime(2020, 1, 2, 3, 4, 5, 123456, tzinfo=utc)
    read = load(spark, {**options, "filter": "k = 1"}).collect()[0]
    assert read.t.astimezone(utc) == microseconds
    for column in ("t", "n", "a"):
        with pytest.raises(Exception, match=f"Column '{column}' .*would lose data.*option 'nanoseconds'"):
            load(spark, {**options, "columns": column}).collect()
    cut = load(spark, {**options, "nanoseconds": "truncate"}).orderBy("k").collect()[1]
    assert (
        cut.t.astimezone(utc)
        == cut.a[0].astimezone(utc)
        == datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=utc)
    )
    columns = {**options, "columns": "k,t,n"}
    numbers = load(spark, {**columns, "nanoseconds": "long"})
    assert numbers.orderBy("k").collect() == [
        (1, 1577934245123456000, None), (2, -1, 1577836800123456700)]  # fmt: skip
    texts = load(spark, {**columns, "nanoseconds": "string"}).orderBy("k").collect()
    assert texts == [(1, f"{exact}000Z", None), (2, f"{fine}Z", "2020-01-01 00:00:00.123456700Z")]
    of_query = {"url": options["url"], "query": f"SELECT k, t FROM {table} ORDER BY k", "nanoseconds": "long"}
    assert [row.t for row in load(spark, of_query).collect()] == [1577934245123456000, -1]
    copy = pando.new_table("k UInt32, t DateTime64(9), n Nullable(DateTime64(7))", "k")
    save(numbers, pando.options(copy))
    pando.sync(copy)
    different = f"SELECT count() FROM {copy} a JOIN {table} b ON a.k = b.k AND a.t = b.t"
    assert rows(pando["r1"], different) == [(2,)]
