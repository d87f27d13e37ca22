package pando.spark

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, V2ExpressionUtils}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.Write

/**
 * Brings rows of a period together before the format `pando` writes them.
 *
 * Spark divides the rows of a write by functions of a catalog, and a format has none. So they are divided here, as Spark does
 * it for tables of the catalog `pando`.
 */
object WrittenPeriods extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case command: V2WriteCommand => (writeOf(command), command.query) match {
      case (Some(write: PandoWrite), sort: Sort) if !sort.global && isOpen(sort.child) && write.periods.nonEmpty =>
        val keys = write.periods.flatMap(keyOf(_, sort.child.output))
        command.withNewQuery(sort.copy(child = RebalancePartitions(keys, sort.child)))
      case _ => plan
    }
    case _ => plan
  }

  /** Tells whether the rows are not divided yet. */
  private def isOpen(plan: LogicalPlan): Boolean = !plan.isInstanceOf[RebalancePartitions]

  private def writeOf(command: V2WriteCommand): Option[Write] = command match {
    case append: AppendData => append.write
    case overwrite: OverwriteByExpression => overwrite.write
    case overwrite: OverwritePartitionsDynamic => overwrite.write
    case _ => None
  }

  private def keyOf(period: PartitionPeriod, columns: Seq[Attribute]): Option[Expression] =
    columns.find(_.name == period.column).map { column =>
      period.function.map { name =>
        V2ExpressionUtils.resolveScalarFunction(PeriodFunctions.bind(name, column.dataType), Seq(column))
      }.getOrElse(column)
    }
}
