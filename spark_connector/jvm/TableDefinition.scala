package pando.spark

import org.apache.spark.sql.connector.catalog.{Column, TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform

/**
 * CREATE TABLE of a catalog, as a statement of ClickHouse.
 *
 * Its properties are `engine`, `order_by`, `partition_by`, `primary_key`, `sample_by`, `zookeeper_path`,
 * `setting.<name>` and `type.<column>`. What Spark adds by itself is passed over, and all others are refused.
 */
final class TableDefinition(
    database: String, table: String, columns: Seq[Column], partitioning: Seq[Transform], given: Map[String, String],
    servers: Int) {
  import TableDefinition._

  private val partitionKey =
    if (partitioning.isEmpty) given.getOrElse("partition_by", "")
    else partitioning.map(PartitionKeys.toClickHouse).mkString(", ")
  private val orderKey = given.getOrElse("order_by", "")
  private val keys = Seq(partitionKey, orderKey, given.getOrElse("primary_key", ""), given.getOrElse("sample_by", ""))
  private val words = keys.flatMap("\\w+".r.findAllIn(_)).toSet
  private val types = collectPrefixed(typePrefix)

  /** Returns the statement. Raises 36 for wrong properties, 48 for what has no counterpart. */
  def sql: String = {
    check()
    val settings = collectPrefixed(settingPrefix).toSeq.sorted.map { case (name, value) => formatSetting(name, value) }
    Seq(
      s"CREATE TABLE ${SqlText.quoteTable(database, table)} (${columns.map(columnText).mkString(", ")})",
      s"ENGINE = $engine",
      clause("PARTITION BY", partitionKey),
      clause("PRIMARY KEY", given.getOrElse("primary_key", "")),
      if (orderKey.trim.isEmpty) "ORDER BY tuple()" else clause("ORDER BY", orderKey),
      clause("SAMPLE BY", given.getOrElse("sample_by", "")),
      if (settings.isEmpty) "" else s"SETTINGS ${settings.mkString(", ")}",
      given.get(TableCatalog.PROP_COMMENT).map(text => s"COMMENT ${SqlText.quoteText(text)}").getOrElse("")
    ).filter(_.nonEmpty).mkString(" ")
  }

  private def check(): Unit = {
    val unknown = given.keys.toSeq.sorted.filterNot { name =>
      understood(name) || Seq(settingPrefix, typePrefix).exists(name.startsWith)
    }
    unknown.headOption.foreach { name =>
      val what = reserved.getOrElse(name, if (name.startsWith("option.")) "OPTIONS" else s"The property '$name'")
      throw PandoException.notOffered(
        s"$what is not offered in CREATE TABLE. The properties are ${offered.mkString(", ")}, " +
          s"$settingPrefix<name> and $typePrefix<column>")
    }
    given.get(TableCatalog.PROP_PROVIDER).filterNot(name => providers(name.toLowerCase)).foreach { name =>
      throw PandoException.notOffered(s"Tables of this catalog are Pando's own: leave USING $name out")
    }
    if (partitioning.nonEmpty && given.contains("partition_by")) {
      throw PandoException.badArguments("Give PARTITIONED BY or the property 'partition_by', not both")
    }
    types.keys.find(name => !columns.exists(_.name() == name)).foreach { name =>
      throw PandoException.badArguments(s"The property '$typePrefix$name' names a column that is not there")
    }
  }

  private def columnText(column: Column): String = {
    val isInKey = words(column.name()) || keys.exists(_.contains(SqlText.quoteName(column.name())))
    val type_ = types.getOrElse(
      column.name(), ColumnTypes.toClickHouse(column.dataType(), column.nullable() && !isInKey))
    val comment = Option(column.comment()).map(text => s" COMMENT ${SqlText.quoteText(text)}").getOrElse("")
    s"${SqlText.quoteName(column.name())} $type_$comment"
  }

  private def engine: String = {
    val isAlone = servers == 1 && !given.contains("zookeeper_path")
    val wanted = given.get("engine").map(_.trim).filter(_.nonEmpty)
      .getOrElse(if (isAlone) "MergeTree" else "ReplicatedMergeTree")
    val name = wanted.takeWhile(_ != '(').trim
    if (!name.matches("\\w*MergeTree") || !wanted.matches("(?s)\\w+\\s*(\\(.*\\))?")) {
      throw PandoException.notOffered(s"The engine '$wanted' is not offered: tables are of the MergeTree family")
    }
    val isReplicated = name.startsWith("Replicated")
    if (!isReplicated && !isAlone) {
      throw PandoException.badArguments(
        s"A $name table is on one server and knows no ZooKeeper, and the catalog's 'url' names $servers" +
          s"${if (given.contains("zookeeper_path")) ", 'zookeeper_path' one" else ""}; use ReplicatedMergeTree")
    }
    if (isReplicated && !wanted.contains("(")) {
      val path = given.getOrElse("zookeeper_path", s"/clickhouse/tables/{shard}/$database/$table")
      s"$name(${SqlText.quoteText(path)}, '{replica}')"
    } else if (given.contains("zookeeper_path")) {
      throw PandoException.badArguments("Give the path in ZooKeeper in 'engine' or in 'zookeeper_path', not in both")
    } else wanted
  }

  private def clause(words: String, expression: String): String =
    if (expression.trim.isEmpty) "" else s"$words ${SqlText.bracket(expression)}"

  private def collectPrefixed(prefix: String): Map[String, String] = given.collect {
    case (name, value) if name.startsWith(prefix) => name.stripPrefix(prefix) -> value
  }
}

object TableDefinition {
  val settingPrefix = "setting."
  val typePrefix = "type."
  private val offered = Seq("engine", "order_by", "partition_by", "primary_key", "sample_by", "zookeeper_path")
  private val providers = Set("pando")
  private val understood =
    offered.toSet ++ Set(TableCatalog.PROP_COMMENT, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_OWNER)
  private val reserved = Map(
    TableCatalog.PROP_LOCATION -> "LOCATION", TableCatalog.PROP_EXTERNAL -> "EXTERNAL",
    TableCatalog.PROP_COLLATION -> "DEFAULT COLLATION")

  /** Returns a setting with its value. Raises 36 for what is no name. */
  def formatSetting(name: String, value: String): String =
    if (name.matches("\\w+")) s"$name = ${SqlText.formatSetting(value)}"
    else throw PandoException.badArguments(s"'$name' is no name of a setting")
}
