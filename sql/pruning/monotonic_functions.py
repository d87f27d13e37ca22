"""Knows which functions of one argument never decrease, so that a condition can use a key.

Local time can run backwards where a zone leaves summer time. So functions of the calendar and the clock count only on
Date, and where the zone is UTC.
"""

from __future__ import annotations

from parts.table.table_description import TableSchema
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    FloatType,
    IntegerType,
    strip_nullable,
)
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope, table_source
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node

_CALENDAR = frozenset(
    {
        "toYYYYMM", "toYYYYMMDD", "toYYYYMMDDhhmmss", "toDate", "toDate32", "toYear", "toISOYear", "toStartOfYear",
        "toStartOfISOYear", "toStartOfQuarter", "toStartOfMonth", "toStartOfWeek", "toMonday", "toStartOfDay",
        "toStartOfHour", "toStartOfMinute", "toStartOfFiveMinutes", "toStartOfTenMinutes", "toStartOfFifteenMinutes",
        "toStartOfSecond", "timeSlot", "toRelativeYearNum", "toRelativeQuarterNum", "toRelativeMonthNum",
        "toRelativeDayNum", "toRelativeHourNum", "toRelativeMinuteNum", "toRelativeSecondNum", "toLastDayOfMonth",
        "toUnixTimestamp", "toDateTime",
    }
)  # fmt: skip
_SECOND_OF_TWO = frozenset({"date_trunc", "dateTrunc"})
_FIRST_OF_TWO = frozenset({"toStartOfInterval", "toStartOfWeek"})
_FLOOR = frozenset({"floor", "ceil", "trunc"})
_UTC = frozenset({"UTC", "Etc/UTC", "GMT"})


def find_monotonic_argument(node: Node, inner: Node, schema: TableSchema, zone: str) -> Node | None:
    """Returns ``inner`` if ``node`` is a chain of growing functions around it, else ``None``."""
    if node == inner:
        return inner
    if not isinstance(node, Function) or node.params is not None:
        return None
    argument = _find_argument(node)
    if argument is None or find_monotonic_argument(argument, inner, schema, zone) is None:
        return None
    type_ = _find_type(argument, schema)
    return inner if type_ is not None and _is_growing(node, type_, zone) else None


def _find_argument(node: Function) -> Node | None:
    if len(node.args) == 1:
        return node.args[0]
    if len(node.args) != 2:
        return None
    first, second = node.args
    if node.name in _SECOND_OF_TWO and isinstance(first, Literal):
        return second
    if node.name in _FIRST_OF_TWO and not isinstance(second, Identifier):
        return first
    if node.name == "intDiv" and isinstance(second, Literal) and isinstance(second.value, int) and second.value > 0:
        return first
    if node.name in ("CAST", "toTimeZone") and isinstance(second, Literal):
        return first
    return None


def _find_type(node: Node, schema: TableSchema) -> DataType | None:
    if isinstance(node, Identifier) and node.parts[0] in schema:
        return strip_nullable(schema.column(node.parts[0]).type)
    return strip_nullable(ExpressionCompiler(Scope([table_source(schema)]), Environment()).compile(node).type)


def _is_growing(node: Function, type_: DataType, zone: str) -> bool:
    name = node.name
    if name in ("identity", "materialize"):
        return True
    if name == "toTimeZone":  # the same instant
        return isinstance(type_, (DateTimeType, DateTime64Type))
    if name in _CALENDAR or name in _SECOND_OF_TWO or name in _FIRST_OF_TWO:
        if isinstance(type_, (DateType, Date32Type)):
            return zone in _UTC or name not in ("toDateTime", "toUnixTimestamp", "toStartOfDay")
        return isinstance(type_, (DateTimeType, DateTime64Type)) and (type_.timezone or zone) in _UTC
    if name == "intDiv":
        return isinstance(type_, IntegerType)
    if name in _FLOOR:
        return isinstance(type_, FloatType)
    if name in ("toInt16", "toInt32", "toInt64", "toUInt16", "toUInt32", "toUInt64", "toFloat64"):
        return _keeps_all_values(type_, name)
    return False


def _keeps_all_values(type_: DataType, name: str) -> bool:
    """Returns whether a conversion keeps every value."""
    if not isinstance(type_, IntegerType):
        return False
    if name == "toFloat64":
        return type_.bits <= 32
    signed, bits = name.startswith("toI"), int("".join(filter(str.isdigit, name)))
    if signed:
        return bits > type_.bits or (bits == type_.bits and type_.signed)
    return not type_.signed and bits >= type_.bits
