"""Writes a structured stream: one transaction a micro-batch, committed once.

Spark runs a micro-batch again after a failure or a restart from its checkpoint. It then commits under the query's id
and the batch's number, of which the servers know the last. So what was committed before is not written again, in
whatever order its rows come. In the output mode ``complete`` every batch replaces all rows in one step.
``stream_reader`` reads streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_connector.python_source.batch_writer import (
    StagedBlocks,
    build_overwrite_clause,
    check_target,
    commit_transaction,
    log_commit,
    write_blocks,
)
from spark_connector.python_source.error_lines import without_tracebacks
from spark_connector.shared.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@without_tracebacks
class PandoStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream.

    Spark builds one for the tasks and another for the commits; they share only the query's id and the batch's number.
    """

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        self.target = check_target(options, schema)
        self.overwrite = build_overwrite_clause(options) if overwrite else ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBlocks:
        """Stages the rows of one task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = self.target.options.token or context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query
        assert batch is not None
        written = write_blocks(self.target, _transaction_name(query, int(batch)), context.partitionId(), iterator)
        written.job = query
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits a micro-batch."""
        queries = {message.job for message in messages if isinstance(message, StagedBlocks)}
        for query in queries:
            committed = commit_transaction(
                self.target,
                _transaction_name(query, batchId),
                messages,
                self.overwrite,
                application=f"spark stream {query}",
                version=batchId,
            )
            log_commit(self.target.options, messages, committed)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leaves the staged rows: Spark runs the batch again in the same transaction, without them."""


def _transaction_name(query: str, batch: int) -> str:
    return f"spark stream {query} batch {batch}"
