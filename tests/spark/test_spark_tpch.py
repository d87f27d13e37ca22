"""TPC-H's 22 queries by Spark over live tables, spread over two replicas, give DuckDB's answers over the same rows.

Beside the Python source Spark keeps the small tables when it has read them: planning a scan costs more than what they
hold.
PANDO_TPCH_SCALE=1 (with --timeout 3000) runs them over more.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_connector import register
from tests.spark.conftest import Pando, enter
from tests.sql.run.test_tpch import KEYS, QUERIES

SCALE = os.environ.get("PANDO_TPCH_SCALE", "0.1")

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def files(pando: Pando, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The files of the scale for DuckDB, and the same rows as tables of both replicas."""
    data = tmp_path_factory.mktemp("tpch")
    generator = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", SCALE, f"--output-dir={data}"], check=True, capture_output=True)
    connection = duckdb.connect()
    for client in pando.clients.values():
        client.execute("CREATE DATABASE tpch")
    for name, (order_by, partition_by) in KEYS.items():
        file = data / f"{name}.parquet"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{file}'")
        columns = ", ".join(f"{field.name} {_type_name(field.type)}" for field in pq.read_schema(file))
        partition = f"PARTITION BY {partition_by}" if partition_by else ""
        for client in pando.clients.values():
            client.execute(
                f"CREATE TABLE tpch.{name} ({columns}) ENGINE = ReplicatedMergeTree('/tables/tpch/{name}', "
                f"'{{replica}}') {partition} ORDER BY {order_by}"
            )
        pando["r1"].insert(f"tpch.{name}", file.read_bytes(), "Parquet")
        pando.sync(f"tpch.{name}")
    yield connection
    connection.close()


@pytest.fixture(scope="module", params=["python_session", "jvm_session"])
def spark(request: pytest.FixtureRequest) -> SparkSession:
    session: SparkSession = request.getfixturevalue(request.param)
    return session


@pytest.fixture(scope="module")
def truth(
    pando: Pando, spark: SparkSession, python_session: SparkSession, files: duckdb.DuckDBPyConnection
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Spark has the tables as views; DuckDB the files."""
    enter(spark)
    urls = ",".join(pando.urls.values())
    assert set(register(spark, urls, "tpch")) == set(KEYS)
    if spark is python_session:
        for name in KEYS.keys() - {"lineitem", "orders"}:
            spark.catalog.cacheTable(name)
    yield files
    spark.catalog.clearCache()
    for name in KEYS:
        spark.catalog.dropTempView(name)


def _type_name(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"Decimal({arrow.precision}, {arrow.scale})"
    if pa.types.is_integer(arrow):
        return f"Int{arrow.bit_width}"
    return "Date" if pa.types.is_date(arrow) else "String"


@pytest.mark.parametrize("query", [path.read_text() for path in QUERIES], ids=[path.stem for path in QUERIES])
def test_spark_answers_as_duckdb(truth: duckdb.DuckDBPyConnection, spark: SparkSession, query: str) -> None:
    expected = truth.execute(query).fetchall()
    answered = spark.sql(query).collect()
    assert len(answered) == len(expected)
    for row, right in zip(answered, expected, strict=True):
        assert all(map(_is_same, row, right)), (row, right)


def _is_same(value: object, right: object) -> bool:
    """Spark's averages and quotients of decimals are decimals of at least six digits."""
    if isinstance(value, Decimal | float) and isinstance(right, Decimal | float | int):
        return math.isclose(value, right, rel_tol=1e-9, abs_tol=1e-6)
    return value == right
