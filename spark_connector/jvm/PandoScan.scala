package pando.spark

import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.types._

/**
 * One task: slot `number` of `slots`, of the shard on these servers or of the table itself.
 *
 * The slots are those of the rows for which `filter` holds, perhaps of one partition: with another one the same number
 * has other rows.
 */
final case class SlotPartition(
    number: Int, slots: Int, shard: Option[Shard], filter: String, partition: Option[String] = None)
    extends InputPartition

/** A table that has some of the rows, and its servers; `number` counts the shards from 0. */
final case class Shard(number: Int, urls: Seq[String], database: String, table: String)

/**
 * A scan of a table, planned when Spark first asks for its size or its tasks.
 *
 * Two scans are equal if they read the same; Spark then reads once where a query uses both. `output` are Spark's
 * columns, `sent` those that a server sends, `columns` those that it reads, and `query` what it computes of them.
 * `blocks` are those of a stream's batch, as JSON. A scan with a `whole` plan has one task, whose server computes the
 * query over the whole table. `isSelective` tells that Spark pushed a condition by which few rows may be left. `slots`
 * are its tasks if they are divided by keys, and `state` is what it reads, if that is not the running execution's.
 */
final case class PandoScan(
    options: ReadOptions,
    output: StructType,
    sent: StructType,
    columns: Seq[String],
    query: String,
    limit: Option[Int],
    blocks: Option[String] = None,
    whole: Option[Plan] = None,
    isSelective: Boolean = false,
    slots: Seq[KeyedSlot] = Seq(),
    state: Option[ReadState] = None)
    extends Scan
    with Batch
    with SupportsReportStatistics
    with SupportsRuntimeV2Filtering {

  @transient private var planned: Option[Plan] = whole
  /** What is read with what Spark learned of a join's other side before it ran this scan; it only saves rows. */
  @transient private var narrowed: Option[Plan] = None

  /** What the servers plan, asked once. */
  def plan: Plan = synchronized {
    if (planned.isEmpty) planned = Some(Plan.make(this))
    planned.get
  }

  /** Returns the scan in these slots, of this state. */
  def divided(slots: Seq[KeyedSlot], state: Option[ReadState]): PandoScan = planAgain(copy(slots = slots, state = state))

  /** Returns the scan that reads this state. */
  def in(state: ReadState): PandoScan = planAgain(copy(state = Some(state)))

  /** Tells whether its rows, as they are stored, may be divided by keys. */
  def mayBeDivided: Boolean =
    query.isEmpty && limit.isEmpty && blocks.isEmpty && slots.isEmpty && options.partitions.isEmpty

  private def planAgain(scan: PandoScan): PandoScan = {
    scan.planned = planned
    scan
  }

  override def readSchema(): StructType = output

  override def toBatch: Batch = this

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream = new PandoStream(this)

  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.SUPPORTED

  override def description(): String = {
    val parts = Seq(
      "filter" -> options.filter.trim, "sample" -> options.sample.mkString, "query" -> query, "limit" -> limit.mkString)
    (s"pando ${options.fullName}" +: parts.collect { case (name, text) if text.nonEmpty => s"$name: $text" })
      .mkString(", ").replace("\n", "")
  }

  override def estimateStatistics(): Statistics = new ScanStatistics(this)

  override def planInputPartitions(): Array[InputPartition] = planOfRun.partitions.toArray

  private def planOfRun: Plan = narrowed.getOrElse(if (slots.isEmpty) plan else plan.copy(partitions = slots))

  /** Returns the scan of all rows for which a condition in SQL holds. */
  def where(condition: String): PandoScan = copy(options = options.copy(filter = condition, sample = None))

  /** The columns by whose values a join may narrow the scan; computed rows have other columns. */
  override def filterAttributes(): Array[NamedReference] =
    if (query.nonEmpty || limit.nonEmpty || blocks.nonEmpty) Array()
    else output.fields.filter(field => PandoScan.hasValues(field.dataType))
      .map(field => Expressions.column(SparkText.quoteName(field.name)))

  override def filter(predicates: Array[Predicate]): Unit = {
    val short = predicates.filter(_.children().length <= PandoScan.mostValues).toSeq
    val found = if (short.isEmpty) Seq() else Pushing.pushPredicates(options, output, short).flatten.map(_.sql)
    narrowed =
      if (found.isEmpty) None
      else if (slots.isEmpty) {
        Some(Plan.make(copy(options = options.copy(filter = SqlText.and(options.filter +: found)))))
      }
      else Some(plan.copy(partitions = slots.map(_.where(SqlText.and(found)))))  // Spark demands the same keys
  }

  /** The name that the states of its executions begin with. */
  def stateOwner: String = if (options.scanName.isEmpty) PandoScan.driverName() else options.scanName

  override def createReaderFactory(): PartitionReaderFactory = SlotReaderFactory(copy(slots = Seq()), stateOwner)

  override def supportedCustomMetrics(): Array[CustomMetric] = ScanMetrics.all

  override def reportDriverMetrics(): Array[CustomTaskMetric] = Array(
    ScanMetrics.measured(ScanMetrics.readGranules, planOfRun.granules),
    ScanMetrics.measured(ScanMetrics.prunedGranules, planOfRun.prunedGranules))

  /** The part of a request that says which rows are read. */
  def whatToRead(shard: Option[Shard]): ObjectNode = Json.obj(
    "database" -> shard.map(_.database).getOrElse(options.database),
    "table" -> shard.map(_.table).getOrElse(options.table),
    "columns" -> columns,
    "query" -> query,
    "filter" -> options.condition(shard.map(_.number).getOrElse(0)),
    "blocks" -> blocks.map(Json.mapper.readTree(_)),
    "max_rows_per_task" -> options.maxRowsPerTask,
    "max_bytes_per_task" -> options.maxBytesPerTask)
}

