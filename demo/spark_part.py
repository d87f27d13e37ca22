"""The Spark half of the demo: an aggregation over a Pando table, and a write into another."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession, functions

from spark_connector import configure


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A quiet local Spark on loopback."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pando-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def carriers(session: SparkSession, url: str) -> DataFrame:
    """Flights and miles of every carrier: the servers aggregate parts of the table, Spark merges."""
    configure(session)
    flights = session.read.format("pando").option("url", url).option("table", "default.flights").load()
    return (
        flights.groupBy("carrier")
        .agg(functions.count("*").alias("flights"), functions.sum("distance").alias("miles"))
        .orderBy("carrier")
    )


def write_carriers(frame: DataFrame, url: str) -> None:
    frame.write.format("pando").mode("append").option("url", url).option("table", "default.carriers").save()
