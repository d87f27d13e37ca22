package pando.spark

import org.apache.spark.sql.connector.expressions.{Expressions, Transform}

/**
 * PARTITIONED BY in ClickHouse's SQL, and back.
 *
 * ClickHouse counts the periods of a time in the zone of its column or server, not in Spark's.
 */
object PartitionKeys {
  private val periods = Seq("years" -> "toYear", "months" -> "toYYYYMM", "days" -> "toDate", "hours" -> "toStartOfHour")
  private val function = periods.toMap
  private val plain = """[A-Za-z_]\w*""".r
  private val quoted = """`((?:\\.|[^`\\])*)`""".r
  private val call = """(\w+)\((.*)\)""".r

  /** Returns the expression of a transform. Raises 48 for one without a counterpart. */
  def toClickHouse(transform: Transform): String = {
    val name = transform.name()
    transform.references().toSeq match {
      case Seq(column) if column.fieldNames().length == 1 && (name == "identity" || function.contains(name)) =>
        val quotedName = SqlText.quoteName(column.fieldNames()(0))
        function.get(name).map(period => s"$period($quotedName)").getOrElse(quotedName)
      case _ => throw PandoException.notOffered(
        s"Partitioning by ${transform.describe()} is not offered. Use columns, ${periods.map(_._1).mkString(", ")}, or " +
          "the property 'partition_by' with an expression of ClickHouse")
    }
  }

  /** Returns the transforms of a partition key, as the server shows it; none if Spark lacks one of them. */
  def fromClickHouse(key: String): Seq[Transform] = {
    val found = SqlText.splitList(key).map {
      case call(name, argument) =>
        for (period <- periods.find(_._2 == name); column <- columnOf(argument))
          yield Expressions.apply(period._1, Expressions.column(SparkText.quoteName(column)))
      case text => columnOf(text).map(column => Expressions.identity(SparkText.quoteName(column)))
    }
    if (found.forall(_.isDefined)) found.flatten else Seq()
  }

  private def columnOf(text: String): Option[String] = text match {
    case plain() => Some(text)
    case quoted(inner) => Some(inner.replaceAll("\\\\(.)", "$1"))
    case _ => None
  }
}
