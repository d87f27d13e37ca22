package pando.spark

import org.apache.spark.sql.connector.expressions.{Expression, NamedReference, SortOrder}
import org.apache.spark.sql.connector.expressions.aggregate.{Aggregation, Avg}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * Collects what Spark's optimizer pushes into one scan, as far as a server says that it computes the same.
 *
 * Spark keeps what is not pushed, and merges the partial answers of slots: aggregates, first rows, limits.
 */
class PandoScanBuilder(options: ReadOptions, fields: StructType)
    extends ScanBuilder
    with SupportsPushDownV2Filters
    with SupportsPushDownRequiredColumns
    with SupportsPushDownAggregates
    with SupportsPushDownLimit
    with SupportsPushDownTopN
    with SupportsPushDownTableSample {

  private val every = HiddenColumns.beside(fields)
  private var conditions: Seq[String] = Seq()
  private var pushed: Array[Predicate] = Array()
  private var required: StructType = fields
  private var averaged: Seq[String] = Seq()
  private var isInSlots = options.hasTaskSize
  private var aggregation: Option[SlotQuery] = None
  private var limit: Option[Int] = None
  private var order: Seq[SortOrder] = Seq()
  private var sample: Option[RowSample] = None

  /** Has the servers draw rows, unless a row may be drawn twice, or the table has columns of the names that tell rows apart. */
  override def pushTableSample(low: Double, high: Double, withReplacement: Boolean, seed: Long): Boolean = {
    val isPushed = !withReplacement && !fields.fieldNames.exists(RowSample.columns)
    if (isPushed) sample = Some(RowSample(low, high, seed))
    isPushed
  }

  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] =
    if (predicates.isEmpty) predicates
    else {
      val found = predicates.zip(Pushing.pushPredicates(options, every, predicates.toSeq))
      conditions = found.flatMap(_._2).map(_.sql).toSeq
      pushed = found.collect { case (predicate, Some(condition)) if condition.isExact => predicate }
      found.collect { case (predicate, condition) if !condition.exists(_.isExact) => predicate }
    }

  override def pushedPredicates(): Array[Predicate] = pushed

  /** Takes columns as a whole, also those of which Spark needs some fields of a struct. */
  override def pruneColumns(schema: StructType): Unit =
    required = StructType(schema.fieldNames.map(name => every(every.fieldIndex(name))))

  /**
   * Has one server aggregate the whole table, unless tasks of a certain size are wanted.
   *
   * The averages are seen here. If it may not, Spark asks again, with their sums and counts, which slots may compute:
   * their quotient could be another number than the average.
   */
  override def supportCompletePushDown(wanted: Aggregation): Boolean = {
    averaged ++= wanted.aggregateExpressions().toSeq.collect { case average: Avg => nameOf(average.column()) }.flatten
    if (!isInSlots) aggregation = Pushing.pushWhole(filtered, every, wanted, SQLConf.get.ansiEnabled)
    isInSlots = aggregation.isEmpty
    aggregation.isDefined
  }

  override def pushAggregation(wanted: Aggregation): Boolean = {
    if (aggregation.isEmpty) {
      aggregation = Pushing.pushAggregation(options, every, wanted, averaged, SQLConf.get.ansiEnabled)
    }
    aggregation.isDefined
  }

  override def pushLimit(rows: Int): Boolean = {
    limit = Some(rows)
    true
  }

  override def pushTopN(orders: Array[SortOrder], rows: Int): Boolean = {
    val isPushed = rows > 0 && aggregation.isEmpty &&
      Pushing.pushTop(filtered, every, orders.toSeq, rows, fields).isDefined
    if (isPushed) {
      order = orders.toSeq
      limit = Some(rows)
    }
    isPushed
  }

  override def isPartiallyPushed: Boolean = true

  override def build(): Scan = makeScan.copy(isSelective = pushed.exists(_.name() != "IS_NOT_NULL"))

  private def makeScan: PandoScan = {
    val read = filtered
    aggregation match {
      case Some(query) =>
        PandoScan(read, query.fields, query.fields, countedColumns(query), query.query, None, whole = query.plan)
      case None if order.nonEmpty =>
        val top = Pushing.pushTop(read, every, order, limit.get, readFields).get
        PandoScan(read, required, top.fields, top.columns, top.query, None, whole = top.plan)
      case None => PandoScan(read, required, readFields, readFields.fieldNames.toSeq, "", limit.filter(_ > 0))
    }
  }

  private def filtered: ReadOptions = options.copy(
    filter = SqlText.and(options.filter +: conditions), sample = sample)

  /** The fields that a server sends: rows are counted by the smallest of them. */
  private def readFields: StructType =
    if (required.nonEmpty) required else StructType(Seq(fields.minBy(_.dataType.defaultSize)))

  private def countedColumns(query: SlotQuery): Seq[String] =
    if (query.columns.nonEmpty) query.columns else Seq(fields.minBy(_.dataType.defaultSize).name)

  private def nameOf(expression: Expression): Option[String] = expression match {
    case reference: NamedReference if reference.fieldNames().length == 1 => Some(reference.fieldNames()(0))
    case _ => None
  }
}
