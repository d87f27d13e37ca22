package pando.spark

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.distributions.Distribution
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._

/**
 * Builds the write of a job into a table of a catalog: rows are added, or take the place of all rows, or of those of the
 * partitions that get some.
 */
final class PandoWriteBuilder(given: Map[String, String], facts: TableFacts, info: LogicalWriteInfo)
    extends WriteBuilder
    with SupportsOverwriteV2
    with SupportsDynamicOverwrite {
  private var overwrite = ""

  override def truncate(): WriteBuilder = {
    overwrite = "OVERWRITE"
    this
  }

  override def overwriteDynamicPartitions(): WriteBuilder = {
    overwrite = "OVERWRITE PARTITIONS"
    this
  }

  /** The servers drop all rows in a commit, or whole partitions, so other conditions are refused. */
  override def overwrite(predicates: Array[Predicate]): WriteBuilder =
    if (predicates.forall(_.name() == "ALWAYS_TRUE")) truncate()
    else throw PandoException.notOffered(
      s"OVERWRITE of the rows for which ${predicates.map(_.toString).mkString(" AND ")} holds is not offered. Overwrite " +
        "whole partitions (overwritePartitions(), or INSERT OVERWRITE without PARTITION under " +
        "spark.sql.sources.partitionOverwriteMode = dynamic), or all rows")

  override def build(): Write = {
    val options = WriteOptions.parse(given, info.options().asCaseSensitiveMap().asScala.toMap)
    val transaction = s"spark ${UUID.randomUUID().toString.replace("-", "")}"
    val target = WriteTarget.check(options, info.schema(), facts, transaction)
    InsertCasts.check(target.fullName)
    new PandoWrite(target, overwrite, WriteLayout.of(facts, info.schema()))
  }
}

/** A job, and the order of rows in which it makes few parts. */
private final class PandoWrite(target: WriteTarget, overwrite: String, layout: WriteLayout)
    extends Write
    with RequiresDistributionAndOrdering {

  override def description(): String = s"pando ${target.fullName} $overwrite".trim

  override def toBatch: BatchWrite = new PandoBatchWrite(target, overwrite)

  override def requiredDistribution(): Distribution = layout.distribution

  /** Spark may divide a partition with many rows among tasks. */
  override def distributionStrictlyRequired(): Boolean = false

  override def requiredOrdering(): Array[SortOrder] = layout.ordering
}

/**
 * Writes a job in one transaction: its rows become visible all at once, or not at all.
 *
 * It is the counterpart of `python_source/batch_writer.py`, whose invariants hold here too.
 */
private final class PandoBatchWrite(target: WriteTarget, overwrite: String) extends BatchWrite {
  private val transactions = new Transactions(target)
  private val deduplicated = 389

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = BlockWriterFactory(target)

  /** Commits the attempts that Spark took. Raises 389 if `token` committed other rows before. */
  override def commit(messages: Array[WriterCommitMessage]): Unit = {
    val staged = StagedBlocks.ofMessages(messages)
    val rows = staged.map(_.rows).sum
    val committed = transactions.commit(staged, overwrite)
    if (committed.isSkipped && target.options.token.nonEmpty && committed.rows != rows) {
      throw new PandoException(deduplicated,
        s"Code: 389. DB::Exception: A job with the token '${target.options.token}' wrote ${committed.rows} rows to " +
          s"${target.fullName} before, and this one has $rows: nothing was written. Another job needs a token of its " +
          "own (INSERT_WAS_DEDUPLICATED)")
    }
    DriverLog.tell(
      if (committed.isSkipped) {
        s"nothing was written to ${target.fullName}: a job of this identity had committed this version before"
      } else {
        s"${committed.rows} rows in ${staged.map(_.blocks).sum} blocks written to ${target.fullName} (${committed.status})"
      })
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = {
    transactions.rollback()
    DriverLog.tell(s"the job failed: nothing was written to ${target.fullName}")
  }
}
