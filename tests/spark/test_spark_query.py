"""The option ``query``: the servers compute a SELECT, Spark reads its result. Views of all tables of a database."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from parts.common.errors import UserError
from spark_connector.tables.table_views import register
from tests.spark.conftest import Pando, load, save
from tests.spark.test_spark_read import EVERY_TYPE, ROW
from tests.spark.test_spark_scans import free_port

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def sales(pando: Pando) -> str:
    """100,000 rows of ten shops."""
    table = pando.new_table("shop UInt8, day Date, amount UInt32", "shop")
    pando["r1"].execute(
        f"INSERT INTO {table} SELECT number % 10, toDate('2024-01-01') + number % 365, number FROM numbers(100000)"
    )
    pando.sync(table)
    return table


def query(pando: Pando, sql: str, **more: str) -> dict[str, str]:
    return {"url": ",".join(pando.urls.values()), "query": sql, **more}


def test_an_aggregate_is_computed_by_the_server(pando: Pando, spark: SparkSession, sales: str) -> None:
    sql = f"""WITH toMonth(day) AS m SELECT shop, m, sum(amount) AS total FROM {sales} -- of all months
              WHERE shop < 3 GROUP BY shop, m ORDER BY total DESC LIMIT 5;"""
    frame = load(spark, query(pando, sql))
    assert frame.schema.simpleString() == "struct<shop:smallint,m:smallint,total:decimal(20,0)>"
    expected = load(spark, pando.options(sales)).where("shop < 3").selectExpr("shop", "month(day) m", "amount")
    expected = expected.groupBy("shop", "m").sum("amount").orderBy("sum(amount)", ascending=False).limit(5)
    assert [tuple(map(int, row)) for row in frame.collect()] == [tuple(map(int, row)) for row in expected.collect()]


def test_each_use_runs_it_anew(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table("k UInt32", "k")
    frame = load(spark, query(pando, f"SELECT count() AS n, max(k) AS most FROM {table}", url=pando.urls["r1"]))
    for number in range(2):
        pando["r1"].execute(f"INSERT INTO {table} VALUES ({number})")
        assert [tuple(map(int, row)) for row in frame.collect()] == [(number + 1, number)]
    frame.createOrReplaceTempView("totals")
    assert spark.sql("SELECT a.n + b.n FROM totals a JOIN totals b USING (most)").collect()[0][0] == 4


def test_every_type_arrives_as_it_does_from_a_table(pando: Pando, spark: SparkSession) -> None:
    table = pando.new_table(EVERY_TYPE + ", au Array(UUID), mi Map(String, IPv6), ti Tuple(a Nullable(IPv4))", "k")
    pando["r1"].execute(f"INSERT INTO {table} FORMAT JSONEachRow {ROW}")
    pando["r1"].execute(
        f"INSERT INTO {table} (au, mi, ti) VALUES ([generateUUIDv4()], {{'a': '::2'}}, tuple('1.2.3.4'))"
    )
    pando.sync(table)
    of_table = load(spark, pando.options(table))
    of_query = load(spark, query(pando, f"SELECT * FROM {table}"))
    assert of_query.schema == of_table.schema
    assert of_query.orderBy("k").collect() == of_table.orderBy("k").collect()
    narrow = spark.read.format("pando").options(**query(pando, f"SELECT * FROM {table}")).schema("u8 BIGINT, fs BINARY")
    assert narrow.load().orderBy("u8").collect()[-1] == (200, bytearray(b"ab\0\0"))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", r"Code: 62\."),
        ("SELECT 1 AS a, 2 AS a", r"Code: 179\."),
        ("SELECT 1 AS a, a", "several columns 'a': give them aliases"),
        ("SELECT nope FROM numbers(1)", r"Code: 47\."),
        ("INSERT INTO t VALUES (1)", r"Code: 62\."),
        ("SELECT 1) UNION ALL (SELECT 2", r"Code: 62\.|has no column"),
    ],
)
def test_what_is_no_select_is_refused(pando: Pando, spark: SparkSession, sql: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, query(pando, sql)).collect()


def test_options_that_belong_to_tables_are_refused(pando: Pando, spark: SparkSession, sales: str) -> None:
    for name, value in (("table", sales), ("filter", "1"), ("columns", "a"), ("partitions", "2")):
        with pytest.raises(Exception, match=f"'{name}' does nothing beside 'query'"):
            load(spark, query(pando, "SELECT 1 AS a", **{name: value}))
    with pytest.raises(Exception, match="'query' is for batch reads"):
        save(spark.range(1), query(pando, "SELECT 1 AS a"))


def test_a_server_that_is_away_is_left_for_another(pando: Pando, spark: SparkSession, sales: str) -> None:
    urls = f"http://127.0.0.1:{free_port()},{pando.urls['r2']}"
    frame = load(spark, query(pando, f"SELECT count() AS n FROM {sales}", url=urls))
    assert int(frame.collect()[0].n) == 100_000


def test_an_error_in_the_middle_is_no_shorter_answer(pando: Pando, spark: SparkSession) -> None:
    sql = "SELECT number, throwIf(number = 900000, 'far behind') AS t FROM numbers(1000000)"
    frame = load(spark, query(pando, sql, **{"setting.max_block_size": "10000", "setting.max_threads": "1"}))
    with pytest.raises(Exception, match=re.escape("far behind")):
        frame.collect()


def test_every_table_of_a_database_as_a_view(pando: Pando, spark: SparkSession) -> None:
    for client in pando.clients.values():
        client.execute("CREATE DATABASE shop")
        tables = {"orders": "id UInt32, item UInt32, m UInt8 MATERIALIZED 1", "items": "id UInt32, s String"}
        for name, columns in tables.items():
            path = f"'/tables/shop_{name}', '{{replica}}'"
            client.execute(f"CREATE TABLE shop.{name} ({columns}) ENGINE = ReplicatedMergeTree({path}) ORDER BY id")
    pando["r1"].execute("INSERT INTO shop.orders SELECT number, number % 3 FROM numbers(30)")
    urls = ",".join(pando.urls.values())
    assert register(spark, urls, "shop", prefix="shop_") == ["shop_items", "shop_orders"]
    pando["r1"].execute("INSERT INTO shop.items VALUES (0, 'zero'), (2, 'two')")
    for client in pando.clients.values():
        for name in ("orders", "items"):
            client.execute(f"SYSTEM SYNC REPLICA shop.{name}")
    joined = "SELECT s, count(*) FROM shop_orders o JOIN shop_items i ON o.item = i.id GROUP BY s ORDER BY s"
    assert spark.sql(joined).collect() == [("two", 10), ("zero", 10)]
    assert spark.table("shop_orders").columns == ["id", "item"]
    with pytest.raises(UserError, match="no MergeTree tables in a database 'nothing'"):
        register(spark, urls, "nothing")
