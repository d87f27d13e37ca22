package pando.spark

import java.util
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException, NonEmptyNamespaceException}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A catalog of Spark: the databases of the servers are its namespaces (`spark.sql.catalog.<name>`).
 *
 * Its options are those of a read without the table. Statements about databases and definitions of tables go to every
 * server of `url` in turn.
 */
final class PandoCatalog extends StagingTableCatalog with SupportsNamespaces with PeriodFunctions {
  private val hidden = Set("system", "information_schema", "INFORMATION_SCHEMA")
  private var catalogName = ""
  private var given: Map[String, String] = Map()

  override def name(): String = catalogName

  override def defaultNamespace(): Array[String] = Array("default")

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    catalogName = name
    given = CatalogOptions.check(options.asCaseSensitiveMap().asScala.toMap)
  }

  // -- namespaces -----------------------------------------------------------------------------------------------------

  override def listNamespaces(): Array[Array[String]] =
    statements.select("SELECT name FROM system.databases ORDER BY name").map(_.get("name").asText())
      .filterNot(hidden).map(Array(_)).toArray

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces()
    else {
      requireNamespace(namespace)
      Array()
    }

  override def namespaceExists(namespace: Array[String]): Boolean =
    namespace.length == 1 && statements.select(
      s"SELECT name FROM system.databases WHERE name = ${SqlText.quoteText(namespace(0))}").nonEmpty

  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] = {
    requireNamespace(namespace)
    util.Map.of()
  }

  override def createNamespace(namespace: Array[String], metadata: util.Map[String, String]): Unit = {
    val kept = metadata.asScala.keys.filterNot(_ == SupportsNamespaces.PROP_OWNER)
    kept.headOption.foreach(property => throw PandoException.notOffered(s"A database has no property '$property'"))
    val database = CatalogNames.databaseOf(namespace).getOrElse(throw PandoException.badArguments(
      s"A database has a name of one part, and not ${namespace.mkString(".")}"))
    CatalogErrors.makingNamespace(namespace) {
      statements.runEverywhere(s"CREATE DATABASE ${SqlText.quoteName(database)}")
    }
  }

  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    throw PandoException.notOffered("A database has no properties")

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    requireNamespace(namespace)
    val database = namespace(0)
    val holdsTables = statements.select(
      s"SELECT name FROM system.tables WHERE database = ${SqlText.quoteText(database)} LIMIT 1").nonEmpty
    if (holdsTables && !cascade) throw new NonEmptyNamespaceException(namespace)
    CatalogErrors.needingNamespace(namespace) {
      statements.runEverywhere(s"DROP DATABASE ${SqlText.quoteName(database)}")
    }
    true
  }

  // -- tables ---------------------------------------------------------------------------------------------------------

  /** Lists the tables that Spark can read: those of the MergeTree family, and Distributed ones. */
  override def listTables(namespace: Array[String]): Array[Identifier] = {
    requireNamespace(namespace)
    statements.select(
      "SELECT name FROM system.tables WHERE (engine LIKE '%MergeTree' OR engine = 'Distributed') AND " +
        s"NOT startsWith(name, '.inner') AND database = ${SqlText.quoteText(namespace(0))} ORDER BY name")
      .map(row => Identifier.of(namespace, row.get("name").asText())).toArray
  }

  override def loadTable(table: Identifier): Table = load(table)

  override def createTable(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : Table = define(table, columns, partitions, properties)

  private def define(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : CatalogTable = {
    if (CatalogNames.databaseOf(table.namespace()).isEmpty) throw new NoSuchNamespaceException(table.namespace())
    val options = optionsOf(table)
    val definition = new TableDefinition(
      options.database, options.table, columns.toSeq, partitions.toSeq, properties.asScala.toMap, options.urls.size)
    CatalogErrors.makingTable(table)(statements.runEverywhere(definition.sql))
    load(table)
  }

  override def alterTable(table: Identifier, changes: TableChange*): Table = {
    CatalogErrors.needingTable(table)(load(table).alter(changes))
    load(table)
  }

  override def dropTable(table: Identifier): Boolean = CatalogNames.databaseOf(table.namespace()).exists { database =>
    try {
      CatalogErrors.needingTable(table) {
        statements.runEverywhere(s"DROP TABLE ${SqlText.quoteTable(database, table.name())}")
      }
      true
    } catch {
      case _: NoSuchTableException => false
    }
  }

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    val target = if (to.namespace().isEmpty) Identifier.of(from.namespace(), to.name()) else to
    val (old, renamed) = (optionsOf(from), optionsOf(target))
    CatalogErrors.needingTable(from)(load(from))
    CatalogErrors.makingTable(target) {
      statements.runEverywhere(
        s"RENAME TABLE ${SqlText.quoteTable(old.database, old.table)} TO " +
          SqlText.quoteTable(renamed.database, renamed.table))
    }
  }

  // -- what is made together with its rows ----------------------------------------------------------------------------

  override def stageCreate(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : StagedTable = stage(table, columns, partitions, properties, replaces = false)

  override def stageReplace(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : StagedTable =
    if (tableExists(table)) stage(table, columns, partitions, properties, replaces = true)
    else throw new NoSuchTableException(table)

  override def stageCreateOrReplace(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : StagedTable = stage(table, columns, partitions, properties, replaces = tableExists(table))

  private def stage(
      table: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String],
      replaces: Boolean): StagedTable = {
    val madeAs = s"${table.name()}_staged_${UUID.randomUUID().toString.replace("-", "").take(12)}"
    val staged = Identifier.of(table.namespace(), madeAs)
    try {
      val made = define(staged, columns, partitions, properties)
      new NewTable(made, statements, optionsOf(table).database, table.name(), madeAs, replaces)
    } catch {
      case error: PandoException =>
        CatalogNames.databaseOf(table.namespace()).foreach { database =>
          statements.tryEverywhere(s"DROP TABLE IF EXISTS ${SqlText.quoteTable(database, madeAs)}")
        }
        throw error
    }
  }

  private def load(table: Identifier): CatalogTable = {
    val (options, shownName) = (optionsOf(table), s"$catalogName.${table.namespace().mkString(".")}.${table.name()}")
    CatalogErrors.needingTable(table) {
      val facts = new TableFacts(options, Pushing.describe(options, withComments = true))
      new CatalogTable(shownName, propertiesOf(table), options, facts)
    }
  }

  private def optionsOf(table: Identifier): ReadOptions = CatalogOptions.parse(propertiesOf(table))

  private def propertiesOf(table: Identifier): Map[String, String] = {
    val database = CatalogNames.databaseOf(table.namespace()).getOrElse(throw new NoSuchTableException(table))
    given ++ Map("database" -> database, "table" -> table.name())
  }

  private def requireNamespace(namespace: Array[String]): Unit =
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace)

  private def statements: Statements = new Statements(CatalogOptions.parse(given ++ CatalogOptions.noTable))
}