object PandoScan {
  /** Values of a join's other side that are sent to the servers; of more it is left to Spark. */
  private val mostValues = 20000

  private def hasValues(type_ : DataType): Boolean = type_ match {
    case ByteType | ShortType | IntegerType | LongType | _: DecimalType | DateType | StringType => true
    case _ => false
  }

  private val name = UUID.randomUUID().toString

  /** The name of this driver. With the number of an execution it names the state that all of its scans read. */
  def driverName(): String = s"$name ${SparkSession.active.sparkContext.applicationId}"
}

/**
 * The tasks of a scan, how much they read, and the keys by which the table's rows are divided. For the cost-based
 * optimizer, `share` of the rows is what the condition leaves.
 */
final case class Plan(
    partitions: Seq[InputPartition],
    rows: Long,
    bytes: Long,
    granules: Long,
    prunedGranules: Long,
    keys: Seq[ScanKey],
    share: Option[Double] = None,
    columns: Map[String, ColumnFacts] = Map())

object Plan {

  /** Returns the slots that a server plans for the table as it is now. Slots of shards are interleaved. */
  def make(scan: PandoScan): Plan = {
    val answer = ask(scan, None, scan.options.partitions)
    if (!answer.has("shards")) whole(answer, None, scan.options.condition())
    else {
      val found = answer.get("shards").elements().asScala.toSeq.zipWithIndex.map { case (shard, number) =>
        Shard(
          number,
          shard.get("urls").elements().asScala.map(_.asText()).toSeq,
          shard.get("database").asText(),
          shard.get("table").asText())
      }
      val least = scan.options.partitions.map(count => (count + found.size - 1) / found.size)
      val plans = found.map(shard => whole(ask(scan, Some(shard), least), Some(shard), scan.options.condition(shard.number)))
      val longest = plans.map(_.partitions.size).maxOption.getOrElse(0)
      val slots = (0 until longest).flatMap(turn => plans.flatMap(_.partitions.lift(turn)))
      Plan(slots, plans.map(_.rows).sum, plans.map(_.bytes).sum, plans.map(_.granules).sum,
        plans.map(_.prunedGranules).sum, keys = if (scan.options.isShardingTrusted) ScanKey.listOf(answer) else Seq())
    }
  }

  private def ask(scan: PandoScan, shard: Option[Shard], partitions: Option[Long]): JsonNode = {
    val body = scan.whatToRead(shard)
    partitions.foreach(count => body.put("partitions", count))
    if (ColumnFacts.isWanted) body.put("with_statistics", true)
    new Servers(scan.options.copy(urls = shard.map(_.urls).getOrElse(scan.options.urls))).ask("/scan/plan", body)
  }

  /** Returns the plan of a table, or of one of its shards. */
  def whole(answer: JsonNode, shard: Option[Shard], filter: String): Plan = {
    if (!answer.has("slots")) {
      throw new PandoException(48, "Code: 48. DB::Exception: A shard is in shards itself; read its shards by the " +
        "option 'query' (NOT_IMPLEMENTED)")
    }
    val slots = answer.get("slots").asInt()
    Plan(
      (0 until slots).map(number => SlotPartition(number, slots, shard, filter)),
      answer.get("rows").asLong(),
      answer.get("bytes").asLong(),
      answer.path("granules").asLong(),
      answer.path("pruned_granules").asLong(),
      ScanKey.listOf(answer),
      Option(answer.get("share")).map(_.asDouble()),
      ColumnFacts.mapOf(answer))
  }
}
