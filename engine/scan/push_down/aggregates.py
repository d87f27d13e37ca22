"""Makes the query by which a server aggregates a slot, so that Spark can merge the slots exactly.

Spark merges counts and sums by sums, extremes by extremes. Therefore only these are pushed. In Spark NaN is the
greatest number. Groups of floating numbers stay with Spark, which takes all NaN and both zeros for one value. So do
distinct values, which slots cannot merge.

Spark reads a sum of decimals in the type of one value. A sum that this type cannot hold is sent as several rows whose
sums are the sum; the rows after the first count nothing.

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
from parts.types import DecimalType, FloatType, IntegerType

_MOST_COLUMNS = 1000
_MOST_SUMMED_DIGITS = 18
_MOST_SUMMED_SCALE = 9
"""With more, the division by which a sum is split could overflow."""


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
    items: list[_Item] = []
    shown: list[SparkField] = []
    for node in request.group_by:
        operand = columns.get_operand(node)
        if isinstance(operand.type, FloatType):
            raise UntranslatableError
        name = columns.get_column(node)[0]
        read[name] = None
        items.append(_Item(operand.sql))
        shown.append(fields[name])
    for number, node in enumerate(request.aggregates):
        if not isinstance(node, Call) or node.is_distinct:
            raise UntranslatableError
        if node.children:
            read[columns.get_column(node.children[0])[0]] = None
        item, type_ = _make_aggregate(node, columns, request, fields)
        items.append(item)
        shown.append({"name": f"aggregate_{number}", "type": type_, "nullable": True, "metadata": {}})
    return SlotQuery(_make_select(items, len(request.group_by), columns), list(read), shown)


@dataclass(frozen=True)
class _Item:
    """A column of the query in SQL.

    ``later`` is what it has in the rows after the first of a group; empty: the same. ``most`` is the largest sum that
    a row may have.
    """

    sql: str
    later: str = ""
    most: str = ""


def _make_select(items: Sequence[_Item], groups: int, columns: ScanColumns) -> str:
    prefix = "_"
    own = [*map(str, range(len(items))), "rows", "row"]
    while any(f"{prefix}{name}" in columns.types for name in own):  # an alias would hide the column
        prefix += "_"
    names = [f"{prefix}{number}" for number in range(len(items))]
    selected = ", ".join(f"{item.sql} AS {name}" for item, name in zip(items, names, strict=True))
    group_by = f" GROUP BY {', '.join(names[:groups])}" if groups else ""
    split = [(item.most, name) for item, name in zip(items, names, strict=True) if item.most]
    if not split:
        return f"SELECT {selected} FROM slot{group_by}"
    rows, row = f"{prefix}rows", f"{prefix}row"
    full = ", ".join(f"ifNull(floor(abs({name}) / {most}), 0)" for most, name in split)
    counted = f"toUInt64({f'greatest({full})' if len(split) > 1 else full})"
    shown = ", ".join(f"{_show(item, name, row)} AS {name}" for item, name in zip(items, names, strict=True))
    return (
        f"SELECT {shown} FROM (SELECT {selected}, {counted} AS {rows} FROM slot{group_by}) "
        f"ARRAY JOIN range({rows} + 1) AS {row}"
    )


def _show(item: _Item, name: str, row: str) -> str:
    """Returns what a row of a group has of a column."""
    if item.most:
        most, count = f"{item.most} * sign({name})", f"floor(abs({name}) / {item.most})"
        return f"multiIf({row} < {count}, {most}, {row} = {count}, {name} - {most} * {count}, NULL)"
    return f"if({row} = 0, {name}, {item.later})" if item.later else name


def _make_aggregate(
    node: Call, columns: ScanColumns, request: AggregationRequest, fields: Mapping[str, SparkField]
) -> tuple[_Item, Any]:
    """Returns an aggregate, and Spark's type of it."""
    match node:
        case Call("COUNT", ()):
            return _Item("toInt64(count())", "toInt64(0)"), "long"
        case Call("COUNT", (ColumnName() as column,)):
            return _Item(f"toInt64(count({quote_name(columns.get_column(column)[0])}))", "toInt64(0)"), "long"
        case Call("SUM", (ColumnName() as column,)):
            if isinstance(columns.get_operand(column).type, DecimalType):
                return _make_sum_of_decimals(column, columns, request), fields[column.name]["type"]
            sql, type_ = _make_sum(column, columns, request)
            return _Item(sql, "NULL"), type_
        case Call("MIN" | "MAX" as name, (ColumnName() as column,)):
            return _Item(_make_extreme(name.lower(), column, columns)), fields[column.name]["type"]
    raise UntranslatableError


def _make_sum_of_decimals(column: ColumnName, columns: ScanColumns, request: AggregationRequest) -> _Item:
    operand = columns.get_operand(column)
    match operand.type:
        case DecimalType(precision, scale) if precision <= _MOST_SUMMED_DIGITS and scale <= _MOST_SUMMED_SCALE:
            if column.name not in request.averaged:
                most = f"toDecimal128('{'9' * (precision - scale) or '0'}.{'9' * scale or '0'}', {scale})"
                return _Item(f"sumOrNull({operand.sql})", most=most)
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
