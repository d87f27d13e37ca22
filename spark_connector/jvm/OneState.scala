package pando.spark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Has the scans of a plan read one state also where it is run again, if Spark may keep the rows of one of them.
 *
 * Spark keeps what it has broadcast or shuffled for a frame that is collected again. Another scan of the same table must not
 * read anew then. Frames of which nothing is kept read anew as a whole.
 */
object OneState extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val scans = plan.collectWithSubqueries { case OneState.Relation(_, scan) => scan }
    val isDivided = scans.exists(_.slots.nonEmpty)
    val isReadTwice = scans.map(scan => (scan.options.urls, scan.options.fullName)).distinct.size < scans.size
    if (!isDivided && !(isReadTwice && mayKeep(plan))) plan
    else {
      val ofDivided = scans.filter(_.slots.nonEmpty).flatMap(_.state)
      val state = (ofDivided ++ scans.flatMap(_.state)).headOption.getOrElse(make())
      plan.transformWithSubqueries {
        case OneState.Relation(relation, scan) if !scan.state.contains(state) => relation.copy(scan = scan.in(state))
      }
    }
  }

  /** The state of an execution has its number as a name, which is that of its other scans. */
  private def make(): ReadState = {
    val execution = ReadState.planned
    ReadState(execution.getOrElse(s"plan ${UUID.randomUUID()}"), execution)
  }

  private def mayKeep(plan: LogicalPlan): Boolean =
    plan.expressions.exists(SubqueryExpression.hasSubquery) || plan.children.exists(mayKeep) || (plan match {
      case _: Project | _: Filter | _: Union | _: DataSourceV2ScanRelation => false
      case _ => plan.children.nonEmpty
    })

  /** A relation of a plan that this side reads, and its scan. */
  object Relation {
    def unapply(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, PandoScan)] = plan match {
      case relation: DataSourceV2ScanRelation =>
        Some(relation.scan).collect { case scan: PandoScan if scan.blocks.isEmpty => (relation, scan) }
      case _ => None
    }
  }
}
