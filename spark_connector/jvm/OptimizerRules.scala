package pando.spark

import org.apache.spark.sql.SparkSession

/** What this side adds to Spark's optimizer, in the order in which the rules need each other. */
object OptimizerRules {
  private val rules = Seq(JoinNarrowing, KeyedScans, OneState, WrittenPeriods)

  /** Adds the rules to a session, once. */
  def addTo(session: SparkSession): Unit = synchronized {
    val known = session.experimental.extraOptimizations
    if (!rules.forall(known.contains)) session.experimental.extraOptimizations = known.filterNot(rules.contains) ++ rules
  }
}
