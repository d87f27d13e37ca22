package pando.spark

import java.io.{BufferedInputStream, ByteArrayOutputStream, IOException, InputStream}
import java.net.{ConnectException, HttpURLConnection, NoRouteToHostException, Proxy, SocketTimeoutException, URI}
import java.net.UnknownHostException
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
    val answer = send(url, parameters, "text/plain; charset=UTF-8", sql.getBytes(UTF_8), options.timeout)
    try new String(answer.readWhole(), UTF_8) finally answer.close()
  }

  /** Returns what the first server gives, tried in turn as long as its error `mayRepeat`. */
  def tryInTurn[Result](urls: Seq[String], mayRepeat: PandoException => Boolean)(step: String => Result): Result = {
    val attempts = math.max(urls.size, math.min(options.retries + 1, firstRounds * urls.size))
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
  def open(url: String, path: String, body: JsonNode, silence: Double): Answer =
    send(url, path, "application/json", Json.mapper.writeValueAsBytes(body), silence)

  private def send(url: String, path: String, contentType: String, bytes: Array[Byte], silence: Double): Answer = {
    val connection = new URI(url + path).toURL.openConnection(Proxy.NO_PROXY).asInstanceOf[HttpURLConnection]
    try {
      connection.setRequestMethod("POST")
      connection.setDoOutput(true)
      connection.setConnectTimeout(milliseconds(options.connectTimeout))
      connection.setReadTimeout(milliseconds(silence))
      connection.setRequestProperty("User-Agent", "pando-spark")
      connection.setRequestProperty("Content-Type", contentType)
      authenticate(connection)
      connection.setFixedLengthStreamingMode(bytes.length)
      connection.getOutputStream.write(bytes)
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
  private val form = """(?s).*?(Code: (\d+)\. DB::Exception: .*)""".r

  /** Returns the error that a text tells. */
  def parseError(text: String, status: Int): Option[PandoException] = text match {
    case form(message, code) => Some(new PandoException(code.toInt, message, Failure.of(code.toInt, status)))
    case _ => None
  }

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

/**
 * An answer as it arrives.
 *
 * An error after its first bytes is a trailer (`engine/front/http/error_responses.py`), which stands where the next
 * message of the stream would begin. So `check` is called there.
 */
final class Answer(url: String, connection: HttpURLConnection, silence: Double) {
  private val stream = new BufferedInputStream(connection.getInputStream, 1 << 16)
  private val tag = connection.getHeaderField("X-ClickHouse-Exception-Tag")
  private lazy val mark = s"\r\n__exception__\r\n$tag\r\n".getBytes(UTF_8)
  private var isComplete = false
  /** The bytes that were received. */
  var received = 0L

  /** The bytes, for a reader that calls `check` between its messages. */
  val input: InputStream = new InputStream {
    override def read(): Int = {
      val value = stream.read()
      if (value >= 0) received += 1
      value
    }

    override def read(target: Array[Byte], offset: Int, length: Int): Int = {
      val count = stream.read(target, offset, length)
      if (count > 0) received += count
      count
    }
  }

  /** Raises the error that ends the answer, if it stands here. */
  def check(): Unit = guard {
    if (tag != null) {
      stream.mark(mark.length)
      val isTrailer = stream.readNBytes(4).sameElements(mark.take(4))
      stream.reset()
      if (isTrailer) {
        val (rest, _) = drain()
        throw trailing(rest, 0)
      }
    }
  }

  /** Returns the whole answer. */
  def readWhole(): Array[Byte] = {
    val (bytes, broken) = drain()
    broken.foreach { error =>
      val place = if (tag == null) -1 else bytes.lastIndexOfSlice(mark)
      throw if (place < 0) Servers.explain(url, error, silence) else trailing(bytes, place)
    }
    received += bytes.length
    isComplete = true
    bytes
  }

  /** Returns all bytes that come, and what broke them off. */
  private def drain(): (Array[Byte], Option[IOException]) = {
    val bytes = new ByteArrayOutputStream()
    try {
      stream.transferTo(bytes)
      (bytes.toByteArray, None)
    } catch {
      case error: IOException => (bytes.toByteArray, Some(error))
    }
  }

  /** Returns the error of the trailer that begins here. */
  private def trailing(bytes: Array[Byte], place: Int): PandoException = {
    val text = new String(bytes.drop(place + mark.length), UTF_8)
    val message = text.take(text.lastIndexOf('\n', math.max(0, text.lastIndexOf(s" $tag")))).trim
    Servers.parseError(message, 500).getOrElse(
      new PandoException(210, s"$url broke its answer off: ${text.take(500)}", Failure.MayHeal))
  }

  /** Runs a step of a reader; what breaks it is told as the connection's error. */
  def guard[Result](step: => Result): Result =
    try step
    catch {
      case error: IOException => throw Servers.explain(url, error, silence)
    }

  /** Says that everything was read, so that the connection may be used again. */
  def finish(): Unit = {
    guard(stream.readNBytes(1 << 16))
    isComplete = true
  }

  /** Ends the answer; the server ends its work if there is more of it. */
  def close(): Unit = if (isComplete) stream.close() else connection.disconnect()
}
