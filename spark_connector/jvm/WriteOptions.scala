package pando.spark

import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.SparkSession

/**
 * The options of a write into a table of a catalog, by the names that the format `pando` has.
 *
 * `token` or `application` names a job that commits once; `settings` go with every block, and with the commit.
 */
final case class WriteOptions(
    servers: ReadOptions,
    batchRows: Int,
    batchBytes: Long,
    token: String,
    application: String,
    version: Long,
    settings: Map[String, String])

object WriteOptions {
  private val setting = "setting."
  private val most = 1L << 30
  private val ofConnections = Set("connect_timeout", "timeout", "retries", "compression")

  /**
   * Returns the options of a table of a catalog, and those that one write adds to them.
   *
   * Raises 36 for a wrong one.
   */
  def parse(given: Map[String, String], added: Map[String, String]): WriteOptions = {
    val own = lower(added) -- Seq("is-sql")
    val ofSession = lower(SparkSession.active.conf.getAll).collect {
      case (name, value) if name.startsWith("spark.pando.batch_") => name.stripPrefix("spark.pando.") -> value
    }
    val values = (ofSession ++ lower(given) ++ own).filter(_._2.nonEmpty)
    val settings = own.collect { case (name, value) if name.startsWith(setting) => name.stripPrefix(setting) -> value } ++
      own.get("insert_quorum").map("insert_quorum" -> _)
    val ofWrites = Set("batch_rows", "batch_bytes", "token", "txnappid", "txnversion", "insert_quorum")
    val unknown = own.keys.toSeq.sorted.find { name =>
      !ofWrites(name) && !ofConnections(name) && !name.startsWith(setting) && !lower(given).get(name).contains(own(name))
    }
    unknown.foreach { name =>
      refuse(s"a write into a catalog's table has no option '$name'. Its options are batch_bytes, batch_rows, " +
        s"${ofConnections.toSeq.sorted.mkString(", ")}, insert_quorum, token, txnAppId, txnVersion and $setting<name>")
    }
    settings.keys.find(name => name.startsWith("insert_deduplication_token") || name.startsWith("insert_transaction"))
      .foreach(name => refuse(s"$setting$name is made by the connector; give the option 'token' instead"))
    if (values.contains("txnappid") != values.contains("txnversion") ||
      values.contains("token") && values.contains("txnappid")) {
      refuse("give 'txnAppId' together with 'txnVersion', or 'token'")
    }
    val token = values.getOrElse("token", "")
    WriteOptions(
      servers = CatalogOptions.parse(given ++ own.filter(item => ofConnections(item._1))),
      batchRows = math.min(count(values, "batch_rows", 500000, 1), Int.MaxValue).toInt,
      batchBytes = math.min(count(values, "batch_bytes", 256L << 20, 1), most),
      token = token,
      application = if (token.nonEmpty) s"token $token" else values.getOrElse("txnappid", ""),
      version = count(values, "txnversion", 0, 0),
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
