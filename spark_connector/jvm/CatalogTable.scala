package pando.spark

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{SupportsDeleteV2, SupportsRowLevelOperations, SupportsWrite}
import org.apache.spark.sql.connector.catalog.{TableCapability, TableChange}
import org.apache.spark.sql.connector.catalog.TableChange.ColumnChange
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, RowLevelOperationBuilder, RowLevelOperationInfo}
import org.apache.spark.sql.connector.write.WriteBuilder
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table of a catalog: it is read as one of the format `pando`, and its definition and rows can be changed. Jobs of
 * Spark write to it (`PandoWriteBuilder.scala`).
 *
 * A replicated table is changed at one server, and any other at every server of the catalog.
 */
final class CatalogTable(shownName: String, given: Map[String, String], options: ReadOptions, facts: TableFacts)
    extends PandoTable(given, options, facts.fields)
    with SupportsDeleteV2
    with SupportsRowLevelOperations
    with SupportsWrite {
  private val statements = new Statements(options)
  /** The scan of a statement that changes rows of this table; Spark loads a table for each statement. */
  @volatile private var begun: Option[String] = None
  private val sqlName = SqlText.quoteTable(options.database, options.table)

  override def name(): String = shownName

  override def properties(): util.Map[String, String] = facts.properties.asJava

  override def partitioning(): Array[Transform] = facts.partitioning.toArray

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
    TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
    TableCapability.OVERWRITE_DYNAMIC)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val write = WriteOptions.parse(given, info.options().asCaseSensitiveMap().asScala.toMap)
    new PandoWriteBuilder(write, facts, info, hasFunctions = true)
  }

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder = () => {
    val write = WriteOptions.parse(given, Map())
    new RowLevelChange(
      info.command(), options, facts, new PandoWriteBuilder(write, facts, _, hasFunctions = true, _), name => begun = Some(name))
  }

  /** Spark looks with the same table for the rows that a statement changes: in what it reads anew, and not earlier or later. */
  override protected def scanBuilder(options: ReadOptions, fields: StructType): ScanBuilder =
    begun.map(new BegunScanBuilder(options, fields, _)).getOrElse(super.scanBuilder(options, fields))

  override def newScanBuilder(added: CaseInsensitiveStringMap): ScanBuilder = {
    Seq("table", "database").find(added.containsKey(_)).foreach { name =>
      throw PandoException.badArguments(s"The option '$name' is not of a read of a catalog's table")
    }
    super.newScanBuilder(added)
  }

  /** Tells whether the servers keep exactly the rows that Spark would keep. */
  override def canDeleteWhere(predicates: Array[Predicate]): Boolean = conditionsOf(predicates).isDefined

  override def deleteWhere(predicates: Array[Predicate]): Unit = {
    val conditions = conditionsOf(predicates).getOrElse(
      throw PandoException.notOffered("DELETE by these conditions is not offered: Spark and the servers may differ"))
    if (conditions.isEmpty) truncateTable()
    else change(s"DELETE FROM $sqlName WHERE ${SqlText.and(conditions)}")
  }

  override def truncateTable(): Boolean = {
    change(s"TRUNCATE TABLE $sqlName")
    true
  }

  /** Carries out ALTER TABLE. Changes of columns are one statement. Settings and comments are of each server. */
  def alter(changes: Seq[TableChange]): Unit = {
    val commands = new TableChanges(facts.fields, facts.types)
    val ofColumns = changes.collect { case change: ColumnChange => commands.columnCommand(change) }
    val ofTable = changes.filterNot(_.isInstanceOf[ColumnChange]).map(TableChanges.tableCommand)
    if (ofColumns.nonEmpty) change(s"ALTER TABLE $sqlName ${ofColumns.mkString(", ")}")
    if (ofTable.nonEmpty) statements.runEverywhere(s"ALTER TABLE $sqlName ${ofTable.mkString(", ")}")
  }

  private def change(sql: String): Unit =
    if (facts.isReplicated) statements.runOnce(sql) else statements.runEverywhere(sql)

  private def conditionsOf(predicates: Array[Predicate]): Option[Seq[String]] =
    Pushing.findExact(options, facts.fields, predicates.toSeq)
}
