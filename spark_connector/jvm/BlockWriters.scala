package org.apache.spark.sql.execution.arrow

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.{DecimalVector, FieldVector}
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.{Decimal, StructType}

/**
 * Makes the writers of rows to Arrow batches.
 *
 * They are Spark's own, which are for its packages alone, but for decimals that fit into 64 bits: of those Spark makes a
 * `BigDecimal` and a `BigInteger` for each value.
 */
object BlockWriters {

  /** Returns a writer for a batch of these columns. */
  def create(fields: StructType): ArrowWriter = {
    val root = ArrowWriter.create(fields, "UTC", true, false).root
    new ArrowWriter(root, root.getFieldVectors.asScala.map(writerOf).toArray)
  }

  private def writerOf(vector: FieldVector): ArrowFieldWriter = vector match {
    case short: DecimalVector if short.getPrecision <= Decimal.MAX_LONG_DIGITS => new ShortDecimalWriter(short)
    case _ => ArrowWriter.createFieldWriter(vector)
  }
}

/** Writes decimals of at most 18 digits. */
private[arrow] final class ShortDecimalWriter(val valueVector: DecimalVector) extends ArrowFieldWriter {
  private val (precision, scale) = (valueVector.getPrecision, valueVector.getScale)

  override def setNull(): Unit = valueVector.setNull(count)

  override def setValue(input: SpecializedGetters, ordinal: Int): Unit = {
    val decimal = input.getDecimal(ordinal, precision, scale)
    if (decimal.changePrecision(precision, scale)) valueVector.setSafe(count, decimal.toUnscaledLong) else setNull()
  }
}
