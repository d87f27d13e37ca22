package pando.spark

import java.util.UUID

/**
 * The rows of a job take the place of those for which a condition holds, of ClickHouse and with exactly Spark's meaning.
 *
 * The servers replace whole partitions. So one of them stages the other rows of these partitions beside the job's, and
 * the commit replaces the partitions if nobody has changed them meanwhile; otherwise all but the job is done again.
 */
final class ReplacedWhere(target: WriteTarget, facts: TableFacts, condition: String, shown: String) extends Replacement {
  /** Also while the rows were counted and copied, so that the counts differ. */
  private val changed = Set(650, 649)
  private val attempts = 5
  private val options = target.options.servers

  override def description: String = s"OVERWRITE WHERE $shown"

  override def isOfJobAlone: Boolean = false

  override def commit(transactions: Transactions, staged: Seq[StagedBlocks]): Committed = {
    var left = attempts
    while (true) {
      left -= 1
      val (ids, kept, scan) = BegunScan.on(options, target.fields.fieldNames.toSeq)(keepOthers)
      try return transactions.commit(staged ++ kept, if (ids.isEmpty) "" else BegunScan.replacing(ids, scan))
      catch {
        case error: PandoException if changed(error.code) && left > 0 =>
          DriverLog.tell(s"the rows to keep are read again: ${error.getMessage}")
      }
    }
    throw new IllegalStateException
  }

  /** Stages the rows of the same partitions that stay; returns the partitions, the staged rows, and the scan's name. */
  private def keepOthers(scan: BegunScan): (Seq[String], Option[StagedBlocks], String) = {
    val ids = scan.partitionsWhere(condition)
    val others = s"${BegunScan.inPartitions(ids)} AND NOT ifNull(${SqlText.bracket(condition)}, 0)"
    val rows = if (ids.isEmpty) 0 else scan.countWhere(others)
    if (rows == 0) (ids, None, scan.name)
    else {
      Rewriting.refuse(facts, "OVERWRITE by a condition that does not choose whole partitions", options).foreach(throw _)
      val attempt = s"kept:${UUID.randomUUID().toString.replace("-", "").take(12)}"
      val columns = facts.storedColumns.map(SqlText.quoteName).mkString(", ")
      val settings = target.options.settings ++ Map(
        "insert_transaction" -> target.transaction,
        "insert_transaction_attempt" -> attempt,
        "insert_allow_materialized_columns" -> "1",
        "max_partitions_per_insert_block" -> "0")
      scan.run(s"INSERT INTO ${target.sqlName} ($columns) SELECT $columns FROM ${target.sqlName} WHERE $others", settings)
      (ids, Some(StagedBlocks(attempt, rows, 1)), scan.name)
    }
  }
}
