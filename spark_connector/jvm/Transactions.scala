package pando.spark

/** What a job got from its commit: `rows` are those of this commit, or of an earlier one of the same identity. */
final case class Committed(status: String, rows: Long) {

  /** Whether the job had committed before, so that nothing was written. */
  def isSkipped: Boolean = status.startsWith("skipped")

  /** Writes the commit to the driver's log. */
  def tell(table: String, staged: Seq[StagedBlocks]): Unit = DriverLog.tell(
    if (isSkipped) s"nothing was written to $table: a job of this identity had committed this version before"
    else s"$rows rows in ${staged.map(_.blocks).sum} blocks written to $table ($status)")
}

/**
 * The transaction of a job: INSERTs that stage blocks, and its end.
 *
 * Each request may be repeated, at another server too: a block has a token of its own, and a commit that was carried out
 * is not carried out again.
 */
final class Transactions(target: WriteTarget) {
  private val servers = new Servers(target.options.servers)
  private val name = SqlText.quoteText(target.transaction)
  private val tooManyParts = 252

  /** Stages one block of an attempt; the first server depends on the attempt, to spread the load. */
  def stage(attempt: String, token: String, block: EncodedBlock): Unit = {
    val names = target.fields.fieldNames.map(SqlText.quoteName).mkString(", ")
    val sql = s"INSERT INTO ${target.sqlName} ($names) FORMAT ArrowStream"
    val settings = Map("input_format_null_as_default" -> "0") ++ target.options.settings ++ Map(
      "insert_transaction" -> target.transaction,
      "insert_transaction_attempt" -> attempt,
      "insert_deduplication_token" -> token)
    val (before, after) = target.urls.splitAt(attempt.map(_.toInt).sum % target.urls.size)
    servers.tryInTurn(after ++ before, mayRepeat, Servers.allRounds) { url =>
      servers.insert(url, sql, settings, block.bytes, block.length)
    }
  }

  /** Commits the attempts that Spark took; `overwrite` is "", OVERWRITE or OVERWRITE PARTITIONS. */
  def commit(staged: Seq[StagedBlocks], overwrite: String): Committed = {
    val attempts = staged.filter(_.rows > 0).map(item => SqlText.quoteText(item.attempt))
    val application =
      if (target.options.application.isEmpty) ""
      else s"APPLICATION ${SqlText.quoteText(target.options.application)} VERSION ${target.options.version}"
    val sql = s"COMMIT TRANSACTION $name ON ${target.sqlName} $overwrite " +
      s"ATTEMPTS ${if (attempts.isEmpty) "''" else attempts.mkString(", ")} ROWS ${staged.map(_.rows).sum} " +
      s"$application FORMAT JSONEachRow"
    val answer = Json.mapper.readTree(servers.tryInTurn(target.urls, mayRepeat, Servers.allRounds) { url =>
      servers.run(url, sql, target.options.settings)
    })
    Committed(answer.get("status").asText(), answer.get("rows").asLong())
  }

  /** Rolls back if a server can be reached; else the servers drop the blocks after a day. */
  def rollback(): Unit =
    try servers.tryInTurn(target.urls, mayRepeat) { url =>
      servers.run(url, s"ROLLBACK TRANSACTION $name ON ${target.sqlName}", Map[String, String]())
    } catch {
      case error: PandoException => DriverLog.tell(s"the transaction could not be rolled back now: ${error.getMessage}")
    }

  /** A block of too many partitions is refused by each server at each time; it is divided instead. */
  private def mayRepeat(error: PandoException): Boolean =
    error.failure == Failure.MayHeal && !(error.code == tooManyParts && Transactions.hasTooManyPartitions(error))
}

object Transactions {

  /** Tells whether a block has rows of more partitions than a server takes at once. */
  def hasTooManyPartitions(error: PandoException): Boolean =
    error.getMessage.contains("Too many partitions for a single INSERT block")

  /** Tells whether a block came after its transaction was committed. */
  def wasCommitted(error: PandoException): Boolean = error.code == 649 && error.getMessage.contains(" was committed before")
}

/** The driver's log, where the format `pando` writes too. */
object DriverLog {

  /** Writes a line. */
  def tell(text: String): Unit = System.err.println(s"pando: $text")
}
