package pando.spark

import java.io.IOException
import java.net.{ConnectException, HttpURLConnection, NoRouteToHostException, Proxy, SocketTimeoutException, URI}
import java.net.{URLEncoder, UnknownHostException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import com.fasterxml.jackson.databind.JsonNode

/** Requests to the servers: JSON or SQL there, JSON or an Arrow stream back. */
final class Servers(options: ReadOptions) {
  private val firstRounds = 4

  /** Returns the JSON answer of the first server that gives one, tried in turn. Raises `PandoException`. */
  def ask(path: String, body: JsonNode): JsonNode = tryInTurn(options.urls, _.failure == Failure.MayHeal) { url =>
    val answer = open(url, path, body, options.stallTimeout)
    try Json.mapper.readTree(answer.readWhole()) finally answer.close()
  }

  /** Runs a statement on one server, and returns its answer as text. */
  def run(url: String, sql: String): String = {
    val parameters = "/?wait_end_of_query=1&default_format=JSONEachRow&alter_sync=2"
    val bytes = sql.getBytes(UTF_8)
    val answer = send(url, parameters, "text/plain; charset=UTF-8", bytes, bytes.length, options.timeout)
    try new String(answer.readWhole(), UTF_8) finally answer.close()
  }

  /** Runs an INSERT on one server, under settings; the first `length` bytes are its rows. */
  def insert(url: String, sql: String, settings: Map[String, String], rows: Array[Byte], length: Int): Unit = {
    val path = Servers.query(settings + ("query" -> sql))
    val answer = send(url, path, "application/octet-stream", rows, length, options.timeout)
    try answer.readWhole() finally answer.close()
  }

  /** Runs a statement on one server, under settings, and returns its answer as text. */
  def run(url: String, sql: String, settings: Map[String, String]): String = {
    val bytes = sql.getBytes(UTF_8)
    val path = Servers.query(settings)
    val answer = send(url, path, "text/plain; charset=UTF-8", bytes, bytes.length, options.timeout)
    try new String(answer.readWhole(), UTF_8) finally answer.close()
  }

  /** Returns what the first server gives, tried in turn as long as its error `mayRepeat`. */
  def tryInTurn[Result](urls: Seq[String], mayRepeat: PandoException => Boolean, rounds: Int = firstRounds)(
      step: String => Result): Result = {
    val attempts = math.max(urls.size.toLong, math.min(options.retries + 1L, rounds.toLong * urls.size))
    var pause = 200L
    var attempt = 0
    while (true) {
      try return step(urls(attempt % urls.size))
      catch {
        case error: PandoException if mayRepeat(error) && attempt + 1 < attempts =>
          attempt += 1
          if (attempt % urls.size == 0) {
            Thread.sleep(pause)
            pause = math.min(2 * pause, 10000L)
          }
      }
    }
    throw new IllegalStateException
  }

  /** Sends a JSON request to one server, and returns its answer as it arrives. */
  def open(url: String, path: String, body: JsonNode, silence: Double): Answer = {
    val bytes = Json.mapper.writeValueAsBytes(body)
    send(url, path, "application/json", bytes, bytes.length, silence)
  }

  private def send(
      url: String, path: String, contentType: String, bytes: Array[Byte], length: Int, silence: Double): Answer = {
    val connection = new URI(url + path).toURL.openConnection(Proxy.NO_PROXY).asInstanceOf[HttpURLConnection]
    try {
      connection.setRequestMethod("POST")
      connection.setDoOutput(true)
      connection.setConnectTimeout(milliseconds(options.connectTimeout))
      connection.setReadTimeout(milliseconds(silence))
      connection.setRequestProperty("User-Agent", "pando-spark")
      connection.setRequestProperty("Content-Type", contentType)
      authenticate(connection)
      connection.setFixedLengthStreamingMode(length)
      connection.getOutputStream.write(bytes, 0, length)
      if (connection.getResponseCode == 200) new Answer(url, connection, silence)
      else throw refusal(url, connection)
    } catch {
      case error: IOException =>
        connection.disconnect()
        throw Servers.explain(url, error, silence)
    }
  }

  /** Headers hold ASCII without blanks at the ends; other names and passwords are sent as basic authentication. */
  private def authenticate(connection: HttpURLConnection): Unit = {
    val user = if (options.user.isEmpty) "default" else options.user
    val password = options.password.value
    if (options.user.nonEmpty || password.nonEmpty) {
      if (Seq(user, password).forall(text => text == text.trim && text.forall(letter => letter >= ' ' && letter < 127))) {
        connection.setRequestProperty("X-ClickHouse-User", user)
        connection.setRequestProperty("X-ClickHouse-Key", password)
      } else {
        val encoded = Base64.getEncoder.encodeToString(s"$user:$password".getBytes(UTF_8))
        connection.setRequestProperty("Authorization", s"Basic $encoded")
      }
    }
  }

  private def refusal(url: String, connection: HttpURLConnection): PandoException = {
    val stream = connection.getErrorStream
    val text = if (stream == null) "" else new String(stream.readNBytes(1 << 20), UTF_8).trim
    val status = connection.getResponseCode
    Servers.parseError(text, status).getOrElse(
      new PandoException(210, s"$url answered with HTTP status $status: ${text.take(500)}", Failure.of(210, status)))
  }

  private def milliseconds(seconds: Double): Int = math.max(1, (seconds * 1000).min(Int.MaxValue).toInt)
}

object Servers {
  /** Rounds over the servers until as many attempts as the option `retries` allows. */
  val allRounds: Int = Int.MaxValue

  private val form = """(?s).*?(Code: (\d+)\. DB::Exception: .*)""".r

  /** Returns the error that a text tells. */
  def parseError(text: String, status: Int): Option[PandoException] = text match {
    case form(message, code) => Some(new PandoException(code.toInt, message, Failure.of(code.toInt, status)))
    case _ => None
  }

  /** Returns the path of a request with these parameters. */
  private def query(parameters: Map[String, String]): String =
    parameters.map { case (name, value) => s"${URLEncoder.encode(name, UTF_8)}=${URLEncoder.encode(value, UTF_8)}" }
      .mkString("/?", "&", "")

  /** Returns what a broken connection means. */
  def explain(url: String, error: IOException, silence: Double): PandoException = {
    val (text, isUnsent) = error match {
      case _: ConnectException | _: UnknownHostException | _: NoRouteToHostException =>
        (s"Cannot connect to $url: ${error.getMessage} (is a server running there?)", true)
      case timeout: SocketTimeoutException if String.valueOf(timeout.getMessage).toLowerCase.contains("connect") =>
        (s"Cannot connect to $url: ${timeout.getMessage} (check host and port)", true)
      case _: SocketTimeoutException => (s"$url sent nothing for $silence s: the answer is not complete", false)
      case _ =>
        (s"The connection was lost before the answer of $url was complete (${error.getClass.getSimpleName}): " +
          error.getMessage, false)
    }
    new PandoException(210, s"Code: 210. DB::Exception: $text (NETWORK_ERROR)", Failure.MayHeal, isUnsent)
  }
}
