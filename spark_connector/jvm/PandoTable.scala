package pando.spark

import java.util

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table, as one frame reads it. */
final class PandoTable(options: ReadOptions, fields: StructType) extends Table with SupportsRead {

  override def name(): String = s"pando ${options.fullName}"

  override def schema(): StructType = fields

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder = new PandoScanBuilder(options, fields)
}
