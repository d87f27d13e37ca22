"""Makes the query by which one server aggregates a whole table, where Spark has nothing to merge.

Such a query also has what slots cannot merge: distinct values, averages of decimals, and sums of products. Sums and
averages have the types that Spark gives them.

Spark rounds the average of decimals half up, to four digits more than the values have.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.scan.push_down.aggregate_items import Item, make_item
from engine.scan.push_down.aggregate_query import AggregationRequest, SlotQuery, make_aggregate_query
from engine.scan.push_down.arithmetic import MOST_DIGITS, Number, translate_number
from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName, Node, parse_decimal_type
from engine.scan.push_down.literals import UntranslatableError
from engine.scan.push_down.spark_types import SparkField
from parts.types import FloatType

_SUM_DIGITS = 10
"""Digits that Spark's sum of decimals has more than the values."""
_AVERAGE_DIGITS = 4
"""Digits that Spark's average of decimals has more than the values."""
_MOST_AVERAGED_DIGITS = 18
"""With more, the sum could have too many digits to be divided."""
_DOUBLES = ("byte", "short", "integer", "float", "double")
"""Types whose averages are quotients of floating numbers, and whose sums fit."""


def make_whole_aggregation(
    request: AggregationRequest, condition: str, columns: ScanColumns, fields: Mapping[str, SparkField]
) -> SlotQuery | None:
    """Returns the query over the rows for which ``condition`` (SQL; empty: all) is true.

    ``None`` if Spark must aggregate.
    """

    is_ansi = request.sums.is_ansi

    def make(node: Call) -> Item:
        match node:
            case Call("COUNT", (ColumnName() as column,), is_distinct=True):
                return _count_distinct(column, columns)
            case Call("SUM", (child,), is_distinct=False) if not _is_whole_number(child, columns):
                return _sum(translate_number(child, columns, is_ansi=is_ansi), is_ansi=is_ansi)
            case Call("AVG", (child,), is_distinct=False):
                return _average(translate_number(child, columns, is_ansi=is_ansi))
        return make_item(node, columns, request.sums, fields)

    return make_aggregate_query(request, columns, fields, make, condition)


def _is_whole_number(node: Node, columns: ScanColumns) -> bool:
    return isinstance(node, ColumnName) and parse_decimal_type(columns.get_operand(node).shown) is None


def _count_distinct(column: ColumnName, columns: ScanColumns) -> Item:
    operand = columns.get_operand(column)
    if isinstance(operand.type, FloatType):  # Spark takes both zeros for one value, and all NaN
        raise UntranslatableError
    return Item(f"toInt64(uniqExact({operand.sql}))", "long", (column.name,))


def _sum(value: Number, *, is_ansi: bool) -> Item:
    found = parse_decimal_type(value.type)
    if value.type == "double":
        return Item(f"sumOrNull({value.sql})", "double", value.columns)
    precision = found[0] + _SUM_DIGITS if found else 0
    if found is None or (precision > MOST_DIGITS and not is_ansi):  # a sum with more digits is NULL in Spark then
        raise UntranslatableError
    return Item(f"sumOrNull({value.sql})", f"decimal({min(precision, MOST_DIGITS)},{found[1]})", value.columns)


def _average(value: Number) -> Item:
    count = f"nullIf(toInt64(count({value.sql})), 0)"
    found = parse_decimal_type(value.type)
    if found is None:
        if value.type not in _DOUBLES:
            raise UntranslatableError
        return Item(f"sumOrNull(toFloat64({value.sql})) / {count}", "double", value.columns)
    precision, scale = found[0] + _AVERAGE_DIGITS, found[1] + _AVERAGE_DIGITS
    if found[0] > _MOST_AVERAGED_DIGITS:
        raise UntranslatableError
    quotient = f"toDecimal128(sumOrNull({value.sql}), {scale + 1}) / {count}"  # the digits behind are cut
    return Item(f"toDecimal128(round({quotient}, {scale}), {scale})", f"decimal({precision},{scale})", value.columns)
