"""Replacing a part of a table in one step, and a job that runs twice and writes once."""

import os

from pyspark.sql import SparkSession

from spark_connector import create_table

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
spark = SparkSession.builder.master("local[2]").getOrCreate()

prices = spark.range(3_000).selectExpr("CAST(id % 3 AS INT) AS shop", "id AS item", "CAST(id AS DOUBLE) AS price")
create_table(prices, url, "default.prices", order_by=["shop", "item"], partition_by="shop", if_not_exists=True)
options = {"url": url, "table": "prices"}

# The table becomes what the frame is. Whoever reads meanwhile sees the old rows or the new ones, on every replica.
prices.write.format("pando").options(**options).mode("overwrite").save()

# Only the shops that the frame has rows of: 1 gets new prices, 0 and 2 stay.
cheaper = prices.where("shop = 1").selectExpr("shop", "item", "price / 2 AS price")
cheaper.write.format("pando").options(**options, overwriteMode="partitions").mode("overwrite").save()

# A job of a scheduler that may run it again: the same version of an application writes nothing the second time.
more = spark.range(10).selectExpr("2 AS shop", "id + 10000 AS item", "1.0D AS price")
for _ in range(2):
    numbered = more.write.format("pando").options(**options, txnAppId="nightly prices", txnVersion="20261122")
    numbered.mode("append").save()

spark.read.format("pando").options(**options).load().createOrReplaceTempView("prices")
spark.sql("SELECT shop, count(*) AS items, sum(price) AS total FROM prices GROUP BY shop ORDER BY shop").show()
