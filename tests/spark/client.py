"""``python -m tests.spark.client <master, or sc://… of Spark Connect> <options as JSON>``: what a job may do."""

from __future__ import annotations

import json
import sys

from pyspark.sql import Row, SparkSession

from spark_connector import configure, create_table, prepare, register


def main(address: str, options: dict[str, str]) -> None:
    builder = SparkSession.builder.config("spark.pando.batch_rows", "1000")
    if address.startswith("sc://"):
        builder = builder.remote(address)
    else:
        builder = builder.master(address).config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.getOrCreate()
    assert configure(spark) == {"batch_rows": "1000"}
    name = options["table"]
    frame = spark.range(0, 20_000, 1, 3).selectExpr("id AS k", "id % 7 AS g")
    create_table(frame, options["url"], f"default.{name}", order_by=["k"])
    frame.write.format("pando").options(**options).mode("append").save()
    read = spark.read.format("pando").options(**options).load()
    assert read.count() == 20_000
    prepare(frame, options["url"], f"default.{name}").write.format("pando").options(**options).mode("overwrite").save()
    assert name in register(spark, options["url"])
    summed = spark.sql(f"SELECT g, count(*) AS c, sum(k) AS s FROM {name} GROUP BY g ORDER BY g").collect()
    own = [range(rest, 20_000, 7) for rest in range(7)]
    assert summed == [Row(g=rest, c=len(keys), s=sum(keys)) for rest, keys in enumerate(own)], summed
    assert read.where("g = 3").count() == len(own[3])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
