"""CREATE and REPLACE TABLE … AS SELECT in the catalog: the table with all its rows, or what was there before."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.catalog import Session, database
from tests.spark.conftest import Pando
from tests.spark.test_jvm_write import failing, numbers

__all__ = ["database"]

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def sql(jvm_session: SparkSession, pando: Pando) -> Session:
    return Session(jvm_session, pando)


def tables(sql: Session, database: str) -> list[object]:
    """Those of both replicas."""
    asked = f"SELECT name FROM system.tables WHERE database = '{database}' ORDER BY name"
    return [name for replica in ("r1", "r2") for (name,) in sql.server(asked, replica)]


def test_a_table_is_made_with_its_rows_and_replaced(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(
        f"CREATE TABLE {table} PARTITIONED BY (months(day)) TBLPROPERTIES (order_by = 'id') AS "
        "SELECT id, date_add(DATE'2026-01-30', cast(id AS int)) AS day FROM range(10)"
    )
    assert tables(sql, database) == ["t", "t"]
    sql.pando.sync(f"{database}.t")
    asked = f"SELECT count(), sum(id), uniqExact(_partition_id) FROM {database}.t"
    assert [sql.server(asked, replica) for replica in ("r1", "r2")] == [[(10, 45, 2)]] * 2
    sql(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT 1 AS other")
    sql.refuse(f"CREATE TABLE {table} AS SELECT 1 AS other", "TABLE_OR_VIEW_ALREADY_EXISTS")
    sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 'text' AS s, max(id) AS m FROM {table}")
    assert sql(f"SELECT * FROM {table}") == [("text", 9)]
    assert tables(sql, database) == ["t", "t"]
    sql(f"INSERT INTO {table} SELECT 'more', 1")
    sql.pando.sync(f"{database}.t")
    assert sql.server(f"SELECT s FROM {database}.t ORDER BY s", "r2") == [("more",), ("text",)]


@pytest.mark.long
def test_a_job_that_fails_leaves_what_was_there(sql: Session, database: str) -> None:
    frame = failing(numbers(sql.spark, 5000), 9)
    with pytest.raises(Exception, match="this task fails"):
        frame.writeTo(f"pando.{database}.t").create()
    assert tables(sql, database) == []
    for statement in (
        f"REPLACE TABLE pando.{database}.t AS SELECT 1 AS k",
        f"REPLACE TABLE pando.{database}.t (k INT)",
    ):
        sql.refuse(statement, "TABLE_OR_VIEW_NOT_FOUND")
    numbers(sql.spark, 10).writeTo(f"pando.{database}.t").create()
    for write in (frame.writeTo(f"pando.{database}.t").createOrReplace, frame.writeTo(f"pando.{database}.t").replace):
        with pytest.raises(Exception, match="this task fails"):
            write()
    assert sql(f"SELECT count(*), sum(k) FROM pando.{database}.t") == [(10, 45)]
    sql.refuse(f"REPLACE TABLE pando.{database}.t AS SELECT CAST('a' AS BINARY) AS b", "BINARY has no counterpart")
    sql(f"CREATE OR REPLACE TABLE pando.{database}.t (only INT)")
    assert sql(f"SELECT * FROM pando.{database}.t") == []
    numbers(sql.spark, 3).write.format("pando").mode("overwrite").saveAsTable(f"pando.{database}.t")
    assert sql(f"SELECT count(*) FROM pando.{database}.t") == [(3,)]
    assert tables(sql, database) == ["t", "t"]
