"""The aggregates that slots and whole tables compute alike.

These are counts, sums of numbers but decimals, and extremes. In Spark NaN is the greatest number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName
from engine.scan.push_down.literals import UntranslatableError, quote_name
from engine.scan.push_down.spark_types import SparkField, SparkType
from parts.types import FloatType, IntegerType


@dataclass(frozen=True)
class Item:
    """A column of a query: SQL, Spark's type of it, and the columns of the table that it reads.

    ``later`` is what it has in the rows after the first of a group; empty: the same. ``most`` is the largest sum that
    a row may have.
    """

    sql: str
    type: SparkType
    columns: tuple[str, ...] = ()
    later: str = ""
    most: str = ""


@dataclass(frozen=True)
class SumRules:
    """The rules by which sums are pushed.

    ``averaged`` are columns whose sums become averages, which do not overflow. ``is_ansi`` says that sums which
    overflow are errors.
    """

    averaged: frozenset[str] = frozenset()
    is_ansi: bool = True


def make_item(node: Call, columns: ScanColumns, rules: SumRules, fields: Mapping[str, SparkField]) -> Item:
    """Returns an aggregate of a column. Raises ``UntranslatableError`` if Spark must compute it."""
    match node:
        case Call("COUNT", ()):
            return Item("toInt64(count())", "long", later="toInt64(0)")
        case Call("COUNT", (ColumnName() as column,), is_distinct=False):
            name = columns.get_column(column)[0]
            return Item(f"toInt64(count({quote_name(name)}))", "long", (name,), later="toInt64(0)")
        case Call("SUM", (ColumnName() as column,), is_distinct=False):
            return _make_sum(column, columns, rules)
        case Call("MIN" | "MAX" as call, (ColumnName(name) as column,)):
            return Item(_make_extreme(call.lower(), column, columns), fields[name]["type"], (name,))
    raise UntranslatableError


def _make_sum(column: ColumnName, columns: ScanColumns, rules: SumRules) -> Item:
    operand, read = columns.get_operand(column), (column.name,)
    match operand.type:
        case FloatType():
            return Item(f"sumOrNull(toFloat64({operand.sql}))", "double", read, "NULL")
        case IntegerType(bits) if bits <= 32:  # 2³¹ rows do not overflow
            return Item(f"toInt64(sumOrNull({operand.sql}))", "long", read, "NULL")
        case IntegerType(64, True) if column.name not in rules.averaged:
            if not rules.is_ansi:
                return Item(f"sumOrNull({operand.sql})", "long", read, "NULL")
            return Item(f"toInt64(sumOrNull(toDecimal128({operand.sql}, 0)))", "long", read, "NULL")
    raise UntranslatableError


def _make_extreme(function: str, column: ColumnName, columns: ScanColumns) -> str:
    operand = columns.get_operand(column)
    if not isinstance(operand.type, FloatType):
        return f"{function}OrNull({operand.sql})"
    has_nan = f"max(isNaN({operand.sql})) = 1"
    extreme = f"{function}(if(isNaN({operand.sql}), NULL, {operand.sql}))"
    return f"if({has_nan}, nan, {extreme})" if function == "max" else f"coalesce({extreme}, if({has_nan}, nan, NULL))"
