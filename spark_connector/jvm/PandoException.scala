package pando.spark

/**
 * An error of a server, or of the way to it. `code` is ClickHouse's; `isUnsent` says that no server got the request.
 *
 * It is an `IllegalArgumentException`, because PySpark shows the message of one first, and not a Java trace.
 */
final class PandoException(
    val code: Int, message: String, val failure: Failure = Failure.Answered, val isUnsent: Boolean = false)
    extends IllegalArgumentException(message)

object PandoException {

  /** An error in what the user gave (36). */
  def badArguments(message: String): PandoException =
    new PandoException(36, s"Code: 36. DB::Exception: $message (BAD_ARGUMENTS)")

  /** An error for what is not offered (48). */
  def notOffered(message: String): PandoException =
    new PandoException(48, s"Code: 48. DB::Exception: $message (NOT_IMPLEMENTED)")
}

/** What a failure means for a read, which may always be repeated. */
sealed trait Failure

object Failure {

  /** The server's answer, which another would give too. */
  case object Answered extends Failure

  /** A server or connection that may be better later, or elsewhere. */
  case object MayHeal extends Failure

  /** A part that is broken here, or that this server lacks: another may have it. */
  case object OnlyHere extends Failure

  private val healing = Set(202, 209, 210, 242, 252, 285, 286, 319, 341, 369, 659, 999)
  private val onlyHere = Set(40, 74, 226, 227, 232, 246, 289, 517)

  /** Returns what the error of this code means. */
  def of(code: Int, status: Int): Failure =
    if (onlyHere(code)) OnlyHere
    else if (healing(code) || Set(429, 502, 503, 504)(status)) MayHeal
    else Answered
}
