package pando.spark

import org.apache.spark.sql.connector.expressions.{Expressions, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, RowLevelOperation, WriteBuilder}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * UPDATE, MERGE, or a DELETE that the servers do not carry out: Spark reads the partitions that have rows to change, and
 * writes all of their rows anew.
 *
 * The commit replaces the partitions only if they are still as they were read. For a MERGE nothing else in the table may
 * have changed either: a row that came meanwhile may be one that a row of the source would have matched.
 */
final class RowLevelChange(
    override val command: RowLevelOperation.Command,
    options: ReadOptions,
    facts: TableFacts,
    write: (LogicalWriteInfo, WriteTarget => Replacement) => WriteBuilder,
    begins: String => Unit)
    extends RowLevelOperation {
  private var scan: Option[PartitionsScan] = None

  /** Spark looks first which partitions have rows to change, if it is offered their column. */
  override def requiredMetadataAttributes(): Array[NamedReference] = Array(Expressions.column(RowLevelChange.partition))

  override def newScanBuilder(added: CaseInsensitiveStringMap): ScanBuilder = {
    Rewriting.refuseBySpark(facts, command.toString, options).foreach(throw _)
    new PartitionsScanBuilder(options, facts.fields, { made =>
      scan = Some(made)
      begins(made.name)
    })
  }

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    write(info, _ => new ReplacedPartitions(command, () => scan))
}

object RowLevelChange {
  /** The column that names a row's partition. */
  val partition = "_partition_id"
}

/** The partitions that a statement has read lose their rows. */
private final class ReplacedPartitions(command: RowLevelOperation.Command, read: () => Option[PartitionsScan])
    extends Replacement {
  override def description: String = command.toString

  override def commit(transactions: Transactions, staged: Seq[StagedBlocks]): Committed =
    transactions.commit(staged, read().map(clauseOf).getOrElse(""))

  private def clauseOf(scan: PartitionsScan): String = {
    val ofTable = s"UNCHANGED SINCE SCAN ${SqlText.quoteText(scan.name)} IN TABLE"
    val replacing = if (scan.partitions.isEmpty) "" else BegunScan.replacing(scan.partitions, scan.name)
    if (command != RowLevelOperation.Command.MERGE) replacing
    else if (replacing.isEmpty) ofTable
    else s"$replacing IN TABLE"
  }
}

/** Plans to read the partitions that have rows for which the pushed conditions may hold, as a whole. */
private final class PartitionsScanBuilder(options: ReadOptions, fields: StructType, made: PartitionsScan => Unit)
    extends ScanBuilder
    with SupportsPushDownV2Filters
    with SupportsPushDownRequiredColumns {
  private val every = HiddenColumns.beside(fields)
  private var conditions: Seq[String] = Seq()
  private var required = every

  /** Takes none of them for the rows. */
  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    if (predicates.nonEmpty) {
      conditions = Pushing.pushPredicates(options, every, predicates.toSeq).flatten.map(_.sql)
    }
    predicates
  }

  override def pushedPredicates(): Array[Predicate] = Array()

  override def pruneColumns(schema: StructType): Unit =
    required = StructType(schema.fieldNames.map(name => every(every.fieldIndex(name))))

  override def build(): Scan = {
    val names = required.fieldNames.toSeq
    val scan = BegunScan.on(options, fields.fieldNames.toSeq) { begun =>
      new PartitionsScan(
        PandoScan(options, required, required, names, "", None), begun.name, begun.partitionsWhere(SqlText.and(conditions)))
    }
    made(scan)
    scan
  }
}

/** Reads whole partitions, of the state in which the scan of this name began. */
private final class PartitionsScan(whole: PandoScan, val name: String, first: Seq[String])
    extends Scan
    with Batch
    with SupportsReportStatistics
    with SupportsRuntimeV2Filtering {
  /** The partitions to read, and to replace. */
  @volatile var partitions: Seq[String] = first

  private def scan: PandoScan = whole.where(BegunScan.inPartitions(partitions))

  override def readSchema(): StructType = whole.readSchema()

  override def toBatch: Batch = this

  override def columnarSupportMode(): Scan.ColumnarSupportMode = whole.columnarSupportMode()

  override def description(): String = s"${whole.description()}, whole partitions: ${partitions.mkString(" ")}"

  override def estimateStatistics(): Statistics = scan.estimateStatistics()

  override def planInputPartitions(): Array[InputPartition] =
    if (partitions.isEmpty) Array() else scan.planInputPartitions()

  override def createReaderFactory(): PartitionReaderFactory = BegunScanReaderFactory(whole, name)

  override def filterAttributes(): Array[NamedReference] = Array(Expressions.column(RowLevelChange.partition))

  /** Leaves out the partitions in which Spark found nothing to change. */
  override def filter(predicates: Array[Predicate]): Unit = predicates.foreach { predicate =>
    predicate.children().toSeq match {
      case (column: NamedReference) +: values
          if predicate.name() == "IN" && column.fieldNames().toSeq == Seq(RowLevelChange.partition) =>
        val found = values.collect { case literal: Literal[_] => literal.value().toString }.toSet
        partitions = partitions.filter(found)
      case _ =>
    }
  }
}
