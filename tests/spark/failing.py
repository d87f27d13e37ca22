"""A data source whose first attempt of every task fails after its rows were written, as a lost executor would."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from spark_connector.python_source.batch_writer import BatchWriter, StagedBlocks
from spark_connector.python_source.data_source import PandoDataSource
from spark_connector.shared.options import parse_options


class FailingWriter(BatchWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBlocks:
        written = super().write(iterator)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("lost after the insert")
        return written


class FailingDataSource(PandoDataSource):
    @classmethod
    def name(cls) -> str:
        return "pando_failing"

    def writer(self, schema: StructType, overwrite: bool) -> FailingWriter:
        return FailingWriter(parse_options(self.options), schema, overwrite)
