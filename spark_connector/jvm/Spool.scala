package pando.spark

import java.io.{InputStream, OutputStream}

import org.apache.commons.io.output.DeferredFileOutputStream

/** The bytes of an answer that must arrive whole before any of it is used; long ones are kept in a temporary file. */
final class Spool {
  private val kept = DeferredFileOutputStream.builder().setThreshold(Spool.mostInMemory).setPrefix("pando-").get()

  /** Where the bytes are written. */
  def output: OutputStream = kept

  /** The number of bytes. */
  def size: Long = kept.getByteCount

  /** Ends the writing, and returns the bytes. */
  def input(): InputStream = {
    kept.close()
    kept.toInputStream
  }

  /** Ends the writing, and returns the last bytes, at most so many. */
  def tail(most: Int): Array[Byte] = {
    val bytes = input()
    try {
      bytes.skipNBytes(math.max(0L, size - most))
      bytes.readAllBytes()
    } finally bytes.close()
  }

  /** Removes what is kept. */
  def remove(): Unit = {
    kept.close()
    Option(kept.getFile).foreach(_.delete())
  }
}

private object Spool {
  val mostInMemory: Int = 32 << 20
}
