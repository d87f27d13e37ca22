package pando.spark

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.types.StructType

/** What the servers' system tables tell of a table, beside `fields`: its columns in Spark's types, with their comments. */
final class TableFacts(options: ReadOptions, val fields: StructType) {
  private val statements = new Statements(options)
  private val isOfTable = s"database = ${SqlText.quoteText(options.database)} AND "
  private val name = SqlText.quoteText(options.table)

  private lazy val columns: Seq[JsonNode] = statements.select(
    s"SELECT name, type, comment, default_kind FROM system.columns WHERE $isOfTable table = $name ORDER BY position")
  private lazy val definition: Option[JsonNode] = statements.select(
    "SELECT engine, engine_full, partition_key, sorting_key, primary_key, sampling_key, comment FROM system.tables " +
      s"WHERE $isOfTable name = $name").headOption

  /** The types of the columns on the server. */
  lazy val types: Map[String, String] = columns.map(row => textOf(row, "name") -> textOf(row, "type")).toMap

  /** Tells whether these are columns of the table in the types in which it is read, and none is missing that it needs. */
  def takes(schema: StructType): Boolean = {
    val kinds = columns.map(row => textOf(row, "name") -> textOf(row, "default_kind")).toMap
    val needed = types.keys.filter(name => kinds(name).isEmpty && !ValueChecks.mayBeNull(types(name)))
    val names = schema.fieldNames.toSet
    names.size == schema.length && needed.forall(names) && schema.forall { given =>
      fields.find(_.name == given.name).exists(column => ValueChecks.fits(given.dataType, column.dataType)) &&
        !Set("MATERIALIZED", "ALIAS")(kinds(given.name))
    }
  }

  /** Whether times are read as numbers or texts, because they are finer than Spark's: they are not written so. */
  def hidesNanoseconds: Boolean =
    Set("long", "string")(options.nanoseconds) && fields.exists(field => ValueChecks.hasNanoseconds(types(field.name)))

  /** The columns whose values are kept. */
  val storedColumns: Seq[String] = namesOf(kind => !Set("ALIAS", "EPHEMERAL")(kind))

  /** The columns whose values are computed from others, and never given. */
  val computedColumns: Seq[String] = namesOf(Set("MATERIALIZED", "ALIAS"))

  /** Whether reads cut times that are finer than Spark's. */
  def losesNanoseconds: Boolean =
    options.nanoseconds == "truncate" && types.values.exists("DateTime64\\([789]".r.findFirstIn(_).isDefined)

  /** Whether merges keep the block numbers of rows, for streams. */
  def keepsBlockNumbers: Boolean = properties.get(s"${TableDefinition.settingPrefix}enable_block_number_column").contains("1")

  /** Whether all replicas carry out what one is told to do. */
  lazy val isReplicated: Boolean = engine.startsWith("Replicated")

  /** The name of the engine. */
  lazy val engine: String = definition.map(textOf(_, "engine")).getOrElse("")

  /** The partition key, as the server shows it. */
  lazy val partitionKey: String = definition.map(textOf(_, "partition_key")).getOrElse("")

  /** The partition key; empty if Spark has no counterpart of it. */
  lazy val partitioning: Seq[Transform] = definition.toSeq.flatMap { row =>
    PartitionKeys.fromClickHouse(textOf(row, "partition_key"))
  }

  /** The properties with which CREATE TABLE makes such a table, as far as it can. */
  lazy val properties: Map[String, String] = definition.map { row =>
    val full = textOf(row, "engine_full")
    val keys = Map(
      "engine" -> engineOf(full),
      "partition_by" -> (if (partitioning.isEmpty) textOf(row, "partition_key") else ""),
      "order_by" -> textOf(row, "sorting_key"),
      "primary_key" -> Option(textOf(row, "primary_key")).filter(_ != textOf(row, "sorting_key")).getOrElse(""),
      "sample_by" -> textOf(row, "sampling_key"),
      TableCatalog.PROP_COMMENT -> textOf(row, "comment"))
    val own = fields.collect {
      case field if ColumnTypes.find(field.dataType, field.nullable) != types.get(field.name) =>
        s"${TableDefinition.typePrefix}${field.name}" -> types.getOrElse(field.name, "")
    }
    (keys ++ own ++ settingsOf(full)).filter(_._2.nonEmpty) + (TableCatalog.PROP_PROVIDER -> "pando")
  }.getOrElse(Map())

  /** Returns the engine with its arguments, of a definition's tail. */
  private def engineOf(full: String): String = {
    val end = Seq(" PARTITION BY ", " PRIMARY KEY ", " ORDER BY ", " SAMPLE BY ", " TTL ", " SETTINGS ")
      .map(SqlText.findWord(full, _)).filter(_ >= 0).minOption.getOrElse(full.length)
    full.take(end).trim
  }

  private def settingsOf(full: String): Map[String, String] = {
    val begin = SqlText.findWord(full, " SETTINGS ")
    if (begin < 0) Map()
    else SqlText.splitList(full.drop(begin + " SETTINGS ".length)).flatMap { item =>
      item.split("=", 2).map(_.trim) match {
        case Array(setting, value) => Some(s"${TableDefinition.settingPrefix}$setting" -> SqlText.readLiteral(value))
        case _ => None
      }
    }.toMap
  }

  private def namesOf(isOfKind: String => Boolean): Seq[String] =
    columns.filter(row => isOfKind(textOf(row, "default_kind"))).map(textOf(_, "name"))

  private def textOf(row: JsonNode, member: String): String = row.get(member).asText()
}
