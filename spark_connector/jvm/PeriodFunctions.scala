package pando.spark

import java.time.LocalDate

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException
import org.apache.spark.sql.connector.catalog.{FunctionCatalog, Identifier}
import org.apache.spark.sql.connector.catalog.functions.{BoundFunction, ScalarFunction, UnboundFunction}
import org.apache.spark.sql.types._

/**
 * The functions of partition keys by which Spark brings rows of a period together before they are written.
 *
 * They count periods in UTC and number them as they like: a server computes the true key. So they are not listed.
 */
trait PeriodFunctions extends FunctionCatalog {

  override def listFunctions(namespace: Array[String]): Array[Identifier] = Array()

  override def loadFunction(function: Identifier): UnboundFunction = {
    val name = function.name()
    if (function.namespace().nonEmpty || !PeriodFunctions.names(name.stripPrefix(PeriodFunctions.prefix)) ||
      !name.startsWith(PeriodFunctions.prefix)) {
      throw new NoSuchFunctionException(function)
    }
    new UnboundPeriod(name.stripPrefix(PeriodFunctions.prefix))
  }
}

object PeriodFunctions {
  val prefix = "pando_partition_"

  /** The functions of ClickHouse that have a counterpart. */
  val names = Set(
    "toDate", "toYYYYMM", "toYYYYMMDD", "toYear", "toMonth", "toMonday", "toStartOfMonth", "toStartOfQuarter",
    "toStartOfYear", "toStartOfDay", "toStartOfHour")

  /** Returns the function of a date or a timestamp. */
  def bind(period: String, type_ : DataType): ScalarFunction[Int] = type_ match {
    case DateType => new PeriodOfDate(period)
    case TimestampType => new PeriodOfTimestamp(period)
    case _ => throw new UnsupportedOperationException(s"$prefix$period takes a date or a timestamp")
  }

  /** Returns the number of a period that has the day; of an hour, if it has none. */
  def numberOf(name: String, day: Int): Int = {
    def date = LocalDate.ofEpochDay(day.toLong)
    name match {
      case "toYYYYMM" | "toStartOfMonth" => date.getYear * 12 + date.getMonthValue
      case "toYear" | "toStartOfYear" => date.getYear
      case "toMonth" => date.getMonthValue
      case "toStartOfQuarter" => date.getYear * 4 + (date.getMonthValue - 1) / 3
      case "toMonday" => Math.floorDiv(day + 3, 7)
      case _ => day
    }
  }
}

private final class UnboundPeriod(period: String) extends UnboundFunction {
  override def name(): String = PeriodFunctions.prefix + period
  override def description(): String = s"a number of the period of $period"

  override def bind(input: StructType): BoundFunction =
    input.fields.map(_.dataType) match {
      case Array(type_) => PeriodFunctions.bind(period, type_)
      case _ => throw new UnsupportedOperationException(s"${name()} takes one argument")
    }
}

/** Spark calls `invoke` with the days since 1970. */
final class PeriodOfDate(period: String) extends ScalarFunction[Int] {
  override def inputTypes(): Array[DataType] = Array(DateType)
  override def resultType(): DataType = IntegerType
  override def name(): String = PeriodFunctions.prefix + period
  override def canonicalName(): String = s"pando.${name()}(date)"
  def invoke(day: Int): Int = PeriodFunctions.numberOf(period, day)
}

/** Spark calls `invoke` with the microseconds since 1970. */
final class PeriodOfTimestamp(period: String) extends ScalarFunction[Int] {
  private val (hour, day) = (3600L * 1000000, 24 * 3600L * 1000000)
  override def inputTypes(): Array[DataType] = Array(TimestampType)
  override def resultType(): DataType = IntegerType
  override def name(): String = PeriodFunctions.prefix + period
  override def canonicalName(): String = s"pando.${name()}(timestamp)"
  def invoke(instant: Long): Int =
    if (period == "toStartOfHour") Math.floorDiv(instant, hour).toInt
    else PeriodFunctions.numberOf(period, Math.floorDiv(instant, day).toInt)
}
