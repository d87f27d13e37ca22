"""``python -m tests.spark.job <side> <master> <signal file> <options as JSON>``: a driver of its own, to be killed.

It overwrites a table with 20,000 rows in four tasks; ``jvm`` writes them by the jar, ``python`` by Python workers. In
the middle of the first task it makes the signal file, with the number of its process, and goes on when that file is
gone. Another attempt of that task does not wait: it makes the file ``<signal file>.again``. With the signal file ""
none does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_connector.jvm.jar import make_jar
from spark_connector.python_source.data_source import PandoDataSource

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 20_000
_LONGEST_SECONDS = 120.0


def main(side: str, master: str, signal: str, options: str) -> None:
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        .config("spark.task.maxFailures", "4")
    )
    if side == "jvm":
        builder = builder.config("spark.jars", str(make_jar()))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if side == "python":
        spark.dataSource.register(PandoDataSource)

    def wait_in_the_middle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if signal and number == 3 and context.partitionId() == 0:
                reach(Path(signal), context.attemptNumber())
            yield batch

    frame = spark.range(0, ROWS, 1, 4).selectExpr("id AS k")
    slow = frame.mapInArrow(wait_in_the_middle, frame.schema)
    slow.write.format("pando").options(**json.loads(options)).mode("overwrite").save()
    spark.stop()


def reach(file: Path, attempt: int) -> None:
    if attempt:
        file.with_name(f"{file.name}.again").touch()
        return
    written = file.with_name(f"{file.name}.new")
    written.write_text(str(os.getpid()))
    written.rename(file)
    deadline = time.monotonic() + _LONGEST_SECONDS
    while file.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
