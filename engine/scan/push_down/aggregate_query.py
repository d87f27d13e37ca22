"""Puts the aggregates of a query of Spark into a SELECT over ``slot``.

Groups of floating numbers stay with Spark, which takes all NaN and both zeros for one value.

Without GROUP BY the SELECT answers one row over no rows, with 0 and NULL, as Spark does for a table without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.scan.push_down.aggregate_items import Item, SumRules
from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName, Node
from engine.scan.push_down.literals import UntranslatableError
from engine.scan.push_down.spark_types import SparkField
from parts.types import FloatType

_MOST_COLUMNS = 1000


@dataclass(frozen=True)
class AggregationRequest:
    """An aggregation of Spark."""

    group_by: Sequence[Node]
    aggregates: Sequence[Node]
    sums: SumRules = field(default_factory=SumRules)


@dataclass(frozen=True)
class SlotQuery:
    """A SELECT over ``slot``, the columns of the table that it reads, and the fields that Spark gets."""

    query: str
    columns: Sequence[str]
    fields: Sequence[SparkField]


def make_aggregate_query(
    request: AggregationRequest,
    columns: ScanColumns,
    fields: Mapping[str, SparkField],
    make_item: Callable[[Call], Item],
    condition: str = "",
) -> SlotQuery | None:
    """Returns the query over the rows for which ``condition`` is true; empty: all.

    Its columns are the groups and then the aggregates. ``None`` if Spark must aggregate.
    """
    try:
        groups = [_make_group(node, columns, fields) for node in request.group_by]
        aggregates = [make_item(node) for node in request.aggregates if isinstance(node, Call)]
    except UntranslatableError:
        return None
    items = groups + aggregates
    if len(aggregates) < len(request.aggregates) or not 0 < len(items) <= _MOST_COLUMNS:
        return None
    read = dict.fromkeys(name for item in items for name in item.columns)
    shown = [fields[item.columns[0]] for item in groups]
    for number, item in enumerate(aggregates):
        shown.append({"name": f"aggregate_{number}", "type": item.type, "nullable": True, "metadata": {}})
    return SlotQuery(_make_select(items, len(groups), columns, condition), list(read), shown)


def _make_group(node: Node, columns: ScanColumns, fields: Mapping[str, SparkField]) -> Item:
    operand = columns.get_operand(node)
    if isinstance(operand.type, FloatType) or not isinstance(node, ColumnName):
        raise UntranslatableError
    return Item(operand.sql, fields[node.name]["type"], (node.name,))


def _make_select(items: Sequence[Item], groups: int, columns: ScanColumns, condition: str) -> str:
    prefix = "_"
    own = [*map(str, range(len(items))), "rows", "row"]
    while any(f"{prefix}{name}" in columns.types for name in own):  # an alias would hide the column
        prefix += "_"
    names = [f"{prefix}{number}" for number in range(len(items))]
    selected = ", ".join(f"{item.sql} AS {name}" for item, name in zip(items, names, strict=True))
    where = f" WHERE {condition}" if condition else ""
    group_by = f" GROUP BY {', '.join(names[:groups])}" if groups else ""
    source = f"FROM slot{where}{group_by}"
    split = [(item.most, name) for item, name in zip(items, names, strict=True) if item.most]
    if not split:
        return f"SELECT {selected} {source}"
    rows, row = f"{prefix}rows", f"{prefix}row"
    full = ", ".join(f"ifNull(floor(abs({name}) / {most}), 0)" for most, name in split)
    counted = f"toUInt64({f'greatest({full})' if len(split) > 1 else full})"
    shown = ", ".join(f"{_show(item, name, row)} AS {name}" for item, name in zip(items, names, strict=True))
    return (
        f"SELECT {shown} FROM (SELECT {selected}, {counted} AS {rows} {source}) ARRAY JOIN range({rows} + 1) AS {row}"
    )


def _show(item: Item, name: str, row: str) -> str:
    """Returns what a row of a group has of a column."""
    if item.most:
        most, count = f"{item.most} * sign({name})", f"floor(abs({name}) / {item.most})"
        return f"multiIf({row} < {count}, {most}, {row} = {count}, {name} - {most} * {count}, NULL)"
    return f"if({row} = 0, {name}, {item.later})" if item.later else name
