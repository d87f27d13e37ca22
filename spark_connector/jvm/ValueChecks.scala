package pando.spark

import java.time.{Instant, LocalDate}

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/**
 * Refuses values that a column's type would change, as the format `pando` does (`lossless_values.py`).
 *
 * Spark casts to the types in which columns are read; these are wider than unsigned integers, dates and times are. The
 * servers check strings, which they parse.
 */
object ValueChecks {

  /** Checks the value at a place. Raises 321. */
  type Check = (SpecializedGetters, Int) => Unit

  private val wrapped = """(?s)(Nullable|LowCardinality)\((.*)\)""".r
  private val call = """(?s)(\w+)\((.*)\)""".r
  private val nanosecond = """DateTime64\((\d)\b.*""".r
  private val named = """(?s)(?:`(?:\\.|[^`\\])*`|[A-Za-z_]\w*)\s+(\S.*)""".r
  private val second = 1000000L
  /** Seconds of a DateTime64: 1900 to 2299. Nanoseconds since 1970 fit into 64 bits until 2262. */
  private val (earliest, latest, latestNanosecond) = (-2208988800L, 10413791999L, 9223372035L)

  /** Returns the checks of the columns that need some, with their places; `allowsNull` is for columns without NULL. */
  def ofColumns(fields: StructType, types: Seq[String], allowsNull: Boolean): Array[(Int, Check)] =
    fields.fields.zip(types).zipWithIndex.flatMap { case ((field, type_), place) =>
      val ofValue = find(field.dataType, type_, refuseValue(field.name, type_))
      val ofNull = if (allowsNull || !field.nullable || mayBeNull(type_)) None else Some(refuseNull(field.name, type_))
      (ofNull ++ ofValue).map(check => (place, check))
    }

  /** Tells whether a column of the second type takes values of the first as they are; NULL is checked in each row. */
  def fits(given: DataType, column: DataType): Boolean = (given, column) match {
    case (ArrayType(ours, hasNull), ArrayType(theirs, takesNull)) => (takesNull || !hasNull) && fits(ours, theirs)
    case (MapType(key, value, hasNull), MapType(theirKey, theirValue, takesNull)) =>
      (takesNull || !hasNull) && fits(key, theirKey) && fits(value, theirValue)
    case (StructType(ours), StructType(theirs)) => ours.length == theirs.length && ours.zip(theirs).forall {
      case (our, their) => our.name == their.name && (their.nullable || !our.nullable) && fits(our.dataType, their.dataType)
    }
    case _ => given == column
  }

  /** Tells whether a type of the servers has NULL. */
  def mayBeNull(type_ : String): Boolean =
    type_.startsWith("Nullable(") || type_.startsWith("LowCardinality(Nullable(")

  private def refuseNull(column: String, type_ : String): Check = (row, place) => if (row.isNullAt(place)) {
    throw new PandoException(53,
      s"Code: 53. DB::Exception: Column '$column' of type $type_ cannot hold NULL, and the data has some; fill them, or " +
        "set 'setting.input_format_null_as_default' to 1 to write the column's default (TYPE_MISMATCH)")
  }

  /** Tells whether a type has times that are finer than Spark's. */
  def hasNanoseconds(type_ : String): Boolean = unwrap(type_) match {
    case nanosecond(precision) => precision.toInt > 6
    case _ => false
  }

  private type Refuse = (Any, String) => Nothing

  private def refuseValue(column: String, type_ : String): Refuse = (value, reason) => throw new PandoException(321,
    s"Code: 321. DB::Exception: Column '$column' of type $type_ cannot hold $value: $reason " +
      "(VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE)")

  /** Returns the check of a value of a type, if it may be lost. */
  private def find(type_ : DataType, onServer: String, refuse: Refuse): Option[Check] =
    findInner(type_, unwrap(onServer), refuse).map { check => (row, place) => if (!row.isNullAt(place)) check(row, place) }

