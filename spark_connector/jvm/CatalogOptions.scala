package pando.spark

import java.util.Locale

/** The options of a catalog: those of a read, without what names a table or a part of one. */
object CatalogOptions {
  private val ofTables = Seq("table", "database", "columns", "filter", "query", "task_query", "scan_name")

  /** Options for a statement about no table. */
  val noTable: Map[String, String] = Map("database" -> "system", "table" -> "databases")

  /** Returns the options by the names that a read knows. Raises 36 for a wrong one, and for a password. */
  def check(options: Map[String, String]): Map[String, String] = {
    val lowered = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
    if (lowered.contains("password")) {
      throw PandoException.badArguments(
        "The configuration of a catalog must not have a password, which everybody can read there: name a variable of " +
          "the driver's environment in 'password_env', or a file there in 'password_file'")
    }
    if (lowered.contains("url") && lowered.contains("urls")) {
      throw PandoException.badArguments("Give 'url' or 'urls', not both")
    }
    ofTables.find(lowered.contains).foreach { name =>
      throw PandoException.badArguments(s"A catalog has no option '$name': it has all tables, and each as a whole")
    }
    val named = lowered.get("urls").map(urls => lowered - "urls" + ("url" -> urls)).getOrElse(lowered)
    parse(named ++ noTable)
    named
  }

  /** Returns the options of a table. Raises 36 for a wrong one, also where the session's configuration has it. */
  def parse(options: Map[String, String]): ReadOptions = {
    val parsed = ReadOptions.parseStrictly(options)
    if (parsed.filter.nonEmpty || parsed.columns.nonEmpty) {
      throw PandoException.badArguments(
        "A catalog has all tables, and each as a whole: spark.pando.filter and spark.pando.columns must not be set")
    }
    parsed
  }
}

/** Names of namespaces. */
object CatalogNames {
  /** The database of a namespace, which has one part. */
  def databaseOf(namespace: Array[String]): Option[String] = if (namespace.length == 1) namespace.headOption else None
}
