package pando.spark

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Divides scans by the keys of their partitions or shards where a join or a grouping then needs no shuffle.
 *
 * The partitions are those of one state. So it is fixed here, under the name that the execution's other scans have. A plan
 * that is only shown has no execution: its scans stay as they are, because a frame that is shown may run later.
 */
object KeyedScans extends Rule[LogicalPlan] {
  private val isSeen = TreeNodeTag[Boolean]("pando.isSeenByKey")

  override def apply(plan: LogicalPlan): LogicalPlan = ReadState.planned match {
    case Some(execution) if conf.v2BucketingEnabled =>
      val uses = new KeyUses(relation => relation.getTagValue(isSeen).isEmpty)
      uses.collect(plan)
      val wanted = uses.found
      wanted.foreach(_.relation.setTagValue(isSeen, true))
      val divided = wanted.map(use => use.id -> divide(use, execution)).toMap
      val kept = uses.groups.filter(_.forall(id => divided.get(id).exists(_.isDefined))).flatten.toSet
      if (kept.isEmpty) plan
      else plan.transformUp {
        case relation: DataSourceV2ScanRelation if KeyUses.idOf(relation).exists(kept) =>
          val id = KeyUses.idOf(relation).get
          mark(relation, wanted.find(_.id == id).get, divided(id).get)
      }
    case _ => plan
  }

  private def mark(relation: DataSourceV2ScanRelation, use: KeyUse, scan: PandoScan): LogicalPlan = {
    val attributes = use.keys.map(key => relation.output.find(_.name == key.column).get)
    val isSorted = use.keys.forall(_.function.isEmpty)  // all rows of a task have the same values
    relation.copy(
      scan = scan,
      keyGroupedPartitioning = Some(use.keys.zip(attributes).map { case (key, attribute) => key.of(attribute) }),
      ordering = if (isSorted) Some(attributes.map(SortOrder(_, Ascending))) else relation.ordering)
  }

  /** Returns the scan in slots of one key each; nothing where few large ones would take longer than a shuffle. */
  private def divide(use: KeyUse, execution: String): Option[PandoScan] = {
    val (scan, plan) = (use.scan, use.scan.plan)
    val ofShards = plan.partitions.collect { case slot: SlotPartition if slot.shard.isDefined => slot }
    if (ofShards.nonEmpty) {
      val slots = ofShards.map(slot => KeyedSlot(slot, use.rowOf(Seq(slot.shard.get.number.toString))))
      if (isWorth(ofShards.groupBy(_.shard).values.map(_.size.toLong).toSeq, ofShards.size)) Some(scan.divided(slots, None))
      else None
    } else {
      val partitions = Try(KeyedPartition.begin(scan, s"${scan.stateOwner} $execution", plan.keys)).getOrElse(Seq())
      val weights = partitions.groupBy(_.values(use.keys)).values.map(_.map(_.bytes).sum).toSeq
      if (!isWorth(weights, plan.partitions.size)) None
      else Some(scan.divided(
        for (partition <- partitions; number <- 0 until partition.slots) yield KeyedSlot(
          SlotPartition(number, partition.slots, None, scan.options.condition(), Some(partition.id)),
          use.rowOf(partition.values(use.keys))),
        Some(ReadState(execution, Some(execution)))))
    }
  }

  /** Tells whether the largest key is not much more than a task's share, and there are not many small ones. */
  private def isWorth(weights: Seq[Long], slots: Int): Boolean = {
    val tasks = math.max(1, math.min(slots, SparkSession.active.sparkContext.defaultParallelism))
    weights.nonEmpty && weights.max * tasks <= 2 * weights.sum && weights.size <= 4 * slots + 16
  }
}
