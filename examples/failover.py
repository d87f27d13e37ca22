"""A replica is killed; reading and writing go on, and it catches up."""

import os

from pyspark.sql import SparkSession

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from spark_connector import create_table

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
colony = Cluster(os.environ.get("PANDO_COLONY", "./colony"))
spark = SparkSession.builder.master("local[2]").getOrCreate()

new = spark.range(1_000).selectExpr("id", "CAST(id % 10 AS INT) AS shop")
create_table(new, url, "default.orders", order_by="id", if_not_exists=True)
new.write.format("pando").options(url=url, table="orders").mode("append").save()
orders = spark.read.format("pando").options(url=url, table="orders").load()
before = orders.count()

colony.kill("r2")  # SIGKILL
print("without r2:", orders.count() == before)

# The other replica takes the rows; tasks that meet the dead one go to the next of `url`.
new.write.format("pando").options(url=url, table="orders").mode("append").save()
print("written:", orders.count() - before)

back = colony.restart("r2")
with HttpClient(port=back.port) as client:
    client.execute("SYSTEM SYNC REPLICA orders")
    print("r2 has caught up:", client.value("SELECT count() FROM orders") == before + 1_000)
