"""``python -m tests.spark.job <master> <moment> <signal file> <options as JSON>``: a driver of its own, to be killed.

It writes 20,000 rows in four tasks with the format ``pando_slow``, which makes the signal file at ``moment``, with the
number of its process, and then goes on only when that file is gone: ``task`` (the first task, in the middle of its
rows), ``before`` the commit, ``after`` it, or ``never``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage

from spark_connector.python_source.batch_writer import BatchWriter, StagedBlocks
from spark_connector.python_source.data_source import PandoDataSource
from spark_connector.shared.options import parse_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ROWS = 20_000
_LONGEST_SECONDS = 120.0


class SlowWriter(BatchWriter):
    moment = ""
    signal = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBlocks:
        return super().write(self._wait_in_the_middle(iterator))

    def _wait_in_the_middle(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 1 and context.partitionId() == 0 and context.attemptNumber() == 0:
                self._pause("task")
            yield batch

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._pause("before")
        super().commit(messages)
        self._pause("after")

    def _pause(self, moment: str) -> None:
        file = Path(self.signal)
        if moment != self.moment:
            return
        written = file.with_name(f"{file.name}.new")
        written.write_text(str(os.getpid()))
        written.rename(file)
        deadline = time.monotonic() + _LONGEST_SECONDS
        while file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)


class SlowDataSource(PandoDataSource):
    @classmethod
    def name(cls) -> str:
        return "pando_slow"

    def writer(self, schema: StructType, overwrite: bool) -> SlowWriter:
        given = {name.lower(): value for name, value in self.options.items()}
        moment, signal = given.pop("moment"), given.pop("signal")
        writer = SlowWriter(parse_options(given), schema, overwrite)
        writer.moment, writer.signal = moment, signal
        return writer


def main(master: str, moment: str, signal: str, options: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        .config("spark.task.maxFailures", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(SlowDataSource)
    frame = spark.range(0, ROWS, 1, 4).selectExpr("id AS k")
    writing = frame.write.format("pando_slow").options(**json.loads(options), moment=moment, signal=signal)
    writing.mode("overwrite").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
