"""Makes the query by which a server aggregates a slot, so that Spark can merge the slots exactly.

Spark merges counts and sums by sums, extremes by extremes. Therefore only these are pushed; slots cannot merge distinct
values.

Spark reads a sum of decimals in the type of one value. A sum that this type cannot hold is sent as several rows whose
sums are the sum; the rows after the first count nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.scan.push_down.aggregate_items import Item, make_item
from engine.scan.push_down.aggregate_query import AggregationRequest, SlotQuery, make_aggregate_query
from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName
from engine.scan.push_down.literals import UntranslatableError
from engine.scan.push_down.spark_types import SparkField
from parts.types import DecimalType

_MOST_SUMMED_DIGITS = 18
_MOST_SUMMED_SCALE = 9
"""With more, the division by which a sum is split could overflow."""


def make_slot_aggregation(
    request: AggregationRequest, columns: ScanColumns, fields: Mapping[str, SparkField]
) -> SlotQuery | None:
    """Returns the query; ``None`` if Spark must aggregate."""

    def make(node: Call) -> Item:
        match node:
            case Call("SUM", (ColumnName(name) as column,), is_distinct=False):
                if isinstance(columns.get_operand(column).type, DecimalType) and name not in request.sums.averaged:
                    return _make_sum_of_decimals(column, columns, fields)
        return make_item(node, columns, request.sums, fields)

    return make_aggregate_query(request, columns, fields, make)


def _make_sum_of_decimals(column: ColumnName, columns: ScanColumns, fields: Mapping[str, SparkField]) -> Item:
    operand = columns.get_operand(column)
    match operand.type:
        case DecimalType(precision, scale) if precision <= _MOST_SUMMED_DIGITS and scale <= _MOST_SUMMED_SCALE:
            most = f"toDecimal128('{'9' * (precision - scale) or '0'}.{'9' * scale or '0'}', {scale})"
            return Item(f"sumOrNull({operand.sql})", fields[column.name]["type"], (column.name,), most=most)
    raise UntranslatableError
