package pando.spark

import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expression, Expressions, SortDirection, SortOrder}
import org.apache.spark.sql.types.{ArrayType, DataType, DateType, MapType, StructType, TimestampType, VariantType}

/**
 * How a job's rows are divided among its tasks and ordered there, as the table's partitions would have them.
 *
 * Rows of a partition come together in one task, and one after another, so that few parts are made. Servers sort every
 * block by the sorting key, in a fraction of the time that Spark would take. What Spark cannot compute of the partition key
 * is left out. Where Spark knows no functions, `periods` are those by which `WrittenPeriods` divides the rows.
 */
final case class WriteLayout(
    distribution: Distribution, ordering: Array[SortOrder], periods: Seq[PartitionPeriod] = Seq())

/** An item of a partition key: a column, or a function of a date or a timestamp. */
final case class PartitionPeriod(column: String, function: Option[String])

object WriteLayout {
  private val period = """(\w+)\(`?(\w+)`?\)""".r
  private val plain = """`?(\w+)`?""".r

  /** Returns the layout for rows of these columns; `hasFunctions` says that Spark has those of periods from a catalog. */
  def of(facts: TableFacts, schema: StructType, hasFunctions: Boolean): WriteLayout = {
    val keys = SqlText.splitList(facts.partitionKey)
    val partitions = keys.flatMap(toSpark(_, schema, hasFunctions))
    val isDivided = partitions.nonEmpty && (hasFunctions || !keys.exists(period.matches))
    WriteLayout(
      if (isDivided) Distributions.clustered(partitions.toArray) else Distributions.unspecified(),
      partitions.distinct.map(Expressions.sort(_, SortDirection.ASCENDING)).toArray,
      if (isDivided || partitions.isEmpty) Seq() else keys.flatMap(periodOf(_, schema)))
  }

  private def periodOf(item: String, schema: StructType): Option[PartitionPeriod] =
    toSpark(item, schema, hasFunctions = false).map { _ =>
      item match {
        case plain(name) => PartitionPeriod(name, None)
        case period(function, name) => PartitionPeriod(name, Some(function))
      }
    }

  private def toSpark(item: String, schema: StructType, hasFunctions: Boolean): Option[Expression] = item match {
    case plain(name) if typeOf(name, schema).exists(hasOrder) => Some(Expressions.column(SparkText.quoteName(name)))
    case period(function, name) if PeriodFunctions.names(function) && typeOf(name, schema).exists(isTime) =>
      val column = Expressions.column(SparkText.quoteName(name))
      Some(if (hasFunctions) Expressions.apply(PeriodFunctions.prefix + function, column) else column)
    case _ => None
  }

  private def typeOf(name: String, schema: StructType): Option[DataType] =
    schema.fields.find(_.name == name).map(_.dataType)

  private def isTime(type_ : DataType): Boolean = type_ == DateType || type_ == TimestampType

  private def hasOrder(type_ : DataType): Boolean = type_ match {
    case ArrayType(element, _) => hasOrder(element)
    case StructType(fields) => fields.forall(field => hasOrder(field.dataType))
    case _: MapType | _: VariantType => false
    case _ => true
  }
}
