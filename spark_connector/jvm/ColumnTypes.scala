package pando.spark

import org.apache.spark.sql.types._

/**
 * The types of ClickHouse in which columns of Spark are made.
 *
 * They are read back as they were given (`engine/scan/push_down/spark_types.py`). Types that are not are refused.
 */
object ColumnTypes {

  /** Returns the type of a column. Raises 48 for a type without a counterpart. Arrays, maps and structs have no NULL. */
  def toClickHouse(type_ : DataType, isNullable: Boolean): String = type_ match {
    case ArrayType(element, containsNull) => s"Array(${toClickHouse(element, containsNull)})"
    case MapType(key, value, containsNull) =>
      s"Map(${toClickHouse(key, isNullable = false)}, ${toClickHouse(value, containsNull)})"
    case StructType(fields) =>
      fields.map(field => s"${SqlText.quoteName(field.name)} ${toClickHouse(field.dataType, field.nullable)}")
        .mkString("Tuple(", ", ", ")")
    case _ => if (isNullable) s"Nullable(${simple(type_)})" else simple(type_)
  }

  /** Returns the type of a column, if there is one. */
  def find(type_ : DataType, isNullable: Boolean): Option[String] =
    try Some(toClickHouse(type_, isNullable))
    catch {
      case _: PandoException => None
    }

  private def simple(type_ : DataType): String = type_ match {
    case ByteType => "Int8"
    case ShortType => "Int16"
    case IntegerType => "Int32"
    case LongType => "Int64"
    case FloatType => "Float32"
    case DoubleType => "Float64"
    case BooleanType => "Bool"
    case DateType => "Date32"
    case TimestampType => "DateTime64(6)"
    case decimal: DecimalType => s"Decimal(${decimal.precision}, ${decimal.scale})"
    case StringType => "String"
    case _ => throw PandoException.notOffered(s"Spark's type ${type_.sql} has no counterpart${advice(type_)}")
  }

  private def advice(type_ : DataType): String = type_ match {
    case TimestampNTZType => "; use TIMESTAMP"
    case _: StringType => "; use STRING, without a length or a collation"
    case BinaryType => ": columns hold UTF-8; use STRING"
    case _ => ""
  }
}
