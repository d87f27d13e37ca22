"""A whole table as a folder of Parquet and back, written and read by the servers. (``batch.py`` made the table.)"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

from pyspark.sql import SparkSession

url = os.environ.get("PANDO_URL", "http://127.0.0.1:8123,http://127.0.0.1:8124")
colony = Path(os.environ.get("PANDO_COLONY", "./colony"))
spark = SparkSession.builder.master("local[2]").getOrCreate()


def pando(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "engine.cli", *words], check=True)


folder = f"exports/visits-{uuid.uuid4().hex}"
pando("export", "--url", url, "default.visits", folder)

# Every other program reads it as it is.
exported = spark.read.parquet(str(colony / "user_files" / folder))
there = spark.read.format("pando").options(url=url, table="visits").load().count()
print("exported:", exported.count() == there)

# And back, as one transaction, into a table that is there.
pando("load", "--url", url, folder, "default.visits", "--overwrite", "table")
print("loaded:", spark.read.format("pando").options(url=url, table="visits").load().count() == there)
