"""A stream from one table to another: every row once, whatever is restarted."""

import os
import tempfile

from pyspark.sql import SparkSession

from spark_connector import create_table

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
spark = SparkSession.builder.master("local[2]").getOrCreate()

# A table to be read as a stream keeps, of every row, the number of the block that it came in.
events = spark.range(1_000).selectExpr("id", "id % 5 AS kind")
keeps_blocks = {"enable_block_number_column": 1}
create_table(events, url, "default.events", order_by="id", settings=keeps_blocks, if_not_exists=True)
create_table(events, url, "default.of_kind_3", order_by="id", if_not_exists=True)
for table in ("events", "of_kind_3"):
    events.limit(0).write.format("pando").options(url=url, table=table).mode("overwrite").save()

checkpoint = tempfile.mkdtemp()


def run() -> None:
    """What is new since the last run; without availableNow the query would go on and on."""
    new = spark.readStream.format("pando").options(url=url, table="events").load()
    writing = new.where("kind = 3").writeStream.format("pando").options(url=url, table="of_kind_3")
    writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


for turn in range(1, 3):
    events.write.format("pando").options(url=url, table="events").mode("append").save()
    run()
    copied = spark.read.format("pando").options(url=url, table="of_kind_3").load().count()
    print(f"after run {turn}: {copied} rows")
