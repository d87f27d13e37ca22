package pando.spark

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.connector.expressions.{Cast, Expression, GeneralScalarExpression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.{NullOrdering, SortDirection, SortOrder}
import org.apache.spark.sql.connector.expressions.aggregate.{AggregateFunc, Avg, Count, CountStar, Max, Min, Sum}
import org.apache.spark.sql.types.{DateType, Decimal, DoubleType, FloatType, StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Encodes Spark's expressions as JSON; `engine/scan/push_down/expressions.py` describes the form.
 *
 * What it has no form for becomes an empty object, which the servers leave to Spark.
 */
object ExpressionJson {

  /** Returns a condition or a value. */
  def encode(expression: Expression): ObjectNode = expression match {
    case reference: NamedReference =>
      val names = reference.fieldNames()
      if (names.length == 1) Json.obj("column" -> names(0)) else Json.obj()
    case literal: Literal[_] => encodeLiteral(literal)
    case cast: Cast => Json.obj(
      "call" -> "CAST", "children" -> Seq(encode(cast.expression())), "type" -> cast.dataType().typeName)
    case call: GeneralScalarExpression =>
      Json.obj("call" -> call.name(), "children" -> call.children().toSeq.map(encode))
    case _ => Json.obj()
  }

  /** Returns an aggregate. */
  def encodeAggregate(function: AggregateFunc): ObjectNode = function match {
    case _: CountStar => Json.obj("call" -> "COUNT", "children" -> Seq())
    case count: Count => encodeCall("COUNT", count.column(), count.isDistinct)
    case sum: Sum => encodeCall("SUM", sum.column(), sum.isDistinct)
    case min: Min => encodeCall("MIN", min.column(), isDistinct = false)
    case max: Max => encodeCall("MAX", max.column(), isDistinct = false)
    case average: Avg => encodeCall("AVG", average.column(), average.isDistinct)
    case _ => Json.obj()
  }

  /** Returns a term of ORDER BY. */
  def encodeOrder(order: SortOrder): ObjectNode = Json.obj(
    "by" -> encode(order.expression()),
    "descending" -> (order.direction() == SortDirection.DESCENDING),
    "nulls_first" -> (order.nullOrdering() == NullOrdering.NULLS_FIRST))

  private def encodeCall(name: String, child: Expression, isDistinct: Boolean): ObjectNode =
    Json.obj("call" -> name, "children" -> Seq(encode(child)), "distinct" -> isDistinct)

  private def encodeLiteral(literal: Literal[_]): ObjectNode = {
    val value: Any = (literal.value(), literal.dataType()) match {
      case (null, _) => null
      case (text: UTF8String, _: StringType) => text.toString
      case (decimal: Decimal, _) => decimal.toJavaBigDecimal.toString
      case (number: Float, FloatType) => number.toDouble.toString
      case (number: Double, DoubleType) => number.toString
      case (days: Int, DateType) => days
      case (instant: Long, TimestampType) => instant
      case (flag: Boolean, _) => flag
      case (number @ (_: Byte | _: Short | _: Int | _: Long), _) => number
      case _ => return Json.obj()
    }
    Json.obj("literal" -> value, "type" -> literal.dataType().typeName)
  }
}
