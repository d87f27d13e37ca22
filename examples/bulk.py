"""A whole table as a folder of Parquet and back, written and read by the servers."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connector import create_table

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
colony = Path(os.environ.get("PANDO_COLONY", "./colony"))
spark = SparkSession.builder.master("local[2]").getOrCreate()


def pando(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "engine.cli", *words], check=True)


readings = spark.range(100_000).selectExpr("CAST(id % 100 AS INT) AS sensor", "id", "id / 7 AS value")
create_table(readings, url, "default.readings", order_by=["sensor", "id"], if_not_exists=True)
readings.write.format("pando").options(url=url, table="readings", token="first load").mode("append").save()

folder = f"exports/readings-{uuid.uuid4().hex}"
pando("export", "--url", url, "default.readings", folder)

# Every other program reads it as it is.
exported = spark.read.parquet(str(colony / "user_files" / folder))
there = spark.read.format("pando").options(url=url, table="readings").load().count()
print("exported:", exported.count() == there)

# And back, as one transaction, into a table that is there.
pando("load", "--url", url, folder, "default.readings", "--overwrite", "table")
print("loaded:", spark.read.format("pando").options(url=url, table="readings").load().count() == there)
