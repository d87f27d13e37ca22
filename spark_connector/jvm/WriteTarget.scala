package pando.spark

import org.apache.spark.sql.types.{Metadata, StructType}

/**
 * The table that a job writes to, as checked in the driver. `types` are the columns' types on the servers, in the order
 * of `fields`, which are Spark's.
 */
final case class WriteTarget(
    options: WriteOptions, fields: StructType, types: Seq[String], isReplicated: Boolean, transaction: String) {

  /** The servers that take blocks and commits: all replicas, or the only server. */
  def urls: Seq[String] = options.servers.urls

  /** The table as `database.table`. */
  def fullName: String = options.servers.fullName

  /** The table in SQL. */
  def sqlName: String = SqlText.quoteTable(options.servers.database, options.servers.table)
}

object WriteTarget {

  /** Checks a job against its table before the first row. Raises 16 for an unknown column, 36 or 48 for what cannot be. */
  def check(options: WriteOptions, schema: StructType, facts: TableFacts, transaction: String): WriteTarget = {
    val servers = options.servers
    val types = schema.fieldNames.toSeq.map { name =>
      facts.types.getOrElse(name, throw new PandoException(16,
        s"Code: 16. DB::Exception: There is no column '$name' in ${servers.fullName} (NO_SUCH_COLUMN_IN_TABLE)"))
    }
    if (servers.urls.size > 1 && !facts.isReplicated) {
      throw PandoException.badArguments(
        s"The option 'url' names ${servers.urls.size} servers, but ${servers.fullName} is a ${facts.engine} table, " +
          "which each server has for itself; name one, or use a Replicated table")
    }
    if (facts.hidesNanoseconds) {
      throw PandoException.notOffered(
        s"With nanoseconds = '${servers.nanoseconds}' a table with such times is not written to: its columns are not " +
          "timestamps then. Use another catalog, or the Python source (a session without the jar)")
    }
    val fields = StructType(schema.map(_.copy(metadata = Metadata.empty)))
    WriteTarget(options, fields, types, facts.isReplicated, transaction)
  }
}
