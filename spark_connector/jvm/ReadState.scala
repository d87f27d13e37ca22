package pando.spark

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession

/**
 * The state that all scans of a plan read, by its name. `execution` is the one that begins it, if the plan was made there.
 *
 * A task of another execution must not begin it: Spark has kept rows of the first one.
 */
final case class ReadState(name: String, execution: Option[String])

object ReadState {
  private val property = "spark.sql.execution.id"

  /** The number of the execution for which the driver plans. There is none where a plan is only shown. */
  def planned: Option[String] = Option(SparkSession.active.sparkContext.getLocalProperty(property))

  /** The number of the execution of a task. Jobs of RDDs have none. */
  def running: Option[String] = Option(TaskContext.get().getLocalProperty(property))
}
