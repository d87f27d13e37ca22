package pando.spark

import java.util.UUID

/**
 * A scan that has begun on a server, before its rows are read: a commit can name it, and is then refused if others have
 * changed the rows meanwhile.
 *
 * It has all rows that were inserted before. What is asked of the server later is as new, or newer. So if the commit is
 * not refused, it was the same.
 */
final class BegunScan(options: ReadOptions, fields: Seq[String], url: String) {
  private val servers = new Servers(options)
  private val table = SqlText.quoteTable(options.database, options.table)

  /** The name of the scan. */
  val name: String = UUID.randomUUID().toString

  locally {
    val body = Json.obj(
      "scan" -> name,
      "is_alone" -> (options.urls.size == 1),
      "database" -> options.database,
      "table" -> options.table,
      "columns" -> fields,
      "lease_seconds" -> options.leaseSeconds,
      "max_delay_seconds" -> options.maxReplicaDelay)
    val answer = servers.open(url, "/scan/begin", body, options.timeout)
    try answer.readWhole() finally answer.close()
  }

  /** Returns the partitions that have rows for which the condition holds, or that have rows at all. */
  def partitionsWhere(condition: String): Seq[String] = {
    val sql =
      if (condition.nonEmpty) s"SELECT DISTINCT _partition_id AS id FROM $table WHERE $condition ORDER BY id"
      else "SELECT DISTINCT partition_id AS id FROM system.parts WHERE active AND " +
        s"database = ${SqlText.quoteText(options.database)} AND table = ${SqlText.quoteText(options.table)} ORDER BY id"
    select(sql).map(_.get("id").asText())
  }

  /** Returns the number of rows for which the condition holds. */
  def countWhere(condition: String): Long =
    select(s"SELECT count() AS rows FROM $table WHERE $condition").head.get("rows").asLong()

  /** Carries a statement out on the server that was asked. */
  def run(sql: String, settings: Map[String, String]): Unit = servers.run(url, sql, settings)

  private def select(sql: String) =
    servers.run(url, sql).split('\n').toSeq.filter(_.nonEmpty).map(Json.mapper.readTree(_))
}

object BegunScan {

  /** Does a step with a scan that has begun at the first server that carries it out. */
  def on[Result](options: ReadOptions, fields: Seq[String])(step: BegunScan => Result): Result =
    new Servers(options).tryInTurn(options.urls, error => Set[Failure](Failure.MayHeal, Failure.OnlyHere)(error.failure)) {
      url => step(new BegunScan(options, fields, url))
    }

  /** Returns the condition that holds in these partitions. */
  def inPartitions(ids: Seq[String]): String =
    if (ids.isEmpty) "0" else s"_partition_id IN (${ids.map(SqlText.quoteText).mkString(", ")})"

  /** Returns the clause of a commit that replaces these partitions, or fails if what the scan read has changed there. */
  def replacing(ids: Seq[String], scan: String): String =
    s"OVERWRITE PARTITIONS ID ${ids.map(SqlText.quoteText).mkString(", ")} UNCHANGED SINCE SCAN ${SqlText.quoteText(scan)}"
}
