package pando.spark

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

/** JSON as the servers speak it. */
object Json {
  val mapper = new ObjectMapper()

  /** Returns an object of these members, without those that are `None`. */
  def obj(members: (String, Any)*): ObjectNode = {
    val node = mapper.createObjectNode()
    members.foreach {
      case (_, None) =>
      case (name, value) => node.set[JsonNode](name, encode(value))
    }
    node
  }

  /** Returns an array of these values. */
  def arr(values: Iterable[Any]): ArrayNode = {
    val node = mapper.createArrayNode()
    values.foreach(value => node.add(encode(value)))
    node
  }

  private def encode(value: Any): JsonNode = value match {
    case null => mapper.getNodeFactory.nullNode()
    case node: JsonNode => node
    case Some(inner) => encode(inner)
    case items: Iterable[_] => arr(items)
    case other => mapper.valueToTree[JsonNode](other.asInstanceOf[AnyRef])
  }
}
