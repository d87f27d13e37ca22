package pando.spark

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The format `pando_jvm`: reads tables without a Python worker, as far as the servers can.
 *
 * It has the options of the format `pando`. What it does not read itself is left to that Python source, which reads it
 * or tells what is wrong: the options `query` and `task_query`, and a schema whose types are not those of the table.
 */
final class PandoProvider extends TableProvider with DataSourceRegister {
  private var inferred: Option[StructType] = None

  override def shortName(): String = "pando_jvm"

  override def supportsExternalMetadata(): Boolean = true

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    val schema = parse(options.asCaseSensitiveMap()) match {
      case Some(own) => Pushing.describe(own)
      case None => python.inferSchema(options)
    }
    inferred = Some(schema)
    schema
  }

  override def getTable(
      schema: StructType, partitioning: Array[Transform], properties: util.Map[String, String]): Table =
    parse(properties) match {
      case Some(options) if inferred.contains(schema) || isNatural(schema, options) =>
        new PandoTable(properties.asScala.toMap, options, schema)
      case _ => python.getTable(schema, partitioning, properties)
    }

  private def parse(properties: util.Map[String, String]): Option[ReadOptions] =
    ReadOptions.parse(properties.asScala.toMap)

  /** Tells whether the table's columns are read in these types without a conversion. */
  private def isNatural(schema: StructType, options: ReadOptions): Boolean = {
    val natural = Pushing.describe(options.copy(columns = schema.fieldNames.toSeq))
    natural.length == schema.length && natural.fields.zip(schema.fields).forall { case (ours, theirs) =>
      DataType.equalsStructurally(ours.dataType, theirs.dataType) && ours.nullable == theirs.nullable
    }
  }

  private def python: PythonDataSourceV2 = {
    val source = new PythonDataSourceV2
    source.setShortName("pando")
    source
  }
}
