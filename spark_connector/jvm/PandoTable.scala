package pando.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.{MetadataColumn, SupportsMetadataColumns, SupportsRead, Table}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.types.{DataType, LongType, StringType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table, as a frame or a stream reads it; `given` are what the options were parsed from. */
abstract class PandoTable(given: Map[String, String], options: ReadOptions, fields: StructType)
    extends Table
    with SupportsRead
    with SupportsMetadataColumns {

  SparkSession.getActiveSession.foreach(OptimizerRules.addTo)

  override def name(): String = s"pando ${options.fullName}"

  override def schema(): StructType = fields

  override def metadataColumns(): Array[MetadataColumn] = HiddenColumns.fields.fields.map { field =>
    new MetadataColumn {
      override def name(): String = field.name
      override def dataType(): DataType = field.dataType
      override def isNullable: Boolean = false
    }
  }

  /** Reads with the options of the table, and those that a query over a table of the catalog adds. */
  override def newScanBuilder(added: CaseInsensitiveStringMap): ScanBuilder = {
    val more = added.asCaseSensitiveMap().asScala.toMap
    val isNothingNew = more.forall { case (name, value) => given.get(name).contains(value) }
    val own = if (isNothingNew) options else ReadOptions.parse(given ++ more).getOrElse(refuse(more))
    scanBuilder(own, fields)
  }

  /** Returns the builder of a scan with these options. */
  protected def scanBuilder(options: ReadOptions, fields: StructType): ScanBuilder = new PandoScanBuilder(options, fields)

  private def refuse(more: Map[String, String]): Nothing = throw PandoException.badArguments(
    s"Format pando: one of the options ${more.keys.toSeq.sorted.mkString(", ")} is not of a read of this table, or " +
      "has a wrong value")
}

/**
 * Columns that a query may name and `*` does not show: a row's part, its place there, its partition, and the number of
 * its block.
 */
object HiddenColumns {
  val fields: StructType = new StructType()
    .add("_part", StringType, nullable = false)
    .add("_part_offset", LongType, nullable = false)
    .add("_partition_id", StringType, nullable = false)
    .add("_block_number", LongType, nullable = false)

  /** Returns the columns of a table with those of these that it has none of its own of the name. */
  def beside(own: StructType): StructType =
    StructType(own ++ fields.filterNot(field => own.fieldNames.contains(field.name)))
}
