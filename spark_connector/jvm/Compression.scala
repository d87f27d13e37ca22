package pando.spark

import scala.util.Try

import org.apache.arrow.vector.compression.{CompressionCodec, NoCompressionCodec}

/** The codecs of Arrow streams, which not every version of Spark ships. */
object Compression {
  private val found: Option[CompressionCodec.Factory] = Try {
    classOf[CompressionCodec].getClassLoader.loadClass("org.apache.arrow.compression.CommonsCompressionFactory")
      .getField("INSTANCE").get(null).asInstanceOf[CompressionCodec.Factory]
  }.toOption

  /** Whether there are codecs. */
  val isThere: Boolean = found.isDefined

  /** What makes the codecs; without them streams must not be compressed. */
  val factory: CompressionCodec.Factory = found.getOrElse(NoCompressionCodec.Factory.INSTANCE)
}
