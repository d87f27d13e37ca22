package pando.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.{DataWriter, PhysicalWriteInfo, WriterCommitMessage}
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}

/**
 * Writes a stream: one transaction a micro-batch, committed once.
 *
 * Spark runs a micro-batch again after a failure or a restart from its checkpoint. It then commits under the name of the
 * query and the batch's number, of which the servers know the last. In the output mode `complete` every batch replaces
 * all rows. `query` is the query's id, or the option `token`.
 */
private final class StreamWrite(target: WriteTarget, overwrite: String, query: String) extends StreamingWrite {

  /** As in a batch: a commit names the attempts. */
  override def useCommitCoordinator(): Boolean = false

  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory =
    StreamWriterFactory(target, query)

  override def commit(epoch: Long, messages: Array[WriterCommitMessage]): Unit = {
    val staged = StagedBlocks.ofMessages(messages)
    if (staged.nonEmpty) {
      val committed = new Transactions(StreamWrite.ofBatch(target, query, epoch)).commit(staged, overwrite)
      committed.tell(target.fullName, staged)
    }
  }

  /** Leaves the staged rows: Spark runs the batch again in the same transaction, without them. */
  override def abort(epoch: Long, messages: Array[WriterCommitMessage]): Unit = ()
}

private object StreamWrite {

  /** Returns the target of one micro-batch: its transaction and its identity have the names of the Python source. */
  def ofBatch(target: WriteTarget, query: String, epoch: Long): WriteTarget = target.copy(
    transaction = s"spark stream $query batch $epoch",
    options = target.options.copy(application = s"spark stream $query", version = epoch))
}

/** Makes the writers of the tasks of micro-batches. */
private final case class StreamWriterFactory(target: WriteTarget, query: String) extends StreamingDataWriterFactory {
  override def createWriter(partition: Int, task: Long, epoch: Long): DataWriter[InternalRow] =
    new BlockWriter(StreamWrite.ofBatch(target, query, epoch), partition)
}
