package pando.spark

import java.math.{BigDecimal, BigInteger}
import java.nio.ByteBuffer

import org.apache.arrow.vector._
import org.apache.arrow.vector.dictionary.DictionaryProvider
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/**
 * The columns of an answer that a server was asked to keep compact (`engine/scan/sent_columns.py`).
 *
 * Spark's own `ArrowColumnVector` checks the bounds of every value, makes a `BigDecimal` of each decimal, and reads no
 * dictionaries. So columns of plain values are read where they lie in memory.
 */
object CompactColumns {

  /** Returns a column of an answer as Spark reads it, of the type that the scan announced. */
  def open(vector: FieldVector, type_ : DataType, dictionaries: DictionaryProvider): ColumnVector =
    (vector, type_, vector.getField.getDictionary) match {
      case (indices: IntVector, StringType, encoding) if encoding != null =>
        new RepeatedTexts(indices, dictionaries.lookup(encoding.getId).getVector.asInstanceOf[VarCharVector])
      case (texts: VarCharVector, StringType, _) => new PlainTexts(texts)
      case (longs: BigIntVector, decimal: DecimalType, _) => new FixedWidthValues(longs, decimal)
      case (longs: UInt8Vector, decimal: DecimalType, _) => new UnsignedLongs(longs, decimal)
      case (wide: DecimalVector, decimal: DecimalType, _) => new WideDecimals(wide, decimal)
      case (values: BaseFixedWidthVector, _, _) if isOfFixedWidth(type_) => new FixedWidthValues(values, type_)
      case _ => new ArrowColumnVector(vector)
    }

  /** Whether Arrow keeps a type's values as Spark's getters read them. */
  private def isOfFixedWidth(type_ : DataType): Boolean = type_ match {
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | DateType | TimestampType => true
    case _ => false
  }
}

/** A column whose rows have one value each; the stream that filled its vector releases it. */
private abstract class FlatColumn(vector: FieldVector, type_ : DataType) extends ColumnVector(type_) {
  private val nulls = vector.getNullCount
  private val validity = vector.getValidityBufferAddress

  override def close(): Unit = ()
  override def hasNull: Boolean = nulls > 0
  override def numNulls(): Int = nulls
  override def isNullAt(row: Int): Boolean =
    nulls > 0 && ((Platform.getByte(null, validity + (row >> 3)) >> (row & 7)) & 1) == 0

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

/** Numbers, dates and instants, and decimals of at most 18 digits as their unscaled integers. */
private final class FixedWidthValues(vector: BaseFixedWidthVector, type_ : DataType) extends FlatColumn(vector, type_) {
  private val values = vector.getDataBufferAddress

  override def getByte(row: Int): Byte = Platform.getByte(null, values + row)
  override def getShort(row: Int): Short = Platform.getShort(null, values + 2L * row)
  override def getInt(row: Int): Int = Platform.getInt(null, values + 4L * row)
  override def getLong(row: Int): Long = Platform.getLong(null, values + 8L * row)
  override def getFloat(row: Int): Float = Platform.getFloat(null, values + 4L * row)
  override def getDouble(row: Int): Double = Platform.getDouble(null, values + 8L * row)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    if (isNullAt(row)) null else Decimal.createUnsafe(getLong(row), precision, scale)
}

/** Decimals that may have more than 18 digits: most are small, and stay integers. */
private abstract class LongDecimals(vector: BaseFixedWidthVector, type_ : DecimalType) extends FlatColumn(vector, type_) {
  private val ofLongs = 1000000000000000000L

  /** Returns a value whose 64 bits say all of it, if its sign is theirs. */
  protected def ofLong(value: Long): Option[Decimal] =
    if (value > -ofLongs && value < ofLongs) Some(new Decimal().set(value, type_.precision, type_.scale)) else None

  /** Returns a value of many digits. */
  protected def ofMany(unscaled: BigInteger): Decimal =
    Decimal(new BigDecimal(unscaled, type_.scale), type_.precision, type_.scale)
}

/** UInt64. */
private final class UnsignedLongs(vector: UInt8Vector, type_ : DecimalType) extends LongDecimals(vector, type_) {
  private val values = vector.getDataBufferAddress

  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = if (isNullAt(row)) null else {
    val value = Platform.getLong(null, values + 8L * row)
    val small = if (value < 0) None else ofLong(value)
    small.getOrElse(ofMany(new BigInteger(java.lang.Long.toUnsignedString(value))))
  }
}

/** Decimals of 16 bytes. */
private final class WideDecimals(vector: DecimalVector, type_ : DecimalType) extends LongDecimals(vector, type_) {
  private val values = vector.getDataBufferAddress

  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = if (isNullAt(row)) null else {
    val (low, high) = (Platform.getLong(null, values + 16L * row), Platform.getLong(null, values + 16L * row + 8))
    val small = if (high == low >> 63) ofLong(low) else None
    small.getOrElse(ofMany(new BigInteger(ByteBuffer.allocate(16).putLong(high).putLong(low).array())))
  }
}

/** Texts one after another. */
private final class PlainTexts(vector: VarCharVector) extends FlatColumn(vector, StringType) {
  private val (offsets, bytes) = (vector.getOffsetBufferAddress, vector.getDataBufferAddress)

  override def getUTF8String(row: Int): UTF8String = if (isNullAt(row)) null else {
    val begin = Platform.getInt(null, offsets + 4L * row)
    UTF8String.fromAddress(null, bytes + begin, Platform.getInt(null, offsets + 4L * row + 4) - begin)
  }
}

/** Texts by their numbers in a dictionary, each of which is made once. */
private final class RepeatedTexts(indices: IntVector, dictionary: VarCharVector) extends FlatColumn(indices, StringType) {
  private val numbers = indices.getDataBufferAddress
  private val texts = Array.tabulate(dictionary.getValueCount) { place =>
    if (dictionary.isNull(place)) null else UTF8String.fromBytes(dictionary.get(place))
  }

  override def hasNull: Boolean = numNulls() > 0
  override def numNulls(): Int = if (texts.contains(null)) indices.getValueCount else super.numNulls()
  override def isNullAt(row: Int): Boolean = getUTF8String(row) == null
  override def getUTF8String(row: Int): UTF8String =
    if (super.isNullAt(row)) null else texts(Platform.getInt(null, numbers + 4L * row))
}
