package pando

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import pando.spark.{FormatTable, Pushing, ReadOptions}

/**
 * The format `pando` where the jar is: tables without a Python worker.
 *
 * Spark looks for a class `<format>.DefaultSource` before it looks for a Python source of the name, so that without the
 * jar the same word means the Python source. (Spark would refuse a service registered under the name of a Python source.)
 * It has the same options. What it does not do itself is left to that source, which does it or tells what is wrong: the
 * options `query` and `task_query`, and columns whose types are not those of the table.
 */
final class DefaultSource extends TableProvider {
  private var inferred: Option[StructType] = None

  override def supportsExternalMetadata(): Boolean = true

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    val schema = parse(options.asCaseSensitiveMap()) match {
      case Some(own) => ReadOptions.storeInSchema(Pushing.describe(own), options.asCaseSensitiveMap().asScala.toMap)
      case None => python.inferSchema(options)
    }
    inferred = Some(schema)
    schema
  }

  override def getTable(
      schema: StructType, partitioning: Array[Transform], properties: util.Map[String, String]): Table = {
    def ofPython = python.getTable(schema, partitioning, properties)
    parse(properties) match {
      case Some(options) =>
        new FormatTable(properties.asScala.toMap, options, schema, inferred.contains(schema), () => ofPython)
      case None => ofPython
    }
  }

  private def parse(properties: util.Map[String, String]): Option[ReadOptions] =
    ReadOptions.parse(properties.asScala.toMap)

  private def python: PythonDataSourceV2 = {
    val source = new PythonDataSourceV2
    source.setShortName("pando")
    source
  }
}
