package pando.spark

import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.channels.ReadableByteChannel

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.arrow.memory.RootAllocator
import org.apache.arrow.vector.ipc.ArrowStreamReader
import org.apache.spark.{SparkException, TaskContext, TaskKilledException}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Makes the readers of a scan's slots; `owner` names the driver, or the scans that share a state. */
final case class SlotReaderFactory(scan: PandoScan, owner: String) extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("slots are read in columns")

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    partition match {
      case keyed: KeyedSlot => new SlotReader(scan, keyed.slot, stateName)
      case slot: SlotPartition => new SlotReader(scan, slot, stateName)
    }

  /** The name of the plan's state, or the execution's. Jobs of RDDs have no number; there each stage reads for itself. */
  private def stateName: String = {
    val own = ReadState.running.getOrElse(s"stage ${TaskContext.get().stageId()}")
    s"$owner ${scan.state.map(_.name).getOrElse(own)}"
  }
}

/**
 * Reads one slot, batch by batch, from a replica that has the state which the execution reads.
 *
 * Equal states give equal rows in equal order. So a read that breaks off goes on behind the last row that was given,
 * perhaps at another replica. Computed rows have no such order: they are given when they have all arrived.
 */
private final class SlotReader(planned: PandoScan, slot: SlotPartition, execution: String)
    extends PartitionReader[ColumnarBatch] {
  private val scan = planned.where(slot.filter)
  private val options = scan.options.copy(urls = slot.shard.map(_.urls).getOrElse(scan.options.urls))
  private val servers = new Servers(options)
  private val urls = rotate(options.urls, place(execution + slot.partition.mkString) + slot.number)
  private val isComputed = scan.query.nonEmpty
  private val allocator = new RootAllocator(Long.MaxValue)
  private var turn = 0
  private var handedOut = 0L
  private var receivedBefore = 0L
  private var waitedNanoseconds = 0L
  private var failures: Seq[PandoException] = Seq()
  private var stream: Option[BatchStream] = None
  private var batch: ColumnarBatch = _

  override def next(): Boolean = {
    val asked = System.nanoTime()
    try readNext() finally waitedNanoseconds += System.nanoTime() - asked
  }

  private def readNext(): Boolean = {
    while (!scan.limit.exists(_ <= handedOut)) {
      try {
        val reading = stream.getOrElse {
          val opened = open(urls(turn % urls.size))
          stream = Some(opened)
          opened
        }
        return reading.next() match {
          case Some(found) =>
            batch = found
            handedOut += found.numRows()
            failures = Seq()
            true
          case None => false
        }
      } catch {
        case error: PandoException =>
          closeStream()
          failures = failures :+ error
          turn += 1
          if (!mayRetry) throw finalError
      }
    }
    false
  }

  override def get(): ColumnarBatch = batch

  override def currentMetricsValues(): Array[CustomTaskMetric] = Array(
    ScanMetrics.measured(ScanMetrics.receivedBytes, receivedBefore + stream.map(_.received).getOrElse(0L)),
    ScanMetrics.measured(ScanMetrics.waitingMilliseconds, waitedNanoseconds / 1000000))

  override def close(): Unit = {
    closeStream()
    allocator.close()
  }

  private def closeStream(): Unit = {
    stream.foreach { reading =>
      receivedBefore += reading.received
      reading.close()
    }
    stream = None
  }

  private def open(url: String): BatchStream = {
    val answer = servers.open(url, "/scan/read", request, if (isComputed) options.timeout else options.stallTimeout)
    new BatchStream(answer, allocator, isComputed, scan.output.map(_.dataType))
  }

  private def request: ObjectNode = {
    val body = scan.whatToRead(slot.shard)
    body.setAll[ObjectNode](Json.obj(
      "scan" -> execution,
      "slot" -> slot.number,
      "slots" -> slot.slots,
      "partition" -> slot.partition,
      "is_repeated" -> scan.state.flatMap(_.execution).exists(begun => !ReadState.running.contains(begun)),
      "behind" -> handedOut,
      "is_alone" -> (options.urls.size == 1),
      "lease_seconds" -> options.leaseSeconds,
      "sequential_consistency" -> options.sequentialConsistency,
      "max_delay_seconds" -> options.maxReplicaDelay,
      "compression" -> options.compression,
      "nanoseconds" -> options.nanoseconds,
      "spark_fields" -> Pushing.fieldsOf(scan.sent),
      "is_compact" -> true,
      "is_whole" -> scan.whole.isDefined,
      "limit" -> scan.limit.map(_ - handedOut)))
    body
  }

  /** Another server may have the parts unbroken; a broken connection may recover, a server may catch up. */
  private def mayRetry: Boolean = {
    if (failures.size < urls.size) failures.last.failure != Failure.Answered
    else if (failures.size > options.retries + urls.size) false
    else if (!failures.takeRight(urls.size).exists(error => error.failure == Failure.MayHeal || error.code == 289)) {
      false
    } else {
      Thread.sleep(math.min(5000L, 200L << math.min(10, failures.size - urls.size)))
      true
    }
  }

  /**
   * The first failure of the last round, or rather that the parts are gone.
   *
   * It is a class of Spark's own: the driver does not know those of a jar that was added where it reads it.
   */
  private def finalError: SparkException = {
    val gone = 232
    val tried = failures.takeRight(urls.size)
    val first = tried.find(_.code == gone).getOrElse(tried.head)
    if (first.code != gone && tried.size == 1) new SparkException(first.getMessage)
    else {
      val reasons = tried.map(_.getMessage).mkString("; ")
      val text =
        if (first.code != gone) s"Task ${slot.number} cannot be read on any server: $reasons"
        else s"The state of ${options.fullName} that this query began with is gone: its parts were merged or dropped " +
          "since. Run the query again. If it pauses for long between two reads of the table, a larger option " +
          s"'lease_seconds' (now ${options.leaseSeconds}) has the servers hold the parts. $reasons"
      new SparkException(text)
    }
  }

  private def place(name: String): Int = name.getBytes("UTF-8").map(_ & 0xff).sum

  /** Rotates the servers, so that tasks spread over the replicas. */
  private def rotate(servers: Seq[String], start: Int): Seq[String] = {
    val (before, after) = servers.splitAt(start % servers.size)
    after ++ before
  }
}

