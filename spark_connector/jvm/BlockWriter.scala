package pando.spark

import java.util.UUID
import java.util.concurrent.{Callable, ExecutionException, Executors, Future}

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage

/** The rows that one attempt of a task staged. */
final case class StagedBlocks(attempt: String, rows: Long, blocks: Int) {

  /**
   * Returns the message to the driver.
   *
   * It is a class of Spark's own: the driver does not know those of a jar that was added where it reads messages.
   */
  def toMessage: WriterCommitMessage = PythonWriterCommitMessage(
    Json.mapper.writeValueAsBytes(Json.obj("attempt" -> attempt, "rows" -> rows, "blocks" -> blocks)))
}

object StagedBlocks {

  /** Returns what the tasks that Spark took have staged. */
  def ofMessages(messages: Array[WriterCommitMessage]): Seq[StagedBlocks] = messages.toSeq.collect {
    case PythonWriterCommitMessage(bytes) =>
      val node = Json.mapper.readTree(bytes)
      StagedBlocks(node.get("attempt").asText(), node.get("rows").asLong(), node.get("blocks").asInt())
  }
}

/** Makes the writers of a job's tasks. */
final case class BlockWriterFactory(target: WriteTarget) extends DataWriterFactory {
  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] = new BlockWriter(target, partition)
}

/**
 * Stages the rows of one attempt of a task in blocks. The next block is gathered while one is sent: two are in memory.
 *
 * A block of more partitions than a server takes is sent in halves, which have fewer if rows are in their order.
 */
private final class BlockWriter(target: WriteTarget, task: Int) extends DataWriter[InternalRow] {
  private val leastRows = 1000
  private val attempt = s"$task:${UUID.randomUUID().toString.replace("-", "").take(12)}"
  private val transactions = new Transactions(target)
  private val checks = ValueChecks.ofColumns(target.fields, target.types, target.options.allowsNull)
  private val compression = target.options.servers.compression
  private val gathering =
    new BlockBuilder(target.fields, compression, target.options.batchRows, target.options.batchBytes)
  private val sender = Executors.newSingleThreadExecutor { step =>
    val thread = new Thread(step, "pando-write")
    thread.setDaemon(true)
    thread
  }
  private var sending: Option[Future[Int]] = None
  private var staged = StagedBlocks(attempt, 0, 0)
  /** Whether the transaction was committed already, so that no more is sent. */
  private var isDone = false

  override def write(row: InternalRow): Unit = told {
    if (!isDone) {
      var place = 0
      while (place < checks.length) {
        val (column, check) = checks(place)
        check(row, column)
        place += 1
      }
      if (gathering.add(row)) send()
    }
  }

  override def commit(): WriterCommitMessage = told {
    send()
    await()
    staged.toMessage
  }

  /** What was staged belongs to an attempt that is not committed: the servers drop it with the transaction. */
  override def abort(): Unit = sender.shutdownNow()

  override def close(): Unit = {
    sender.shutdownNow()
    gathering.close()
  }

  private def send(): Unit = gathering.take().foreach { block =>
    await()
    val number = staged.blocks
    if (!isDone) sending = Some(sender.submit((() => stage(number.toString, block)): Callable[Int]))
  }

  /** Waits for the block that is sent. */
  private def await(): Unit = sending.foreach { future =>
    sending = None
    try staged = staged.copy(rows = staged.rows + future.get(), blocks = staged.blocks + 1)
    catch {
      case failed: ExecutionException => failed.getCause match {
        case error: PandoException if Transactions.wasCommitted(error) => isDone = true
        case error => throw error
      }
    }
  }

  private def stage(token: String, block: EncodedBlock): Int = {
    try transactions.stage(attempt, token, block)
    catch {
      case error: PandoException if Transactions.hasTooManyPartitions(error) && block.rows >= leastRows =>
        BlockBuilder.halve(block, compression).zipWithIndex.foreach { case (half, number) =>
          stage(s"$token.$number", half)
        }
    }
    block.rows
  }

  /** Runs a step; its error becomes one that the driver knows, which begins with the message of Pando. */
  private def told[Result](step: => Result): Result =
    try step
    catch {
      case error: PandoException => throw new SparkException(error.getMessage)
    }
}
