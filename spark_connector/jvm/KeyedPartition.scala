package pando.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

/** A partition that has rows to read, in the state in which a scan has begun. `given` are the values of all keys. */
final case class KeyedPartition(id: String, slots: Int, bytes: Long, given: Map[ScanKey, Any]) {

  /** Returns the values of these keys. */
  def values(keys: Seq[ScanKey]): Seq[Any] = keys.map(given)
}

object KeyedPartition {

  /** Begins a scan under a name; returns its partitions, or none if the table's keys are not these any more. */
  def begin(scan: PandoScan, name: String, keys: Seq[ScanKey]): Seq[KeyedPartition] = {
    val options = scan.options
    val body = scan.whatToRead(None)
    body.put("scan", name)
    body.put("by_partition", true)
    body.put("is_alone", options.urls.size == 1)
    body.put("lease_seconds", options.leaseSeconds)
    body.put("sequential_consistency", options.sequentialConsistency)
    body.put("max_delay_seconds", options.maxReplicaDelay)
    val answer = new Servers(options).ask("/scan/begin", body)
    if (ScanKey.listOf(answer) != keys) Seq()
    else answer.get("partitions").elements().asScala.toSeq.map(read(_, keys))
  }

  private def read(found: JsonNode, keys: Seq[ScanKey]): KeyedPartition = {
    val values = keys.zip(found.get("values").elements().asScala.toSeq).map { case (key, value) => key -> key.read(value) }
    KeyedPartition(found.get("id").asText(), found.get("slots").asInt(), found.get("bytes").asLong(), values.toMap)
  }
}
