package pando.spark

import org.apache.arrow.vector.{BigIntVector, FieldVector, IntVector, VarCharVector}
import org.apache.arrow.vector.dictionary.DictionaryProvider
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType, StringType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The columns of an answer that a server was asked to keep compact (`engine/scan/sent_columns.py`).
 *
 * Spark's own `ArrowColumnVector` makes a `BigDecimal` of each decimal, and reads no dictionaries.
 */
object CompactColumns {

  /** Returns a column of an answer as Spark reads it, of the type that the scan announced. */
  def open(vector: FieldVector, type_ : DataType, dictionaries: DictionaryProvider): ColumnVector =
    (vector, type_, vector.getField.getDictionary) match {
      case (longs: BigIntVector, decimal: DecimalType, null) => new UnscaledDecimals(longs, decimal)
      case (indices: IntVector, StringType, encoding) if encoding != null =>
        new RepeatedTexts(indices, dictionaries.lookup(encoding.getId).getVector.asInstanceOf[VarCharVector])
      case _ => new ArrowColumnVector(vector)
    }
}

/** A column whose rows have one value each; the stream that filled its vectors releases them. */
private abstract class FlatColumn(vector: FieldVector, type_ : DataType) extends ColumnVector(type_) {
  override def close(): Unit = ()
  override def hasNull: Boolean = numNulls > 0
  override def numNulls(): Int = vector.getNullCount
  override def isNullAt(row: Int): Boolean = vector.isNull(row)

  override def getBoolean(row: Int): Boolean = refuse()
  override def getByte(row: Int): Byte = refuse()
  override def getShort(row: Int): Short = refuse()
  override def getInt(row: Int): Int = refuse()
  override def getLong(row: Int): Long = refuse()
  override def getFloat(row: Int): Float = refuse()
  override def getDouble(row: Int): Double = refuse()
  override def getArray(row: Int): ColumnarArray = refuse()
  override def getMap(row: Int): ColumnarMap = refuse()
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = refuse()
  override def getUTF8String(row: Int): UTF8String = refuse()
  override def getBinary(row: Int): Array[Byte] = refuse()
  override def getChild(ordinal: Int): ColumnVector = refuse()

  private def refuse(): Nothing = throw new UnsupportedOperationException(s"no such value in a column of $type_")
}

/** Decimals of at most 18 digits. */
private final class UnscaledDecimals(longs: BigIntVector, type_ : DecimalType) extends FlatColumn(longs, type_) {
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    if (longs.isNull(row)) null else Decimal.createUnsafe(longs.get(row), precision, scale)
}

/** Texts by their numbers in a dictionary, each of which is made once. */
private final class RepeatedTexts(indices: IntVector, dictionary: VarCharVector) extends FlatColumn(indices, StringType) {
  private val texts = Array.tabulate(dictionary.getValueCount) { place =>
    if (dictionary.isNull(place)) null else UTF8String.fromBytes(dictionary.get(place))
  }

  override def numNulls(): Int = if (texts.contains(null)) indices.getValueCount else super.numNulls()
  override def isNullAt(row: Int): Boolean = getUTF8String(row) == null
  override def getUTF8String(row: Int): UTF8String = if (indices.isNull(row)) null else texts(indices.get(row))
}