/** A stream that is read in long pieces; the channel of Java's library asks for 8 KB at a time. */
private final class BatchChannel(input: InputStream) extends ReadableByteChannel {
  private val piece = new Array[Byte](256 << 10)
  private var isOpened = true

  override def read(target: ByteBuffer): Int = {
    val count = input.read(piece, 0, math.min(target.remaining(), piece.length))
    if (count > 0) target.put(piece, 0, count)
    count
  }

  override def isOpen: Boolean = isOpened
  override def close(): Unit = isOpened = false
}

/** The batches of one answer, in columns of these types. It is there as a whole before the first if `isComputed`. */
private final class BatchStream(answer: Answer, allocator: RootAllocator, isComputed: Boolean, types: Seq[DataType]) {
  private val spool = if (isComputed) Some(readWhole()) else None
  private val input = spool.map(_.input()).getOrElse(answer.input)
  private val reader = new ArrowStreamReader(new BatchChannel(input), allocator, Compression.factory)
  /** New for each batch: Spark closes the vectors of the one before. */
  private def columns: Array[ColumnVector] =
    reader.getVectorSchemaRoot.getFieldVectors.asScala.zip(types).map { case (vector, type_) =>
      CompactColumns.open(vector, type_, reader)
    }.toArray

  def received: Long = answer.received

  /** Returns the next batch with rows; it is valid until the next call. */
  def next(): Option[ColumnarBatch] = {
    while (loadBatch()) {
      if (TaskContext.get().isInterrupted()) throw new TaskKilledException("the query was cancelled")
      val rows = reader.getVectorSchemaRoot.getRowCount
      if (rows > 0) return Some(new ColumnarBatch(answer.guard(columns), rows))
    }
    if (!isComputed) answer.finish()
    None
  }

  private def loadBatch(): Boolean = {
    if (!isComputed) answer.check()
    answer.guard(reader.loadNextBatch())
  }

  private def readWhole(): Spool = {
    val kept = new Spool
    try answer.readWhole(kept)
    catch {
      case error: Throwable =>
        kept.remove()
        throw error
    } finally answer.close()
    kept
  }

  def close(): Unit = {
    reader.close(false)
    if (spool.isDefined) input.close()
    spool.foreach(_.remove())
    answer.close()
  }
}
