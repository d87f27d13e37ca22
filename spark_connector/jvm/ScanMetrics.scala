package pando.spark

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric

/** What Spark's UI shows of a scan. */
object ScanMetrics {
  val receivedBytes = "receivedBytes"
  val waitingMilliseconds = "waitingMilliseconds"
  val readGranules = "readGranules"
  val prunedGranules = "prunedGranules"

  /** Of a class of Spark's own: its UI makes one by itself, and does not know the classes of a jar that was added. */
  val all: Array[CustomMetric] = Array(
    new PythonCustomMetric(receivedBytes, "bytes received from Pando"),
    new PythonCustomMetric(waitingMilliseconds, "milliseconds that tasks waited for Pando"),
    new PythonCustomMetric(readGranules, "granules read"),
    new PythonCustomMetric(prunedGranules, "granules passed over"))

  /** Returns what a task or the driver measured. */
  def measured(metric: String, found: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name(): String = metric
    override def value(): Long = found
  }
}