  private def findInner(type_ : DataType, onServer: String, refuse: Refuse): Option[Check] = (type_, onServer) match {
    case (ArrayType(element, _), call("Array", inner)) => find(element, inner, refuse).map { check =>
      (row, place) => ofElements(row.getArray(place), check)
    }
    case (MapType(key, value, _), call("Map", inner)) =>
      val Seq(keyType, valueType) = SqlText.splitList(inner)
      val (ofKeys, ofValues) = (find(key, keyType, refuse), find(value, valueType, refuse))
      if (ofKeys.isEmpty && ofValues.isEmpty) None
      else Some { (row, place) =>
        ofKeys.foreach(ofElements(row.getMap(place).keyArray(), _))
        ofValues.foreach(ofElements(row.getMap(place).valueArray(), _))
      }
    case (StructType(fields), call("Tuple", inner)) =>
      val types = SqlText.splitList(inner).map {
        case named(type_) => type_
        case type_ => type_
      }
      val checks = fields.zip(types).zipWithIndex.flatMap { case ((field, type_), place) =>
        find(field.dataType, type_, refuse).map(check => (place, check))
      }
      if (checks.isEmpty) None
      else Some { (row, place) =>
        val struct = row.getStruct(place, fields.length)
        checks.foreach { case (field, check) => check(struct, field) }
      }
    case _ => findSimple(type_, onServer, refuse)
  }

  private def ofElements(array: ArrayData, check: Check): Unit =
    (0 until array.numElements()).foreach(check(array, _))

  private def findSimple(type_ : DataType, onServer: String, refuse: Refuse): Option[Check] = (type_, onServer) match {
    case (ShortType, "UInt8") => Some((row, place) => inRange(row.getShort(place).toLong, 0, 255, refuse))
    case (IntegerType, "UInt16") => Some((row, place) => inRange(row.getInt(place).toLong, 0, 65535, refuse))
    case (LongType, "UInt32") => Some((row, place) => inRange(row.getLong(place), 0, (1L << 32) - 1, refuse))
    case (decimal: DecimalType, "UInt64") => Some { (row, place) =>
      val number = row.getDecimal(place, decimal.precision, decimal.scale).toJavaBigDecimal.toBigInteger
      if (number.signum() < 0 || number.bitLength() > 64) refuse(number, outside)
    }
    case (DateType, "Date") => Some((row, place) => dayInRange(row.getInt(place), 0, 65535, refuse))
    case (DateType, "Date32") => Some((row, place) => dayInRange(row.getInt(place), -25567, 120529, refuse))
    case (TimestampType, "DateTime") => Some(instant(second, 0, (1L << 32) - 1, refuse))
    case (TimestampType, call("DateTime", _)) => Some(instant(second, 0, (1L << 32) - 1, refuse))
    case (TimestampType, nanosecond(precision)) =>
      val step = Iterator.fill(math.max(0, 6 - precision.toInt))(10L).product
      Some(instant(step, earliest, if (precision == "9") latestNanosecond else latest, refuse))
    case _ => None
  }

  private val outside = "it is outside the type's range"

  private def inRange(value: Long, least: Long, most: Long, refuse: Refuse): Unit =
    if (value < least || value > most) refuse(value, outside)

  private def dayInRange(day: Int, least: Int, most: Int, refuse: Refuse): Unit =
    if (day < least || day > most) refuse(LocalDate.ofEpochDay(day.toLong), outside)

  /** Checks that a time is a multiple of `step` microseconds, within the seconds. */
  private def instant(step: Long, least: Long, most: Long, refuse: Refuse): Check = (row, place) => {
    val value = row.getLong(place)
    val seconds = Math.floorDiv(value, second)
    def shown = Instant.ofEpochSecond(seconds, Math.floorMod(value, second) * 1000)
    if (seconds < least || seconds > most) refuse(shown, outside)
    if (value % step != 0) refuse(shown, "it is finer than the type: cut it (date_trunc) or use DateTime64(6)")
  }

  private def unwrap(type_ : String): String = type_ match {
    case wrapped(_, inner) => unwrap(inner)
    case _ => type_
  }
}
