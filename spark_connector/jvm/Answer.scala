package pando.spark

import java.io.{ByteArrayOutputStream, IOException, InputStream, OutputStream, PushbackInputStream}
import java.net.HttpURLConnection
import java.nio.charset.StandardCharsets.UTF_8

/**
 * An answer as it arrives.
 *
 * An error after its first bytes is a trailer (`engine/front/http/error_responses.py`), which stands where the next
 * message of the stream would begin. So `check` is called there.
 */
final class Answer(url: String, connection: HttpURLConnection, silence: Double) {
  private val beginOfTrailer = 4
  /** Not buffered: a buffer asks the connection what is there, which then reads all of that into new memory. */
  private val stream = new PushbackInputStream(connection.getInputStream, beginOfTrailer)
  private val tag = connection.getHeaderField("X-ClickHouse-Exception-Tag")
  private lazy val mark = s"\r\n__exception__\r\n$tag\r\n".getBytes(UTF_8)
  private val longestTrailer = 1 << 20
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
      val begin = stream.readNBytes(beginOfTrailer)
      stream.unread(begin)
      if (begin.sameElements(mark.take(beginOfTrailer))) {
        val rest = new ByteArrayOutputStream()
        drain(rest)
        throw trailing(rest.toByteArray, 0)
      }
    }
  }

  /** Returns the whole answer, which is short. */
  def readWhole(): Array[Byte] = {
    val bytes = new ByteArrayOutputStream()
    drain(bytes).foreach(error => throw breaking(error, bytes.toByteArray))
    finishReading(bytes.size)
    bytes.toByteArray
  }

  /** Writes the whole answer to a spool. */
  def readWhole(spool: Spool): Unit = {
    drain(spool.output).foreach(error => throw breaking(error, spool.tail(longestTrailer)))
    finishReading(spool.size)
  }

  private def finishReading(bytes: Long): Unit = {
    received += bytes
    isComplete = true
  }

  /** Writes all bytes that come, and returns what broke them off. */
  private def drain(target: OutputStream): Option[IOException] =
    try {
      stream.transferTo(target)
      None
    } catch {
      case error: IOException => Some(error)
    }

  /** Returns what broke an answer off that ends with these bytes. */
  private def breaking(error: IOException, end: Array[Byte]): PandoException = {
    val place = if (tag == null) -1 else end.lastIndexOfSlice(mark)
    if (place < 0) Servers.explain(url, error, silence) else trailing(end, place)
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
