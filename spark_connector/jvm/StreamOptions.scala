package pando.spark

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

/** The options of a stream that is read; `starting` is `earliest`, `latest` or JSON. */
final case class StreamOptions(starting: String, maxRows: Option[Long], failsOnDataLoss: Boolean)

object StreamOptions {

  /** Options of a stream, in small letters. */
  val names: Set[String] = Set("startingoffsets", "maxrowspertrigger", "failondataloss")

  private val words = Set("earliest", "latest")

  /** Returns the text of an option `startingOffsets`, if it is one. */
  def parseStarting(text: String): String = {
    val word = text.trim.toLowerCase(java.util.Locale.ROOT)
    if (words(word)) word
    else {
      val given = Try(Json.mapper.readTree(text)).toOption
      val blocks = given.map(node => if (node.has("blocks")) node.get("blocks") else node)
      require(blocks.exists(node => node.isObject && node.elements().asScala.forall(isBlock)))
      text.trim
    }
  }

  private def isBlock(node: JsonNode): Boolean = node.isIntegralNumber && node.canConvertToLong && node.asLong() >= -1
}
