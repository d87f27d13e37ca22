package pando.spark

import java.io.IOException
import java.net.{URI, URISyntaxException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{MetadataBuilder, StructType}

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
    isShardingTrusted: Boolean,
    maxReplicaDelay: Double,
    compression: String,
    nanoseconds: String,
    stream: StreamOptions,
    sample: Option[RowSample] = None
) {

  /** The table as `database.table`. */
  def fullName: String = s"$database.$table"

  /** Returns the condition in SQL of the rows to read: the filter's, and the sample's of a shard or of the whole table. */
  def condition(shard: Int = 0): String = SqlText.and(filter +: sample.map(_.condition(shard)).toSeq)

  /** Whether the number of tasks or their size is given. */
  def hasTaskSize: Boolean = partitions.nonEmpty || maxRowsPerTask.nonEmpty || maxBytesPerTask.nonEmpty
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
    "select_sequential_consistency", "optimize_skip_unused_shards", "max_replica_delay_seconds", "compression", "nanoseconds") ++ logins ++
    StreamOptions.names
  private val notOfCatalogs = Set("table", "database", "columns", "filter", "scan_name", "password")
  /** Options of writes, which a read passes over. */
  private val passedOver = WriteOptions.names + "checkpointlocation"

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
    val values = collect(options)
    if (isSecretKept(options) || unknownOf(values).nonEmpty) None else Try(build(values.filter(_._2.nonEmpty))).toOption
  }

  /** Returns the options of a catalog's table. Raises 36 that names the wrong one. */
  def parseStrictly(options: Map[String, String]): ReadOptions = {
    val values = collect(options)
    unknownOf(values).headOption.foreach { name =>
      throw PandoException.badArguments(
        s"A catalog has no option '$name'. Its options are ${(understood -- notOfCatalogs).toSeq.sorted.mkString(", ")}")
    }
    try build(values.filter(_._2.nonEmpty))
    catch {
      case error @ (_: IllegalArgumentException | _: IOException | _: URISyntaxException) =>
        throw PandoException.badArguments(s"The options of the catalog are wrong: ${error.getMessage}")
    }
  }

  /** Returns the options in small letters, completed by the session's and those that Spark's catalog keeps of a table. */
  def collect(options: Map[String, String]): Map[String, String] = {
    val defaults = fromSession(SparkSession.active.conf.getAll)
    val lowered = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }
    val (copies, others) = lowered.partition(_._1.startsWith(copy))
    val plain = if (copies.isEmpty) others else others.filter(item => isKnown(item._1))  // not properties
    val own = (copies.map { case (name, value) => name.stripPrefix(copy) -> value } ++ plain) -- ignored
    val kept = if (own.keys.exists(logins)) defaults -- logins else defaults
    kept ++ own
  }

  /**
   * Returns the schema of a table of Spark's own catalog with its options in the metadata of the columns; others as they
   * are. Spark keeps the options, but gives a Python source only the schema (`shared/type_mapping.py`).
   */
  def storeInSchema(schema: StructType, options: Map[String, String]): StructType =
    if (!options.keys.exists(_.toLowerCase(Locale.ROOT).startsWith(copy))) schema
    else {
      val stored = new MetadataBuilder().putString("pando.options", Json.obj(options.toSeq: _*).toString).build()
      StructType(schema.map(_.copy(metadata = stored)))
    }

  private def unknownOf(values: Map[String, String]): Seq[String] =
    values.keys.toSeq.sorted.filterNot(isKnown)

  private def isKnown(name: String): Boolean =
    understood(name) || passedOver(name) || name.startsWith(WriteOptions.setting)

  /** Tells whether a table that Spark's own catalog keeps has a password, which is refused. */
  private def isSecretKept(options: Map[String, String]): Boolean =
    options.keys.exists(_.toLowerCase(Locale.ROOT) == s"${copy}password")

  private def build(values: Map[String, String]): ReadOptions = {
    val (database, table) = values.get("database") match {
      case Some(name) => (name, values.getOrElse("table", missing("table")))
      case None =>
        values.getOrElse("table", missing("table")).split("\\.", 2) match {
          case Array(first, rest) => (first, rest)
          case Array(name) => ("default", name)
        }
    }
    ReadOptions(
      urls = read(values, "url")(_.split(",").toSeq.map(checkUrl).distinct).getOrElse(missing("url")),
      database = database,
      table = table,
      user = values.getOrElse("user", ""),
      password = Secret(readPassword(values)),
      connectTimeout = seconds(values, "connect_timeout", 5),
      timeout = seconds(values, "timeout", 660),
      stallTimeout = seconds(values, "stall_timeout", 60),
      retries = read(values, "retries")(count(_, 0).toInt).getOrElse(6),
      columns = splitNames(values.getOrElse("columns", "")),
      filter = values.getOrElse("filter", ""),
      scanName = values.getOrElse("scan_name", ""),
      partitions = read(values, "partitions")(count(_, 1)),
      maxRowsPerTask = read(values, "max_rows_per_task")(count(_, 1)),
      maxBytesPerTask = read(values, "max_bytes_per_task")(count(_, 1)),
      leaseSeconds = seconds(values, "lease_seconds", 300),
      sequentialConsistency = read(values, "select_sequential_consistency")(flag).getOrElse(false),
      isShardingTrusted = read(values, "optimize_skip_unused_shards")(flag).getOrElse(false),
      maxReplicaDelay = seconds(values, "max_replica_delay_seconds", 300),
      compression = read(values, "compression")(codec).getOrElse("none"),
      nanoseconds = read(values, "nanoseconds")(choice(_, "error", "truncate", "long", "string")).getOrElse("error"),
      stream = StreamOptions(
        starting = read(values, "startingoffsets")(StreamOptions.parseStarting).getOrElse("earliest"),
        maxRows = read(values, "maxrowspertrigger")(count(_, 1)),
        failsOnDataLoss = read(values, "failondataloss")(flag).getOrElse(true)))
  }

  private def checkUrl(text: String): String = {
    val url = text.trim.stripSuffix("/")
    val parsed = new URI(url)
    require(Set("http", "https")(parsed.getScheme) && parsed.getHost != null)
    require(parsed.getRawPath.isEmpty && parsed.getRawQuery == null && parsed.getRawUserInfo == null)
    url
  }

  private def readPassword(values: Map[String, String]): String = {
    if (Seq("password", "password_env", "password_file").count(values.contains) > 1) {
      throw new IllegalArgumentException("give one of 'password', 'password_env' and 'password_file'")
    }
    values.get("password_env").map { name =>
      sys.env.getOrElse(name, throw new IllegalArgumentException(
        s"the environment variable '$name', named by the option 'password_env', is not set in the driver"))
    }.orElse(
      values.get("password_file").map { file =>
        new String(Files.readAllBytes(Paths.get(file)), UTF_8).reverse.dropWhile("\r\n".contains(_)).reverse
      }).getOrElse(values.getOrElse("password", ""))
  }

  private def missing(name: String): Nothing = throw new IllegalArgumentException(s"the option '$name' is missing")

  private def read[Value](values: Map[String, String], name: String)(convert: String => Value): Option[Value] =
    values.get(name).map { text =>
      try convert(text)
      catch {
        case _: IllegalArgumentException | _: URISyntaxException =>
          val shown = if (name == "url") "expected http://host:port, several separated by commas" else s"'$text'"
          throw new IllegalArgumentException(s"the option '$name' has a wrong value: $shown")
      }
    }

  private def seconds(values: Map[String, String], name: String, default: Double): Double =
    read(values, name) { text =>
      val number = text.toDouble
      require(number > 0 && number < 1e9)
      number
    }.getOrElse(default)

  private def count(text: String, least: Long): Long = {
    val number = text.trim.toLong
    require(number >= least)
    number
  }

  private def flag(text: String): Boolean = choice(text, "0", "1", "true", "false").matches("1|true")

  /** ZSTD is native; Arrow's LZ4 of Java takes minutes where it takes seconds. */
  private def codec(text: String): String = {
    val chosen = choice(text, "lz4", "zstd", "none")
    require(chosen == "none" || Compression.isThere)
    if (chosen == "lz4") "zstd" else chosen
  }

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
