package pando.spark

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, EqualTo, Literal}
import org.apache.spark.sql.catalyst.optimizer.{BooleanSimplification, PruneFilters, PushDownPredicates}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.dynamicpruning.{CleanupDynamicPruningFilters, PartitionPruning}
import org.apache.spark.sql.internal.SQLConf

/**
 * Has Spark narrow a scan by the other side of a join also where the servers filter that side.
 *
 * Spark's dynamic pruning looks for a side with a selective condition. A condition that was pushed is not seen any more.
 * So such scans are marked by one, the pruning is asked once more, and the marks go. The values come from the broadcast
 * that the join makes anyway.
 */
object JoinNarrowing extends Rule[LogicalPlan] {
  private val mark = EqualTo(Literal("pando"), Literal("pando"))
  private val isSeen = TreeNodeTag[Boolean]("pando.isSeen")

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val marked = plan.transformUp {
      case relation: DataSourceV2ScanRelation if isNewAndSelective(relation) =>
        relation.setTagValue(isSeen, true)
        Filter(mark, relation)
    }
    val narrowed =
      if (marked.eq(plan)) plan else CleanupDynamicPruningFilters(PushDownPredicates(unmark(PartitionPruning(marked))))
    val useful = withoutUseless(narrowed)
    if (useful.eq(plan)) plan else PruneFilters(BooleanSimplification(useful))
  }

  /**
   * Leaves out what no broadcast will answer, because that side is too large for one. Spark would plan the side again with
   * every stage, and take the filter for true.
   */
  private def withoutUseless(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case filter @ Filter(condition, OneState.Relation(_, _)) =>
      val most = SQLConf.get.autoBroadcastJoinThreshold
      val useful = condition.transform {
        case pruning: DynamicPruningSubquery
            if pruning.onlyInBroadcast && most >= 0 && pruning.buildQuery.stats.sizeInBytes > most =>
          Literal.TrueLiteral
      }
      if (useful.eq(condition)) filter else filter.copy(condition = useful)
  }

  private def isNewAndSelective(relation: DataSourceV2ScanRelation): Boolean = relation.scan match {
    case scan: PandoScan => scan.isSelective && relation.getTagValue(isSeen).isEmpty
    case _ => false
  }

  private def unmark(plan: LogicalPlan): LogicalPlan =
    plan.transformUp { case Filter(condition, child) if condition == mark => child }.transformAllExpressions {
      case pruning: DynamicPruningSubquery => pruning.withNewPlan(unmark(pruning.buildQuery))
    }
}
