package pando.spark

import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.SparkSession

/** The options of a read that this side understands. Times are in seconds. */
final case class ReadOptions(
    urls: Seq[String],
    database: String,
    table: String,
    user: String,
    password: Secret,
    connectTimeout: Double,
    timeout: Double,
    stallTimeout: Double,
    retries: Int,
    columns: Seq[String],
    filter: String,
    scanName: String,
    partitions: Option[Long],
    maxRowsPerTask: Option[Long],
    maxBytesPerTask: Option[Long],
    leaseSeconds: Double,
    sequentialConsistency: Boolean,
    maxReplicaDelay: Double,
    compression: String,
    nanoseconds: String
) {

  /** The table as `database.table`. */
  def fullName: String = s"$database.$table"
}

/** A password, which no plan, log or message shows. */
final case class Secret(value: String) {
  override def toString: String = if (value.isEmpty) "" else "***"
}

/** Parses options by the rules of the Python source (`spark_connector/shared/options.py`). */
object ReadOptions {
  private val prefix = "spark.pando."
  private val copy = "option."
  private val logins = Set("user", "password", "password_env", "password_file")
  private val ignored = Set(
    "serialization.format", "provider", "owner", "location", "is_managed_location", "external")
  private val understood = Set(
    "url", "table", "database", "connect_timeout", "timeout", "stall_timeout", "retries", "columns", "filter",
    "scan_name", "partitions", "max_rows_per_task", "max_bytes_per_task", "lease_seconds",
    "select_sequential_consistency", "max_replica_delay_seconds", "compression", "nanoseconds") ++ logins
  /** Options of writes and streams, which a batch read passes over. */
  private val passedOver = Set("batch_rows", "batch_bytes", "maxrowspertrigger", "startingoffsets", "failondataloss")

  /** Returns the options that the session's configuration has; a password there is for everybody to read. */
  private def fromSession(configuration: Map[String, String]): Map[String, String] =
    configuration.collect {
      case (name, value) if name.startsWith(prefix) && value.nonEmpty => name.stripPrefix(prefix) -> value
    } - "password"

  /**
   * Returns the options, or `None` for those that the Python source decides on: it reads what this side does not
   * (`query`, `task_query`), and tells what is wrong with the others.
   */
  def parse(options: Map[String, String]): Option[ReadOptions] = {
    val defaults = fromSession(SparkSession.active.conf.getAll)
    val lowered = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
    val (copies, others) = lowered.partition(_._1.startsWith(copy))
    val plain = if (copies.isEmpty) others else others.filter(item => understood(item._1))  // a table's own properties
    val own = (copies.map { case (name, value) => name.stripPrefix(copy) -> value } ++ plain) -- ignored
    val kept = if (own.keys.exists(logins)) defaults -- logins else defaults
    val values = kept ++ own
    val isSecretKept = copies.contains(s"${copy}password") // of a catalog table, which is refused
    if (isSecretKept || values.keys.exists(name => !understood(name) && !passedOver(name))) None
    else Try(build(values.filter(_._2.nonEmpty))).toOption
  }

  private def build(values: Map[String, String]): ReadOptions = {
    val (database, table) = values.get("database") match {
      case Some(name) => (name, values("table"))
      case None =>
        values("table").split("\\.", 2) match {
          case Array(first, rest) => (first, rest)
          case Array(name) => ("default", name)
        }
    }
    ReadOptions(
      urls = values("url").split(",").toSeq.map(checkUrl).distinct,
      database = database,
      table = table,
      user = values.getOrElse("user", ""),
      password = Secret(readPassword(values)),
      connectTimeout = seconds(values, "connect_timeout", 5),
      timeout = seconds(values, "timeout", 660),
      stallTimeout = seconds(values, "stall_timeout", 60),
      retries = values.get("retries").map(count(_, 0).toInt).getOrElse(6),
      columns = splitNames(values.getOrElse("columns", "")),
      filter = values.getOrElse("filter", ""),
      scanName = values.getOrElse("scan_name", ""),
      partitions = values.get("partitions").map(count(_, 1)),
      maxRowsPerTask = values.get("max_rows_per_task").map(count(_, 1)),
      maxBytesPerTask = values.get("max_bytes_per_task").map(count(_, 1)),
      leaseSeconds = seconds(values, "lease_seconds", 300),
      sequentialConsistency = flag(values.getOrElse("select_sequential_consistency", "0")),
      maxReplicaDelay = seconds(values, "max_replica_delay_seconds", 300),
      compression = choice(values.getOrElse("compression", "none"), "lz4", "zstd", "none"),
      nanoseconds = choice(values.getOrElse("nanoseconds", "error"), "error", "truncate", "long", "string"))
  }

  private def checkUrl(text: String): String = {
    val url = text.trim.stripSuffix("/")
    val parsed = new URI(url)
    require(Set("http", "https")(parsed.getScheme) && parsed.getHost != null)
    require(parsed.getRawPath.isEmpty && parsed.getRawQuery == null && parsed.getRawUserInfo == null)
    url
  }

  private def readPassword(values: Map[String, String]): String = {
    require(Seq("password", "password_env", "password_file").count(values.contains) <= 1)
    values.get("password_env").map(sys.env).orElse(
      values.get("password_file").map { file =>
        new String(Files.readAllBytes(Paths.get(file)), UTF_8).reverse.dropWhile("\r\n".contains(_)).reverse
      }).getOrElse(values.getOrElse("password", ""))
  }

  private def seconds(values: Map[String, String], name: String, default: Double): Double = {
    val number = values.get(name).map(_.toDouble).getOrElse(default)
    require(number > 0 && number < 1e9)
    number
  }

  private def count(text: String, least: Long): Long = {
    val number = text.trim.toLong
    require(number >= least)
    number
  }

  private def flag(text: String): Boolean = choice(text, "0", "1", "true", "false").matches("1|true")

  private def choice(text: String, choices: String*): String = {
    val chosen = text.trim.toLowerCase(Locale.ROOT)
    require(choices.contains(chosen))
    chosen
  }

  /** Splits names at commas; a name in backquotes may have commas, and a doubled backquote. */
  private def splitNames(text: String): Seq[String] =
    "(?:`(?:[^`]|``)*`|[^,`])+".r.findAllIn(text).map(_.trim).filter(_.nonEmpty).map { item =>
      if (item.startsWith("`")) item.substring(1, item.length - 1).replace("``", "`") else item
    }.toSeq
}
