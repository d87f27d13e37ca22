"""Spark's SQL with catalogs of the servers, and a database of theirs for a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_connector import use_catalog
from tests.spark.conftest import Pando, rows

_numbers = itertools.count(1)


class Session:
    """Spark's SQL with the catalogs ``pando`` (both replicas) and ``alone`` (the first)."""

    def __init__(self, spark: SparkSession, pando: Pando) -> None:
        self.spark = spark
        self.pando = pando
        use_catalog(spark, ",".join(pando.urls.values()))
        use_catalog(spark, pando.urls["r1"], "alone", partitions="2")

    def __call__(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def refuse(self, sql: str, message: str) -> None:
        with pytest.raises(Exception, match=message):
            self(sql)

    def server(self, sql: str, replica: str = "r1") -> list[tuple[object, ...]]:
        return rows(self.pando[replica], sql)

    def new_name(self) -> str:
        return f"c{next(_numbers)}"


@pytest.fixture(scope="module")
def sql(jvm_session: SparkSession, pando: Pando) -> Session:
    return Session(jvm_session, pando)


@pytest.fixture
def database(sql: Session) -> Iterator[str]:
    name = f"db{next(_numbers)}"
    sql(f"CREATE DATABASE pando.{name}")
    yield name
    sql(f"DROP DATABASE IF EXISTS pando.{name} CASCADE")


def quote(name: str) -> str:
    """A name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
