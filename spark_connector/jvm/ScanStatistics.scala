package pando.spark

import java.util
import java.util.{Optional, OptionalLong}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.read.Statistics
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * How much a scan reads: what a limit or a query of the servers leaves of it is not more.
 *
 * Where Spark's cost-based optimizer is on, the plan also has the share of the rows that the condition and the sample
 * leave, and what the columns hold.
 */
final class ScanStatistics(scan: PandoScan) extends Statistics {
  private def isOfRows = scan.query.isEmpty && scan.limit.isEmpty

  override def sizeInBytes(): OptionalLong = OptionalLong.of(math.round(scan.plan.bytes * sampled))

  override def numRows(): OptionalLong = if (isOfRows) OptionalLong.of(rows) else OptionalLong.empty()

  override def columnStats(): util.Map[NamedReference, ColumnStatistics] =
    if (!isOfRows) util.Map.of()
    else scan.output.fields.flatMap { field =>
      val column: NamedReference = Expressions.column(SparkText.quoteName(field.name))
      scan.plan.columns.get(field.name).map(found => column -> found.of(field.dataType, rows))
    }.toMap.asJava

  /** The servers know the share of the condition and of the sample if they were asked. */
  private def rows: Long = math.round(scan.plan.rows * scan.plan.share.getOrElse(sampled))

  private def sampled: Double = scan.options.sample.map(_.share).getOrElse(1)
}

/** What a column holds; texts have no `least` and `greatest`. */
final case class ColumnFacts(distinct: Long, nulls: Long, least: Option[String], greatest: Option[String]) {

  /** Returns the statistics of the column as it is read, of so many rows. */
  def of(type_ : DataType, rows: Long): ColumnStatistics = new ColumnStatistics {
    override def distinctCount(): OptionalLong = OptionalLong.of(math.min(distinct, rows))
    override def nullCount(): OptionalLong = OptionalLong.of(math.min(nulls, rows))
    override def min(): Optional[AnyRef] = read(least)
    override def max(): Optional[AnyRef] = read(greatest)

    private def read(text: Option[String]): Optional[AnyRef] =
      text.map(ColumnFacts.valueOf(_, type_)).map(Optional.of[AnyRef]).getOrElse(Optional.empty[AnyRef])
  }
}

object ColumnFacts {

  /** Whether Spark estimates by costs, and servers are asked for this. */
  def isWanted: Boolean = SQLConf.get.cboEnabled

  /** Returns those of a plan's answer. */
  def mapOf(answer: JsonNode): Map[String, ColumnFacts] =
    answer.path("statistics").properties().asScala.map { entry =>
      val found = entry.getValue
      entry.getKey -> ColumnFacts(
        found.get("distinct").asLong(), found.get("nulls").asLong(), textOf(found, "min"), textOf(found, "max"))
    }.toMap

  private def textOf(found: JsonNode, name: String): Option[String] = Option(found.get(name)).map(_.asText())

  private def valueOf(text: String, type_ : DataType): AnyRef = type_ match {
    case ByteType => java.lang.Byte.valueOf(text)
    case ShortType => java.lang.Short.valueOf(text)
    case IntegerType | DateType => java.lang.Integer.valueOf(text)
    case _: DecimalType => Decimal(text)
    case _ => java.lang.Long.valueOf(text)
  }
}
