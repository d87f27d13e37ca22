package pando.spark

import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.SparkSession

/**
 * The options of a write.
 *
 * `token` or `application` names a job that commits once; `settings` go with every block, and with the commit;
 * `overwrite` is the clause of a commit that replaces rows.
 */
final case class WriteOptions(
    servers: ReadOptions,
    batchRows: Int,
    batchBytes: Long,
    token: String,
    application: String,
    version: Long,
    overwrite: String,
    settings: Map[String, String]) {

  /** Whether a NULL in a column that has none becomes the column's default. */
  def allowsNull: Boolean = !Set("0", "false")(
    settings.getOrElse("input_format_null_as_default", "0").trim.toLowerCase(Locale.ROOT))
}

object WriteOptions {
  /** What the name of an option that is a setting of the server begins with. */
  val setting = "setting."

  private val ofJobs = Set("batch_rows", "batch_bytes", "token", "txnappid", "txnversion", "insert_quorum")
  private val ofConnections = Set("connect_timeout", "timeout", "retries", "compression")
  private val modes = Set("overwritemode", "partitionoverwritemode")
  private val most = 1L << 30

  /** Options of writes alone, in small letters. */
  val names: Set[String] = ofJobs ++ modes

  /**
   * Returns the options of a table of a catalog, and those that one write adds to them.
   *
   * Raises 36 for a wrong one.
   */
  def parse(given: Map[String, String], added: Map[String, String]): WriteOptions = {
    val own = lower(added) -- Seq("is-sql", "checkpointlocation")
    val ofSession = lower(SparkSession.active.conf.getAll).collect {
      case (name, value) if name.startsWith("spark.pando.batch_") => name.stripPrefix("spark.pando.") -> value
    }
    val unknown = own.keys.toSeq.sorted.find { name =>
      !ofJobs(name) && !ofConnections(name) && !name.startsWith(setting) && !lower(given).get(name).contains(own(name))
    }
    unknown.foreach { name =>
      refuse(s"a write into a catalog's table has no option '$name'. Its options are batch_bytes, batch_rows, " +
        s"${ofConnections.toSeq.sorted.mkString(", ")}, insert_quorum, token, txnAppId, txnVersion and $setting<name>")
    }
    val servers = CatalogOptions.parse(given ++ own.filter(item => ofConnections(item._1)))
    build(servers, (ofSession ++ lower(given) ++ own).filter(_._2.nonEmpty), settingsOf(own), "OVERWRITE")
  }

  /** Returns the options of a write of the format `pando`, or `None` for wrong ones: the Python source tells of them. */
  def parseFormat(given: Map[String, String], servers: ReadOptions): Option[WriteOptions] = Try {
    val values = ReadOptions.collect(given).filter(_._2.nonEmpty)
    val found = modes.toSeq.flatMap(values.get).map(_.trim.toLowerCase(Locale.ROOT))
    require(found.size < 2 && found.forall(Set("table", "partitions", "static", "dynamic")))
    val isOfPartitions = found.exists(Set("partitions", "dynamic"))
    build(servers, values, settingsOf(values), if (isOfPartitions) "OVERWRITE PARTITIONS" else "OVERWRITE")
  }.toOption

  private def settingsOf(values: Map[String, String]): Map[String, String] =
    values.collect { case (name, value) if name.startsWith(setting) => name.stripPrefix(setting) -> value } ++
      values.get("insert_quorum").map("insert_quorum" -> _)

  private def build(
      servers: ReadOptions, values: Map[String, String], settings: Map[String, String], overwrite: String)
      : WriteOptions = {
    settings.keys.find(name => name.startsWith("insert_deduplication_token") || name.startsWith("insert_transaction"))
      .foreach(name => refuse(s"$setting$name is made by the connector; give the option 'token' instead"))
    if (values.contains("txnappid") != values.contains("txnversion") ||
      values.contains("token") && values.contains("txnappid")) {
      refuse("give 'txnAppId' together with 'txnVersion', or 'token'")
    }
    val token = values.getOrElse("token", "")
    WriteOptions(
      servers = servers,
      batchRows = math.min(count(values, "batch_rows", 500000, 1), Int.MaxValue).toInt,
      batchBytes = math.min(count(values, "batch_bytes", 256L << 20, 1), most),
      token = token,
      application = if (token.nonEmpty) s"token $token" else values.getOrElse("txnappid", ""),
      version = count(values, "txnversion", 0, 0),
      overwrite = overwrite,
      settings = settings)
  }

  private def lower(options: Map[String, String]): Map[String, String] =
    options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }

  private def count(values: Map[String, String], name: String, default: Long, least: Long): Long =
    values.get(name).map { text =>
      Try(text.trim.toLong).filter(_ >= least).getOrElse(
        refuse(s"the option '$name' must be a whole number of at least $least, got '$text'"))
    }.getOrElse(default)

  private def refuse(message: String): Nothing = throw PandoException.badArguments(s"Catalog of Pando: $message")
}
