package pando.spark

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, ExprId, Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.unsafe.types.UTF8String

/** A scan, and the keys by which a join or a grouping uses its division. */
final case class KeyUse(relation: DataSourceV2ScanRelation, scan: PandoScan, keys: Seq[ScanKey]) {
  def id: ExprId = KeyUses.idOf(relation).get

  /** Returns the row of a slot with these values of the keys. */
  def rowOf(values: Seq[Any]): InternalRow = new GenericInternalRow(values.map {
    case text: String => UTF8String.fromString(text)
    case value => value
  }.toArray[Any])
}

object KeyUses {
  /** A relation is known by its first column. */
  def idOf(relation: DataSourceV2ScanRelation): Option[ExprId] = relation.output.headOption.map(_.exprId)
}

/**
 * The joins and groupings of a plan by keys of scans. Both sides of a join must be divided by the same keys, and then both
 * are, or none is: `groups` are the scans that belong together.
 */
final class KeyUses(mayUse: DataSourceV2ScanRelation => Boolean) {
  private val uses = mutable.LinkedHashMap[ExprId, KeyUse]()
  private var together = Seq[Set[ExprId]]()

  def found: Seq[KeyUse] = uses.values.toSeq

  def groups: Seq[Set[ExprId]] = together

  def collect(plan: LogicalPlan): Unit = plan.foreachUp {
    case join @ ExtractEquiJoinKeys(_, leftKeys, rightKeys, _, _, left, right, _) if !isBroadcast(join, left, right) =>
      val pairs = for {
        (leftKey, rightKey) <- leftKeys.zip(rightKeys)
        ofLeft <- trace(left, leftKey)
        ofRight <- trace(right, rightKey)
        if leftKey.dataType == rightKey.dataType
      } yield (ofLeft, ofRight)
      addJoin(pairs, if (requiresAll) leftKeys.size else 0)
    case grouped: Aggregate => addGrouping(grouped.groupingExpressions.flatMap(trace(grouped.child, _)))
    case window: Window => addGrouping(window.partitionSpec.flatMap(trace(window.child, _)))
    case _ =>
  }

  /** Spark shuffles a side that is not divided by all keys of the join. */
  private def requiresAll: Boolean = SQLConf.get.getConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION)

  private def addJoin(pairs: Seq[(Column, Column)], fewest: Int): Unit =
    pairs.groupBy { case (left, right) => (left.id, right.id) }.values.find { alike =>
      val (left, right) = alike.head
      val matched = for {
        ours <- keysOf(left)
        theirs <- keysOf(right)
        if ours.function == theirs.function && ours.type_ == theirs.type_
        if alike.exists { case (one, other) => one.name == ours.column && other.name == theirs.column }
      } yield (ours, theirs)
      val chosen = matched.distinctBy(_._1).distinctBy(_._2)
      val (ours, theirs) = agree(uses.get(left.id), uses.get(right.id), chosen).unzip
      val isUsed = ours.nonEmpty && ours.size >= fewest && Seq(left, right).exists(_.scan.plan.partitions.size > 1)
      if (isUsed) {
        uses.getOrElseUpdate(left.id, left.usedBy(ours))
        uses.getOrElseUpdate(right.id, right.usedBy(theirs))
        join(Set(left.id, right.id))
      }
      isUsed
    }

  /** Spark would have to compute the key of another side's rows, where it may shuffle that side alone. */
  private def keysOf(column: Column): Seq[ScanKey] =
    column.scan.plan.keys.filter(_.function.isEmpty || !SQLConf.get.v2BucketingShuffleEnabled)

  /** Returns the pairs in the order in which the sides are divided already; none if they are by others. */
  private def agree(left: Option[KeyUse], right: Option[KeyUse], pairs: Seq[(ScanKey, ScanKey)]) = {
    def inOrder(use: Option[KeyUse], side: ((ScanKey, ScanKey)) => ScanKey, among: Seq[(ScanKey, ScanKey)]) =
      use.map { known =>
        val found = known.keys.flatMap(key => among.find(pair => side(pair) == key))
        if (found.size == known.keys.size) found else Seq()
      }.getOrElse(among)
    val ordered = inOrder(left, _._1, pairs)
    if (right.forall(_.keys == ordered.map(_._2))) ordered
    else if (left.isEmpty) inOrder(right, _._2, pairs)
    else Seq()
  }

  private def addGrouping(columns: Seq[Column]): Unit = columns.groupBy(_.id).values.foreach { alike =>
    val first = alike.head
    val keys = keysOf(first).filter(key => alike.exists(_.name == key.column))
    if (keys.nonEmpty && !uses.contains(first.id) && first.scan.plan.partitions.size > 1) {
      uses(first.id) = first.usedBy(keys)
      join(Set(first.id))
    }
  }

  private def join(ids: Set[ExprId]): Unit = {
    val (joined, others) = together.partition(_.exists(ids))
    together = others :+ (joined.flatten.toSet ++ ids)
  }

  private def isBroadcast(join: Join, sides: LogicalPlan*): Boolean =
    Seq(join.hint.leftHint, join.hint.rightHint).flatten.exists(_.strategy.contains(BROADCAST)) ||
      sides.exists(_.stats.sizeInBytes <= SQLConf.get.autoBroadcastJoinThreshold)

  /** A column of a scan. */
  private final case class Column(relation: DataSourceV2ScanRelation, scan: PandoScan, name: String) {
    def id: ExprId = KeyUses.idOf(relation).get
    def usedBy(keys: Seq[ScanKey]): KeyUse = KeyUse(relation, scan, keys)
  }

  /** Returns the column of a scan that an expression over a plan is. */
  private def trace(plan: LogicalPlan, expression: Expression): Option[Column] = (plan, expression) match {
    case (OneState.Relation(relation, scan), column: Attribute) =>
      relation.output.find(_.exprId == column.exprId)
        .filter(_ => scan.mayBeDivided && mayUse(relation)).map(found => Column(relation, scan, found.name))
    case (Project(items, child), column: Attribute) => traceItem(items, child, column)
    case (grouped: Aggregate, column: Attribute) => traceItem(grouped.aggregateExpressions, grouped.child, column)
    case (_: RepartitionOperation | _: Sort | _: GlobalLimit, _) => None
    case (_: UnaryNode | _: Join, column: Attribute) =>
      plan.children.find(_.outputSet.contains(column)).flatMap(trace(_, column))
    case _ => None
  }

  private def traceItem(items: Seq[NamedExpression], child: LogicalPlan, column: Attribute): Option[Column] =
    items.find(_.exprId == column.exprId).flatMap {
      case Alias(inner, _) => trace(child, inner)
      case inner => trace(child, inner)
    }
}
