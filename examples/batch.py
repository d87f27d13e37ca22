"""A table for a data frame; writing, reading, SQL."""

import os

from pyspark.sql import SparkSession

from spark_connector import create_table, register

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
spark = SparkSession.builder.master("local[2]").getOrCreate()

# Ten days of visits, a hundred thousand in all.
visits = spark.range(100_000).selectExpr(
    "date_add(DATE'2026-11-01', CAST(id % 10 AS INT)) AS day",
    "id AS user",
    "concat('/page', id % 100) AS page",
)

# On every replica: sorted by day and user, one partition a month.
create_table(visits, url, "default.visits", order_by=["day", "user"], partition_by="toYYYYMM(day)", if_not_exists=True)

# A write is one transaction: all rows are seen at once, or none. The token makes the job one that runs once.
visits.write.format("pando").options(url=url, table="visits", token="first load").mode("append").save()

# A read is one state of the table, however many tasks read it from however many replicas.
table = spark.read.format("pando").options(url=url, table="visits").load()
table.groupBy("day").count().orderBy("day").show(3)

# ClickHouse's SQL on the server: it prunes by the key, aggregates, and only the result comes to Spark.
query = "SELECT page, uniq(user) AS users FROM visits WHERE day = '2026-11-03' GROUP BY page ORDER BY page LIMIT 3"
spark.read.format("pando").options(url=url, query=query).load().show()

# Spark's SQL over every table of the database.
print("views:", register(spark, url))
print("visits:", spark.sql("SELECT count(*) FROM visits").first()[0])
