"""A replica is killed; reading and writing go on, and it catches up. (``batch.py`` made the table.)"""

import os

from pyspark.sql import SparkSession

from engine.client.http.client import HttpClient
from engine.cluster.cluster import Cluster

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
colony = Cluster(os.environ.get("PANDO_COLONY", "./colony"))
spark = SparkSession.builder.master("local[2]").getOrCreate()

visits = spark.read.format("pando").options(url=url, table="visits").load()
before = visits.count()

colony.kill("r2")  # SIGKILL
print("without r2:", visits.count() == before)

# The other replica takes the rows; tasks that meet the dead one go to the next of `url`.
visits.limit(1_000).write.format("pando").options(url=url, table="visits").mode("append").save()
print("written:", visits.count() - before)

back = colony.restart("r2")
with HttpClient(port=back.port) as client:
    client.execute("SYSTEM SYNC REPLICA visits")
    print("r2 has caught up:", client.value("SELECT count() FROM visits") == before + 1_000)
