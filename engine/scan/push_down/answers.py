"""Answers what of a Spark query the server computes: the route ``/scan/push``.

The request holds what Spark would push, and the answer has a part for each part of it. ``null`` leaves it to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.scan.push_down.aggregate_items import SumRules
from engine.scan.push_down.aggregate_query import AggregationRequest, SlotQuery
from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.conditions import translate_condition
from engine.scan.push_down.expressions import ColumnName, parse_node
from engine.scan.push_down.slot_aggregates import make_slot_aggregation
from engine.scan.push_down.spark_types import SparkField, make_arrow_schema, make_spark_field
from engine.scan.push_down.top_rows import OrderTerm, make_top_query
from engine.scan.push_down.whole_aggregates import make_whole_aggregation
from engine.scan.scan_filter import compile_filter
from engine.scan.slot_planning import add_hidden_columns, select_stored_columns
from parts.common.errors import UserError
from parts.table.table_description import TableDescription

_COMPUTED = ("MATERIALIZED", "ALIAS")
_MOST_CONDITIONS = 1000


def answer_push(body: Mapping[str, Any], description: TableDescription, timezone: str) -> dict[str, Any]:
    """Returns ``fields``, and what of a query the server computes, for each part that the request has.

    ``aggregation`` is of a slot, ``whole`` of all rows for which its ``condition`` is true; ``top`` has queries of
    both kinds.

    Raises 36 for a wrong request, 16 for a column that the table lacks, and 48 for one of a type that Spark lacks.
    """
    answer: dict[str, Any] = {"fields": _describe_fields(body, description)}
    shown = _get_list(body, "fields")
    make_arrow_schema(shown)  # checks them
    fields: dict[str, SparkField] = {field["name"]: field for field in shown}
    columns = ScanColumns(
        {column.name: column.type for column in add_hidden_columns(description.schema).columns if column.is_stored},
        {name: field["type"] for name, field in fields.items() if isinstance(field["type"], str)},
    )
    if "conditions" in body:
        nodes = _get_list(body, "conditions")[:_MOST_CONDITIONS]
        answer["conditions"] = [_answer_condition(node, columns, description, timezone) for node in nodes]
    if "aggregation" in body:
        request = _parse_aggregation(_get_object(body["aggregation"]))
        answer["aggregation"] = _show_query(make_slot_aggregation(request, columns, fields))
    if "whole" in body:
        wanted = _get_object(body["whole"])
        request = _parse_aggregation(wanted)
        answer["whole"] = _show_query(
            make_whole_aggregation(request, str(wanted.get("condition") or ""), columns, fields)
        )
    if "top" in body:
        answer["top"] = _answer_top(_get_object(body["top"]), columns)
    return answer


def _describe_fields(body: Mapping[str, Any], description: TableDescription) -> Sequence[SparkField]:
    """Returns the fields of the columns that the request names, or of ``SELECT *``."""
    names = _get_list(body, "columns")
    if names:
        columns = select_stored_columns(description.schema, [str(name) for name in names])
    else:
        columns = [column for column in description.schema.columns if column.default_kind not in _COMPUTED]
    fields = [make_spark_field(column.name, column.type, str(body.get("nanoseconds"))) for column in columns]
    if body.get("with_comments"):
        for field, column in zip(fields, columns, strict=True):
            field["metadata"] = {"comment": column.comment} if column.comment else {}
    return fields


def _answer_condition(
    document: object, columns: ScanColumns, description: TableDescription, timezone: str
) -> dict[str, Any] | None:
    condition = translate_condition(parse_node(document), columns)
    if condition is None:
        return None
    try:
        compile_filter(condition.sql, description, timezone)
    except UserError:
        return None
    return {"sql": condition.sql, "is_exact": condition.is_exact}


def _parse_aggregation(wanted: Mapping[str, Any]) -> AggregationRequest:
    averaged = frozenset(str(name) for name in _get_list(wanted, "averaged"))
    return AggregationRequest(
        [parse_node(node) for node in _get_list(wanted, "group_by")],
        [parse_node(node) for node in _get_list(wanted, "aggregates")],
        SumRules(averaged, bool(wanted.get("is_ansi", True))),
    )


def _show_query(made: SlotQuery | None) -> dict[str, Any] | None:
    return None if made is None else {"query": made.query, "columns": made.columns, "fields": made.fields}


def _answer_top(wanted: Mapping[str, Any], columns: ScanColumns) -> dict[str, Any] | None:
    order, limit = [], wanted.get("limit")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise UserError("BAD_ARGUMENTS", f"'limit' must be a number of rows, got {limit!r}")
    for term in map(_get_object, _get_list(wanted, "order")):
        order.append(OrderTerm(parse_node(term.get("by")), bool(term.get("descending")), bool(term.get("nulls_first"))))
    selected, condition = [str(name) for name in _get_list(wanted, "columns")], str(wanted.get("condition") or "")
    query = make_top_query(order, limit, selected, columns)
    if query is None:
        return None
    ordered = [term.node.name for term in order if isinstance(term.node, ColumnName)]
    read = list(dict.fromkeys(selected + ordered))
    whole = {"query": make_top_query(order, limit, selected, columns, condition), "columns": read}
    return {"query": query, "columns": read, "whole": whole}


def _get_list(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = body.get(name) or []
    if not isinstance(value, list):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be a list, got {value!r}")
    return value


def _get_object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UserError("BAD_ARGUMENTS", f"A part of the request must be an object, got {value!r}")
    return value
