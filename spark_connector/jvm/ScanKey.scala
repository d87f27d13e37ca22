package pando.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, TransformExpression}
import org.apache.spark.sql.connector.catalog.functions.BoundFunction
import org.apache.spark.sql.connector.read.HasPartitionKey
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * What the rows of a partition or of a shard have in common: a value of `type_`, which is that of a column, or of a function
 * of it if `function` is not empty.
 */
final case class ScanKey(column: String, function: String, type_ : DataType) {

  /** Returns the key of a scan that reads the column as `attribute`. */
  def of(attribute: Attribute): Expression =
    if (function.isEmpty) attribute
    else TransformExpression(new KeyFunction(function, attribute.dataType, type_), Seq(attribute))

  /** Returns a value that a server gave, as Spark holds it. */
  def read(value: JsonNode): Any =
    if (value.isNull) null
    else type_ match {
      case BooleanType => value.asBoolean()
      case ByteType => value.asInt().toByte
      case ShortType => value.asInt().toShort
      case IntegerType | DateType => value.asInt()
      case LongType => value.asLong()
      case _ => UTF8String.fromString(value.asText())
    }
}

object ScanKey {
  /** Returns the keys of a plan. */
  def listOf(answer: JsonNode): Seq[ScanKey] = answer.path("keys").elements().asScala.toSeq.map { key =>
    ScanKey(
      key.get("column").asText(), key.get("function").asText(), DataType.fromJson(s"\"${key.get("type").asText()}\""))
  }
}

/** A function that only the servers compute. Spark takes it for the same as another of this text. */
private final class KeyFunction(text: String, input: DataType, result: DataType) extends BoundFunction {
  override def inputTypes(): Array[DataType] = Array(input)
  override def resultType(): DataType = result
  override def name(): String = text
  override def canonicalName(): String = s"pando.$text"
}

/** A slot whose rows have the values of the scan's keys in common. */
final case class KeyedSlot(slot: SlotPartition, override val partitionKey: InternalRow) extends HasPartitionKey {

  /** Returns the slot with those of its rows for which the condition holds. */
  def where(condition: String): KeyedSlot =
    copy(slot = slot.copy(filter = SqlText.and(Seq(slot.filter, condition))))
}
