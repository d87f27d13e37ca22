package pando.spark

import java.util

import org.apache.spark.sql.connector.catalog.{Column, StagedTable, SupportsWrite, TableCapability}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.StructType

/**
 * A table that is made with its rows under another name, and takes its own in the end (CREATE and REPLACE … AS SELECT).
 *
 * Each server gives it the name in one step: readers there find the old table, or none, until they find the new one.
 * What failed before is dropped. A server that cannot be reached in the end keeps both tables, and the error says so.
 */
final class NewTable(
    made: CatalogTable, statements: Statements, database: String, table: String, madeAs: String, replaces: Boolean)
    extends StagedTable
    with SupportsWrite {
  private val (target, source) = (SqlText.quoteTable(database, table), SqlText.quoteTable(database, madeAs))
  private var isNaming = false

  override def name(): String = made.name()

  override def schema(): StructType = made.schema()

  override def columns(): Array[Column] = made.columns()

  override def properties(): util.Map[String, String] = made.properties()

  override def partitioning(): Array[Transform] = made.partitioning()

  override def capabilities(): util.Set[TableCapability] = made.capabilities()

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = made.newWriteBuilder(info)

  override def commitStagedChanges(): Unit = {
    isNaming = true
    if (replaces) {
      statements.runEverywhere(s"EXCHANGE TABLES $target AND $source")
      statements.runEverywhere(s"DROP TABLE $source")
    } else statements.runEverywhere(s"RENAME TABLE $source TO $target")
  }

  /** Drops the table, unless a server may have given it its name: then it may be the old one that is called so. */
  override def abortStagedChanges(): Unit =
    if (!isNaming) statements.tryEverywhere(s"DROP TABLE IF EXISTS $source")
    else DriverLog.tell(s"$source was not dropped: on some servers $target is the new table, on the others this one")
}
