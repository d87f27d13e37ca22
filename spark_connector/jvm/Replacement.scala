package pando.spark

/** What becomes of the rows that a table has when those of a job come. */
trait Replacement {

  /** What plans show of it. */
  def description: String

  /** Commits what the job's tasks have staged. */
  def commit(transactions: Transactions, staged: Seq[StagedBlocks]): Committed

  /** Whether a commit has the rows of the job and no others. */
  def isOfJobAlone: Boolean = true
}

/** The servers drop the rows that `clause` of a commit names: none, all, or those of the partitions that get some. */
final case class ReplacedByClause(clause: String) extends Replacement {
  override def description: String = clause

  override def commit(transactions: Transactions, staged: Seq[StagedBlocks]): Committed =
    transactions.commit(staged, clause)
}
