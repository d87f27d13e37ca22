package pando.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.types.{DataType, StructType}

/** A SELECT that each task's server computes over the task's rows. */
final case class SlotQuery(query: String, columns: Seq[String], fields: StructType)

/** Asks the servers what of a query they compute (route `/scan/push`). */
object Pushing {

  /** A condition that a server understands; `isExact` says that Spark need not look at the rows again. */
  final case class Pushed(sql: String, isExact: Boolean)

  /** Returns the schema of the columns that the options name. */
  def describe(options: ReadOptions): StructType =
    structOf(ask(options, "columns" -> options.columns).get("fields"))

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
    val aggregation = Json.obj(
      "group_by" -> wanted.groupByExpressions().toSeq.map(ExpressionJson.encode),
      "aggregates" -> wanted.aggregateExpressions().toSeq.map(ExpressionJson.encodeAggregate),
      "averaged" -> averaged,
      "is_ansi" -> isAnsi)
    val found = ask(options, "fields" -> fieldsOf(fields), "aggregation" -> aggregation).get("aggregation")
    if (found.isNull) None
    else {
      val columns = found.get("columns").elements().asScala.map(_.asText()).toSeq
      Some(SlotQuery(found.get("query").asText(), columns, structOf(found.get("fields"))))
    }
  }

  /** Returns the query of the first rows of a slot; `fields` are those of the frame. */
  def pushTop(
      options: ReadOptions, fields: StructType, order: Seq[SortOrder], limit: Int, columns: Seq[String])
      : Option[String] = {
    val top = Json.obj("order" -> order.map(ExpressionJson.encodeOrder), "limit" -> limit, "columns" -> columns)
    val found = ask(options, "fields" -> fieldsOf(fields), "top" -> top).get("top")
    if (found.isNull) None else Some(found.get("query").asText())
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
