package pando.spark

/** Whether rows of a table can be written anew with others, so that it is the same table but for what was changed. */
object Rewriting {
  private val engines = Set("MergeTree", "ReplicatedMergeTree")

  /** Returns why a statement cannot write rows anew, if so (48). */
  def refuse(facts: TableFacts, statement: String, options: ReadOptions): Option[PandoException] = {
    val reason =
      if (!engines(facts.engine)) Some(
        s"it is a ${facts.engine} table, and those of ${engines.toSeq.sorted.mkString(" and ")} alone can be written anew: " +
          "the versions of a row are told apart by the order of the INSERTs")
      else if (facts.keepsBlockNumbers) Some(
        "it keeps block numbers (enable_block_number_column), so that streams read every row once: they would read rows " +
          "that are written anew once more")
      else None
    reason.map(text => PandoException.notOffered(s"$statement is not offered for ${options.fullName}: $text"))
  }

  /** Returns why Spark cannot read all of the rows and write them as they were, if so (48). */
  def refuseBySpark(facts: TableFacts, statement: String, options: ReadOptions): Option[PandoException] =
    refuse(facts, statement, options).orElse {
      val reason =
        if (facts.computedColumns.nonEmpty) Some(
          s"the column '${facts.computedColumns.head}' is computed (MATERIALIZED or ALIAS), and would be computed anew")
        else if (facts.losesNanoseconds) Some("with nanoseconds = 'truncate' all of its rows would lose them")
        else None
      reason.map(text => PandoException.notOffered(s"$statement is not offered for ${options.fullName}: $text"))
    }
}
