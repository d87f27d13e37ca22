package pando.spark

import java.util.UUID

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The position of a stream: for each partition, the number of the last block that was read. `table` is the identity of
 * the table that the numbers belong to; another table of its name has another.
 *
 * A checkpoint has it as JSON, which the Python source reads and writes too (`python_source/stream_reader.py`).
 */
final case class BlockOffset(table: String, blocks: SortedMap[String, Long]) extends Offset {
  override def json(): String = Json.obj(
    "version" -> BlockOffset.version, "table" -> table, "blocks" -> Json.obj(blocks.toSeq: _*)).toString
}

object BlockOffset {
  private val version = 1

  /** Reads an offset. Raises 36 for one of another version. */
  def parse(text: String): BlockOffset = {
    val document = Json.mapper.readTree(text)
    if (!document.path("version").isInt || document.get("version").asInt() != version) {
      throw PandoException.badArguments(
        s"Format pando: the offset $text is not of version $version; this version of Pando did not write it")
    }
    BlockOffset(document.get("table").asText(), blocksOf(document.get("blocks")))
  }

  /** Returns the numbers of a JSON object. */
  def blocksOf(node: JsonNode): SortedMap[String, Long] =
    SortedMap.from(node.fields().asScala.map(field => field.getKey -> field.getValue.asLong()))
}

/**
 * Reads inserted rows as a stream, block by block, exactly once.
 *
 * Offsets, their rules and what a batch reads are those of the Python source, whose module says them.
 */
final class PandoStream(scan: PandoScan) extends MicroBatchStream with SupportsTriggerAvailableNow {
  private val options = scan.options.stream
  /** The blocks at which a query of Trigger.AvailableNow ends. */
  private var target: Option[JsonNode] = None
  private var available: Option[BlockOffset] = None

  override def initialOffset(): Offset = {
    val answer = ask()
    val (table, dropped) = (answer.get("identity").asText(), BlockOffset.blocksOf(answer.get("dropped")))
    options.starting match {
      case "earliest" => BlockOffset(table, dropped)
      case "latest" => BlockOffset(table, dropped ++ BlockOffset.blocksOf(answer.get("available")))
      case text =>
        val given = Json.mapper.readTree(text)
        if (given.has("blocks")) BlockOffset.parse(text) else BlockOffset(table, dropped ++ BlockOffset.blocksOf(given))
    }
  }

  override def deserializeOffset(json: String): Offset = BlockOffset.parse(json)

  override def getDefaultReadLimit: ReadLimit =
    options.maxRows.map(ReadLimit.maxRows(_): ReadLimit).getOrElse(ReadLimit.allAvailable())

  override def prepareForTriggerAvailableNow(): Unit = target = Some(ask().get("available"))

  override def latestOffset(): Offset = throw new UnsupportedOperationException("a batch has a limit")

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val BlockOffset(table, blocks) = BlockOffset.parse(start.json())
    val most = limit match {
      case rows: ReadMaxRows => Some(rows.maxRows())
      case _ => None
    }
    val answer = ask(
      "start" -> Json.obj("identity" -> table, "blocks" -> Json.obj(blocks.toSeq: _*)),
      "until" -> target,
      "max_rows" -> most)
    val identity = answer.get("identity").asText()
    available = Some(BlockOffset(identity, BlockOffset.blocksOf(answer.get("available"))))
    BlockOffset(identity, BlockOffset.blocksOf(answer.get("end")))
  }

  override def reportLatestOffset(): Offset = available.orNull

  /** Plans the tasks of the batch between two offsets. */
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val (first, last) = (BlockOffset.parse(start.json()), BlockOffset.parse(end.json()))
    val before = if (first.table == last.table) first.blocks else SortedMap[String, Long]()
    val ranges = last.blocks.toSeq.collect {
      case (name, until) if until > before.getOrElse(name, -1L) => name -> Seq(before.getOrElse(name, -1L), until)
    }
    if (ranges.isEmpty) Array()
    else {
      val blocks = Json.obj(
        "identity" -> last.table, "ranges" -> Json.obj(ranges: _*), "may_lack_rows" -> !options.failsOnDataLoss)
      val batch = scan.copy(blocks = Some(blocks.toString))
      val name = UUID.randomUUID().toString.replace("-", "")
      batch.planInputPartitions().map { case slot: SlotPartition => StreamSlot(batch, slot, name) }
    }
  }

  override def createReaderFactory(): PartitionReaderFactory = StreamReaderFactory

  override def commit(end: Offset): Unit = ()

  override def stop(): Unit = ()

  /** Asks the first server that answers and is not too far behind. */
  private def ask(members: (String, Any)*): JsonNode = {
    val body = Json.obj(members ++ Seq(
      "database" -> scan.options.database,
      "table" -> scan.options.table,
      "may_lack_rows" -> !options.failsOnDataLoss,
      "max_delay_seconds" -> scan.options.maxReplicaDelay): _*)
    new Servers(scan.options).ask("/scan/positions", body)
  }
}

/** One task of a batch: a slot of its blocks, read under the name `scanName`. */
final case class StreamSlot(scan: PandoScan, slot: SlotPartition, scanName: String) extends InputPartition

/** Makes the readers of batches. */
case object StreamReaderFactory extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("slots are read in columns")

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] = partition match {
    case StreamSlot(scan, slot, name) => new SlotReader(scan, slot, name)
  }
}
