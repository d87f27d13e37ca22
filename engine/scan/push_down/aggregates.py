"""Makes the query by which a server aggregates a slot, so that Spark can merge the slots exactly.

Spark merges counts and sums by sums, extremes by extremes. Therefore only these are pushed. In Spark NaN is the
greatest number. Groups of floating numbers stay with Spark, which takes all NaN and both zeros for one value. So do
sums of decimals, which Spark would read in the type of one value, and distinct values, which slots cannot merge.

Without GROUP BY a slot without rows answers one row, with 0 and NULL, as Spark does for a table without rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName, Node
from engine.scan.push_down.literals import UntranslatableError, quote_name
from engine.scan.push_down.spark_types import SparkField
from parts.types import FloatType, IntegerType

_MOST_COLUMNS = 1000


@dataclass(frozen=True)
class AggregationRequest:
    """An aggregation of Spark.

    ``averaged`` are columns whose sums become averages, which do not overflow. ``is_ansi`` says that sums which
    overflow are errors.
    """

    group_by: Sequence[Node]
    aggregates: Sequence[Node]
    averaged: frozenset[str] = frozenset()
    is_ansi: bool = True


@dataclass(frozen=True)
class SlotQuery:
    """A SELECT over ``slot``, the columns of the table that it reads, and the fields that Spark gets."""

    query: str
    columns: Sequence[str]
    fields: Sequence[SparkField]


def make_aggregation(
    request: AggregationRequest, columns: ScanColumns, fields: Mapping[str, SparkField]
) -> SlotQuery | None:
    """Returns the query; ``None`` if Spark must aggregate.

    Its columns are the groups and then the aggregates.
    """
    try:
        return _make_query(request, columns, fields)
    except UntranslatableError:
        return None


def _make_query(request: AggregationRequest, columns: ScanColumns, fields: Mapping[str, SparkField]) -> SlotQuery:
    count = len(request.group_by) + len(request.aggregates)
    if not 0 < count <= _MOST_COLUMNS:
        raise UntranslatableError
    read: dict[str, None] = {}
    items: list[str] = []
    shown: list[SparkField] = []
    for node in request.group_by:
        operand = columns.get_operand(node)
        if isinstance(operand.type, FloatType):
            raise UntranslatableError
        name = columns.get_column(node)[0]
        read[name] = None
        items.append(operand.sql)
        shown.append(fields[name])
    for number, node in enumerate(request.aggregates):
        if not isinstance(node, Call) or node.is_distinct:
            raise UntranslatableError
        if node.children:
            read[columns.get_column(node.children[0])[0]] = None
        sql, type_ = _make_aggregate(node, columns, request, fields)
        items.append(sql)
        shown.append({"name": f"aggregate_{number}", "type": type_, "nullable": True, "metadata": {}})
    prefix = "_"
    while any(f"{prefix}{number}" in columns.types for number in range(len(items))):  # an alias would hide the column
        prefix += "_"
    groups = ", ".join(f"{prefix}{number}" for number in range(len(request.group_by)))
    selected = ", ".join(f"{item} AS {prefix}{number}" for number, item in enumerate(items))
    return SlotQuery(f"SELECT {selected} FROM slot{f' GROUP BY {groups}' if groups else ''}", list(read), shown)


def _make_aggregate(
    node: Call, columns: ScanColumns, request: AggregationRequest, fields: Mapping[str, SparkField]
) -> tuple[str, Any]:
    """Returns an aggregate in SQL, and Spark's type of it."""
    match node:
        case Call("COUNT", ()):
            return "toInt64(count())", "long"
        case Call("COUNT", (ColumnName() as column,)):
            return f"toInt64(count({quote_name(columns.get_column(column)[0])}))", "long"
        case Call("SUM", (ColumnName() as column,)):
            return _make_sum(column, columns, request)
        case Call("MIN" | "MAX" as name, (ColumnName() as column,)):
            return _make_extreme(name.lower(), column, columns), fields[column.name]["type"]
    raise UntranslatableError


def _make_sum(column: ColumnName, columns: ScanColumns, request: AggregationRequest) -> tuple[str, str]:
    operand = columns.get_operand(column)
    match operand.type:
        case FloatType():
            return f"sumOrNull(toFloat64({operand.sql}))", "double"
        case IntegerType(bits) if bits <= 32:  # 2³¹ rows of a slot do not overflow
            return f"toInt64(sumOrNull({operand.sql}))", "long"
        case IntegerType(64, True) if column.name not in request.averaged:
            if not request.is_ansi:
                return f"sumOrNull({operand.sql})", "long"
            return f"toInt64(sumOrNull(toDecimal128({operand.sql}, 0)))", "long"
    raise UntranslatableError


def _make_extreme(function: str, column: ColumnName, columns: ScanColumns) -> str:
    operand = columns.get_operand(column)
    if not isinstance(operand.type, FloatType):
        return f"{function}OrNull({operand.sql})"
    has_nan = f"max(isNaN({operand.sql})) = 1"
    extreme = f"{function}(if(isNaN({operand.sql}), NULL, {operand.sql}))"
    return f"if({has_nan}, nan, {extreme})" if function == "max" else f"coalesce({extreme}, if({has_nan}, nan, NULL))"
