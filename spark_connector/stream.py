"""Structured streaming's sink: every micro-batch exactly once. The source is ``stream_source``.

The token is ``<query id>:<batch id>:<partition>:<block>``: a micro-batch that Spark runs again after a failure or a
restart from its checkpoint writes the same blocks, which are there already (as long as they are within the table's
deduplication window).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_connector.options import Options
from spark_connector.writer import WrittenBlocks, check_target, close_job, refused_attempt, report, write_blocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class PandoStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options, schema: StructType) -> None:
        self.target = check_target(options, schema, truncate=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenBlocks:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if not self.target.deduplicates:
            raise refused_attempt(self.target.options)
        query = self.target.options.token or context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query
        assert batch is not None
        return write_blocks(self.target, f"{query}:{batch}", context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for job in {message.job for message in messages if isinstance(message, WrittenBlocks)}:
            close_job(self.target, job, messages)
        report(self.target.options, f"batch {batchId}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark runs the batch again; the blocks that are there already are not written twice."""
