package pando.spark

/** Names as they stand in Spark's SQL. */
object SparkText {

  /** Returns an identifier. */
  def quoteName(name: String): String = "`" + name.replace("`", "``") + "`"
}
