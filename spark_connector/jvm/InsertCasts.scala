package pando.spark

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.types._

/**
 * Refuses casts that Spark itself adds to a job's columns and that may change a value without an error.
 *
 * Spark's store assignment (ANSI) refuses what overflows, but cuts fractions and times of day off. A source sees only the
 * values behind the cast. So the plan of the execution that writes is searched for such casts. Who wants them writes
 * them himself; those are not looked at.
 */
object InsertCasts {
  private val executionKey = "spark.sql.execution.id"

  /** Raises 53 for the first such cast of the statement that is carried out in this thread. */
  def check(table: String): Unit =
    for {
      session <- SparkSession.getActiveSession
      number <- Option(session.sparkContext.getLocalProperty(executionKey))
      execution <- Option(SQLExecution.getQueryExecution(number.toLong))
    } execution.analyzed.foreach(_.expressions.foreach(_.foreach {
      case cast: Cast
          if cast.getTagValue(Cast.BY_TABLE_INSERTION).isDefined && mayChange(cast.child.dataType, cast.dataType) =>
        throw new PandoException(53,
          s"Code: 53. DB::Exception: ${cast.child.dataType.sql} may lose something as ${cast.dataType.sql} in $table " +
            s"(${cast.child.sql}): write CAST(… AS ${cast.dataType.sql}), or round it, if that is meant (TYPE_MISMATCH)")
      case _ =>
    }))

  private def mayChange(given: DataType, column: DataType): Boolean = (given, column) match {
    case (_: DecimalType | FloatType | DoubleType, ByteType | ShortType | IntegerType | LongType) => !isWhole(given)
    case (from: DecimalType, to: DecimalType) => from.scale > to.scale
    case (FloatType | DoubleType, _: DecimalType) => true
    case (DoubleType, FloatType) => true
    case (LongType, FloatType | DoubleType) => true
    case (IntegerType, FloatType) => true
    case (TimestampType | TimestampNTZType, DateType) => true
    case _ => false
  }

  private def isWhole(type_ : DataType): Boolean = type_ match {
    case decimal: DecimalType => decimal.scale == 0
    case _ => false
  }
}
