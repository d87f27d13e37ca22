package pando.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table, as a frame or a stream reads it; `given` are what the options were parsed from. */
abstract class PandoTable(given: Map[String, String], options: ReadOptions, fields: StructType)
    extends Table
    with SupportsRead {

  override def name(): String = s"pando ${options.fullName}"

  override def schema(): StructType = fields

  /** Reads with the options of the table, and those that a query over a table of the catalog adds. */
  override def newScanBuilder(added: CaseInsensitiveStringMap): ScanBuilder = {
    val more = added.asCaseSensitiveMap().asScala.toMap
    val isNothingNew = more.forall { case (name, value) => given.get(name).contains(value) }
    val own = if (isNothingNew) options else ReadOptions.parse(given ++ more).getOrElse(refuse(more))
    new PandoScanBuilder(own, fields)
  }

  private def refuse(more: Map[String, String]): Nothing = throw PandoException.badArguments(
    s"Format pando: one of the options ${more.keys.toSeq.sorted.mkString(", ")} is not of a read of this table, or " +
      "has a wrong value")
}
