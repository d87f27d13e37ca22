package pando.spark

import com.fasterxml.jackson.databind.JsonNode

/** Statements of ClickHouse's SQL on the servers of a catalog. */
final class Statements(options: ReadOptions) {
  private val servers = new Servers(options)
  private val readOnly = 242

  /** Returns the rows of a SELECT, from the first server that answers. */
  def select(sql: String): Seq[JsonNode] = {
    val text = servers.tryInTurn(options.urls, _.failure == Failure.MayHeal)(servers.run(_, sql))
    text.split('\n').toSeq.filter(_.nonEmpty).map(Json.mapper.readTree(_))
  }

  /** Runs a statement on one server: the first that can be reached and may write. It is never sent twice. */
  def runOnce(sql: String): Unit =
    servers.tryInTurn(options.urls, error => error.isUnsent || error.code == readOnly)(servers.run(_, sql))

  /**
   * Runs a statement on every server, in turn.
   *
   * If one refuses it, the error says which have carried it out: those later in the list have not got it.
   */
  def runEverywhere(sql: String): Unit = options.urls.foldLeft(Seq[String]()) { (done, url) =>
    try servers.tryInTurn(Seq(url), _.isUnsent)(servers.run(_, sql))
    catch {
      case error: PandoException if done.nonEmpty =>
        throw new PandoException(
          error.code, s"${error.getMessage}. ${done.mkString(", ")} carried it out, $url did not: repeat it there", error.failure)
    }
    done :+ url
  }

  /** Runs a statement on every server that carries it out; the others are told in the driver's log. */
  def tryEverywhere(sql: String): Unit = options.urls.foreach { url =>
    try servers.run(url, sql)
    catch {
      case error: PandoException => DriverLog.tell(s"$url did not carry out $sql: ${error.getMessage}")
    }
  }
}
