package pando.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.types.{DataType, StructType}

/** A SELECT that each task's server computes over the task's rows; one task's over all rows if it has a `plan`. */
final case class SlotQuery(query: String, columns: Seq[String], fields: StructType, plan: Option[Plan] = None)

/** Asks the servers what of a query they compute (route `/scan/push`). */
object Pushing {

  /** A condition that a server understands; `isExact` says that Spark need not look at the rows again. */
  final case class Pushed(sql: String, isExact: Boolean)

  /** Returns the schema of the columns that the options name. */
  def describe(options: ReadOptions, withComments: Boolean = false): StructType =
    structOf(ask(options, "columns" -> options.columns, "with_comments" -> withComments).get("fields"))

  /** Returns for each predicate the condition that holds where it does, if there is one. */
  def pushPredicates(options: ReadOptions, fields: StructType, predicates: Seq[Predicate]): Seq[Option[Pushed]] = {
    val answer = ask(
      options, "fields" -> fieldsOf(fields), "conditions" -> predicates.map(ExpressionJson.encode))
    answer.get("conditions").elements().asScala.toSeq.map { found =>
      if (found.isNull) None else Some(Pushed(found.get("sql").asText(), found.get("is_exact").asBoolean()))
    }.padTo(predicates.size, None)
  }

  /** Returns the predicates in SQL, if each has exactly Spark's meaning there. */
  def findExact(options: ReadOptions, fields: StructType, predicates: Seq[Predicate]): Option[Seq[String]] = {
    val asked = predicates.filterNot(_.name() == "ALWAYS_TRUE")
    val found = if (asked.isEmpty) Seq() else pushPredicates(options, fields, asked)
    if (found.forall(_.exists(_.isExact))) Some(found.flatten.map(_.sql)) else None
  }

  /** Returns the query of partial aggregates, which Spark merges. Sums of `averaged` columns become averages. */
  def pushAggregation(
      options: ReadOptions, fields: StructType, wanted: Aggregation, averaged: Seq[String], isAnsi: Boolean)
      : Option[SlotQuery] = {
    val aggregation = encode(wanted, isAnsi).set[ObjectNode]("averaged", Json.arr(averaged))
    val found = ask(options, "fields" -> fieldsOf(fields), "aggregation" -> aggregation).get("aggregation")
    if (found.isNull) None else Some(slotQuery(found))
  }

  /** Returns the query of final aggregates over the rows for which the options' filter holds, if one server may. */
  def pushWhole(options: ReadOptions, fields: StructType, wanted: Aggregation, isAnsi: Boolean): Option[SlotQuery] = {
    val whole = encode(wanted, isAnsi).put("condition", options.condition())
    val found = ask(options, "fields" -> fieldsOf(fields), "whole" -> whole).path("whole")
    if (!found.isObject) None else Some(wholeQuery(found, structOf(found.get("fields")), options))
  }

  private def encode(wanted: Aggregation, isAnsi: Boolean): ObjectNode = Json.obj(
    "group_by" -> wanted.groupByExpressions().toSeq.map(ExpressionJson.encode),
    "aggregates" -> wanted.aggregateExpressions().toSeq.map(ExpressionJson.encodeAggregate),
    "is_ansi" -> isAnsi)

  private def slotQuery(found: JsonNode): SlotQuery =
    SlotQuery(found.get("query").asText(), columnsOf(found), structOf(found.get("fields")))

  private def wholeQuery(found: JsonNode, fields: StructType, options: ReadOptions): SlotQuery =
    SlotQuery(found.get("query").asText(), columnsOf(found), fields, Some(Plan.whole(found, None, options.condition())))

  private def columnsOf(found: JsonNode): Seq[String] =
    found.get("columns").elements().asScala.map(_.asText()).toSeq

  /** Returns the query of the first rows of a slot, or of the whole table, with these columns of the frame. */
  def pushTop(options: ReadOptions, fields: StructType, order: Seq[SortOrder], limit: Int, sent: StructType)
      : Option[SlotQuery] = {
    val names = sent.fieldNames.toSeq
    val top = Json.obj(
      "order" -> order.map(ExpressionJson.encodeOrder), "limit" -> limit, "columns" -> names,
      "condition" -> options.condition())
    val found = ask(options, "fields" -> fieldsOf(fields), "top" -> top).get("top")
    if (found.isNull) None
    else if (found.get("whole").isNull || options.hasTaskSize) {
      Some(SlotQuery(found.get("query").asText(), columnsOf(found), sent))
    } else Some(wholeQuery(found.get("whole"), sent, options))
  }

  /** Returns the fields of a schema, as servers take them. */
  def fieldsOf(schema: StructType): JsonNode =
    Json.mapper.readTree(StructType(schema.map(_.copy(metadata = org.apache.spark.sql.types.Metadata.empty))).json)
      .get("fields")

  private def structOf(fields: JsonNode): StructType =
    DataType.fromJson(Json.obj("type" -> "struct", "fields" -> fields).toString).asInstanceOf[StructType]

  private def ask(options: ReadOptions, members: (String, Any)*): JsonNode = {
    val body = Json.obj(
      Seq("database" -> options.database, "table" -> options.table, "nanoseconds" -> options.nanoseconds) ++ members: _*)
    new Servers(options).ask("/scan/push", body)
  }
}
