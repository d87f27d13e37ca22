package pando.spark

import java.util.UUID

import org.apache.spark.sql.connector.distributions.Distribution
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.StreamingWrite

/**
 * Builds the write of a job or a stream into a table: rows are added, or take the place of all rows, or of those of the
 * partitions that get some. `hasFunctions` says that Spark knows those of partition keys, from a catalog.
 */
final class PandoWriteBuilder(
    options: WriteOptions,
    facts: TableFacts,
    info: LogicalWriteInfo,
    hasFunctions: Boolean,
    replacing: WriteTarget => Replacement = _ => ReplacedByClause(""))
    extends WriteBuilder
    with SupportsOverwriteV2
    with SupportsDynamicOverwrite {
  private var replacement = replacing

  override def truncate(): WriteBuilder = replace(_ => ReplacedByClause(options.overwrite))

  override def overwriteDynamicPartitions(): WriteBuilder = replace(_ => ReplacedByClause("OVERWRITE PARTITIONS"))

  /** Takes conditions that the servers understand exactly as Spark does; refuses others (48). */
  override def overwrite(predicates: Array[Predicate]): WriteBuilder = {
    val asked = predicates.toSeq.filterNot(_.name() == "ALWAYS_TRUE")
    if (asked.isEmpty) truncate()
    else {
      val shown = asked.map(_.toString).mkString(" AND ")
      val condition = Pushing.findExact(options.servers, facts.fields, asked).getOrElse(throw PandoException.notOffered(
        s"OVERWRITE of the rows for which $shown holds is not offered: Spark and the servers may differ about them. " +
          "Overwrite whole partitions (overwritePartitions(), or INSERT OVERWRITE without PARTITION under " +
          "spark.sql.sources.partitionOverwriteMode = dynamic), or DELETE and append"))
      replace(new ReplacedWhere(_, facts, SqlText.and(condition), shown))
    }
  }

  private def replace(how: WriteTarget => Replacement): WriteBuilder = {
    replacement = how
    this
  }

  override def build(): Write = {
    val transaction = s"spark ${UUID.randomUUID().toString.replace("-", "")}"
    val target = WriteTarget.check(options, info.schema(), facts, transaction)
    InsertCasts.check(target.fullName)
    val layout = WriteLayout.of(facts, info.schema(), hasFunctions)
    new PandoWrite(target, replacement(target), layout, info.queryId(), facts.takes(info.schema()))
  }
}

/** A job or a stream, and the order of rows in which it makes few parts. */
private final class PandoWrite(
    target: WriteTarget, replacement: Replacement, layout: WriteLayout, query: String, isNatural: => Boolean)
    extends Write
    with RequiresDistributionAndOrdering {

  override def description(): String = s"pando ${target.fullName} ${replacement.description}".trim

  override def toBatch: BatchWrite = new PandoBatchWrite(target, replacement)

  override def toStreaming: StreamingWrite = {
    if (!isNatural) {
      throw new PandoException(53,
        s"Code: 53. DB::Exception: The columns of the stream (${target.fields.toDDL}) are not those of " +
          s"${target.fullName}, in the types in which it is read: name and cast them (TYPE_MISMATCH)")
    }
    val clause = replacement match {
      case ReplacedByClause(clause) => clause
      case _ => throw PandoException.notOffered(s"A stream that replaces rows by ${replacement.description} is not offered")
    }
    new StreamWrite(target, clause, if (target.options.token.isEmpty) query else target.options.token)
  }

  override def requiredDistribution(): Distribution = layout.distribution

  /** The items of the partition key by which Spark cannot divide the rows itself. */
  def periods: Seq[PartitionPeriod] = layout.periods

  /** Spark may divide a partition with many rows among tasks. */
  override def distributionStrictlyRequired(): Boolean = false

  override def requiredOrdering(): Array[SortOrder] = layout.ordering
}

/**
 * Writes a job in one transaction: its rows become visible all at once, or not at all.
 *
 * It is the counterpart of `python_source/batch_writer.py`, whose invariants hold here too.
 */
private final class PandoBatchWrite(target: WriteTarget, replacement: Replacement) extends BatchWrite {
  private val transactions = new Transactions(target)
  private val deduplicated = 389

  /**
   * Spark need not give leave to one attempt of a task: a commit names the attempts whose messages came. It would keep the
   * attempt out that follows one which failed at its last block, if that one's end is not known yet.
   */
  override def useCommitCoordinator(): Boolean = false

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = BlockWriterFactory(target)

  /** Commits the attempts that Spark took. Raises 389 if `token` committed other rows before. */
  override def commit(messages: Array[WriterCommitMessage]): Unit = {
    val staged = StagedBlocks.ofMessages(messages)
    val rows = staged.map(_.rows).sum
    val committed = replacement.commit(transactions, staged)
    val isComparable = target.options.token.nonEmpty && replacement.isOfJobAlone
    if (committed.isSkipped && isComparable && committed.rows != rows) {
      throw new PandoException(deduplicated,
        s"Code: 389. DB::Exception: A job with the token '${target.options.token}' wrote ${committed.rows} rows to " +
          s"${target.fullName} before, and this one has $rows: nothing was written. Another job needs a token of its " +
          "own (INSERT_WAS_DEDUPLICATED)")
    }
    committed.tell(target.fullName, staged)
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = {
    transactions.rollback()
    DriverLog.tell(s"the job failed: nothing was written to ${target.fullName}")
  }
}
