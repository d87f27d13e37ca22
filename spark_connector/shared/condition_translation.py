"""Translates conditions of Spark's plan to ClickHouse, where both mean the same for every row.

The same means the same true, false and NULL. What may differ is left out, and Spark, which keeps its filter, decides it
alone. Of an AND, each term that can be translated is; below NOT it must be the whole.

These differences are respected. In Spark NaN is above all numbers, and equal to itself. Strings that have another type
on the server (Enum, UUID, addresses) are compared as strings. Instants are microseconds since 1970, whatever the time
zones. NULL in a list makes the answer NULL.
"""

from __future__ import annotations

import ctypes
import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    StringType,
    UUIDType,
    strip_nullable,
)
from spark_connector.shared.options import escape_string, quote_identifier
from spark_connector.shared.type_mapping import has_nanoseconds

_COMPARISONS = {"EqualTo": "=", "EqualNullSafe": "=", "LessThan": "<", "LessThanOrEqual": "<=",
                "GreaterThan": ">", "GreaterThanOrEqual": ">="}  # fmt: skip
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_MOST_VALUES = 10_000
_EPOCH = datetime.date(1970, 1, 1)
_DATES = {DateType: ("toDate", _EPOCH, datetime.date(2149, 6, 6)),
          Date32Type: ("toDate32", datetime.date(1900, 1, 1), datetime.date(2299, 12, 31))}  # fmt: skip
_MICROSECONDS = 1_000_000
_FIRST_SECOND, _LAST_SECOND = -2_208_988_800, 10_413_791_999
"""The range of a DateTime64: 1900 to 2299."""


class _Untranslatable(Exception):
    """No condition means the same."""


@dataclass(frozen=True)
class _Operand:
    """A column as a condition names it, and the type by which it is compared."""

    sql: str
    type: DataType


@dataclass(frozen=True)
class ConditionTranslator:
    """Translates conditions; ``types`` are the columns' types on the server."""

    types: Mapping[str, DataType]

    def translate_weakened(self, expression: Any) -> str:
        """Returns a condition that holds wherever ``expression`` does; ``""`` for none.

        ``expression`` is an optimized one of Catalyst.
        """
        try:
            return self._condition(expression, is_exact=False)
        except _Untranslatable:
            return ""

    def _condition(self, node: Any, *, is_exact: bool) -> str:
        kind = _class_name(node)
        if kind == "And":
            return self._conjunction(node, is_exact)
        if kind == "Or":
            sides = [self._condition(side, is_exact=is_exact) for side in (node.left(), node.right())]
            return f"({' OR '.join(sides)})"
        if kind == "Not":
            return f"(NOT {self._condition(node.child(), is_exact=True)})"
        if kind in ("IsNull", "IsNotNull"):
            return f"is{kind[2:]}({quote_identifier(self._column(node.child())[0])})"
        if kind in _COMPARISONS:
            return self._comparison(node, kind)
        if kind in ("In", "InSet"):
            return self._membership(node, kind)
        if kind in ("StartsWith", "EndsWith", "Contains"):
            return self._affix(node, kind)
        if kind == "Like":
            return f"({self._text(node.left())} LIKE {_translate_pattern(node)})"
        if kind == "IsNaN":
            return self._nan(node)
        if kind == "AttributeReference":
            operand = self._operand(node)
            if isinstance(operand.type, BoolType):
                return f"({operand.sql} = true)"
        raise _Untranslatable

    def _conjunction(self, node: Any, is_exact: bool) -> str:
        terms = []
        for side in (node.left(), node.right()):
            try:
                terms.append(self._condition(side, is_exact=is_exact))
            except _Untranslatable:
                if is_exact:
                    raise
        if not terms:
            raise _Untranslatable
        return f"({' AND '.join(terms)})" if len(terms) > 1 else terms[0]

    def _comparison(self, node: Any, kind: str) -> str:
        left, right, sign = node.left(), node.right(), _COMPARISONS[kind]
        if _class_name(left) == "Literal":
            left, right, sign = right, left, _TURNED[sign]
        operand = self._operand(left)
        value = _translate_literal(right, operand.type, is_bound=sign != "=")
        if sign in (">", ">=") and isinstance(operand.type, FloatType):
            return f"({operand.sql} {sign} {value} OR isNaN({operand.sql}))"
        if kind == "EqualNullSafe":
            return f"({operand.sql} = {value} AND isNotNull({operand.sql}))"
        return f"({operand.sql} {sign} {value})"

    def _membership(self, node: Any, kind: str) -> str:
        if kind == "In":
            operand = self._operand(node.value())
            items = list_scala_elements(node.list())
            values = [_translate_literal(item, operand.type) for item in items[: _MOST_VALUES + 1]]
        else:
            operand = self._operand(node.child())
            name = node.child().dataType().catalogString()
            values = [
                _format_constant(_to_python_value(v, name), operand.type)
                for v in list_scala_elements(node.hset().toSeq())
            ]
        if not 0 < len(values) <= _MOST_VALUES:
            raise _Untranslatable
        if isinstance(operand.type, FloatType) and any(float(value) == 0 for value in values):
            raise _Untranslatable  # in a set of the server 0.0 and -0.0 differ
        return f"({operand.sql} IN ({', '.join(values)}))"

    def _affix(self, node: Any, kind: str) -> str:
        text, value = self._text(node.left()), _translate_literal(node.right(), StringType())
        if kind == "Contains":
            return f"(position({text}, {value}) > 0)"
        return f"{kind[0].lower()}{kind[1:]}({text}, {value})"

    def _nan(self, node: Any) -> str:
        """Translates IsNaN, which is never NULL in Spark."""
        operand = self._operand(node.child())
        if not isinstance(operand.type, FloatType):
            raise _Untranslatable
        return f"(isNaN({operand.sql}) AND isNotNull({operand.sql}))"

    def _text(self, node: Any) -> str:
        operand = self._operand(node)
        if not isinstance(operand.type, StringType):
            raise _Untranslatable
        return operand.sql

    def _column(self, node: Any) -> tuple[str, DataType]:
        if _class_name(node) != "AttributeReference" or node.name() not in self.types:
            raise _Untranslatable
        type_ = strip_nullable(self.types[node.name()])
        return node.name(), strip_nullable(type_.inner) if isinstance(type_, LowCardinalityType) else type_

    def _operand(self, node: Any) -> _Operand:
        """Returns a column, also where Spark casts it to a wider type to compare it."""
        while _class_name(node) == "Cast" and _is_wider(node.child().dataType(), node.dataType()):
            node = node.child()
        name, type_ = self._column(node)
        shown = node.dataType().catalogString()
        sql = quote_identifier(name)
        match type_:
            case EnumType() | UUIDType() | IPv4Type() | IPv6Type() if shown == "string":
                return _Operand(f"toString({sql})", StringType())
            case StringType() if shown == "string":
                return _Operand(sql, type_)
            case IntegerType(bits) if bits <= 64 and (shown in _WHOLE or shown.startswith("decimal")):
                return _Operand(sql, type_)
            case FloatType() if shown in ("float", "double"):
                return _Operand(sql, type_)
            case DecimalType() if shown.startswith("decimal"):
                return _Operand(sql, type_)
            case BoolType() if shown == "boolean":
                return _Operand(sql, type_)
            case DateType() | Date32Type() if shown == "date":
                return _Operand(sql, type_)
            case DateTimeType() | DateTime64Type() if shown == "timestamp" and not has_nanoseconds(type_):
                return _Operand(sql, type_)
        raise _Untranslatable


def list_scala_elements(sequence: Any) -> list[Any]:
    """Returns the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _class_name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_wider(source: Any, target: Any) -> bool:
    """Returns whether the cast keeps all values distinct and in order."""
    before, after = source.catalogString(), target.catalogString()
    digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
    if before in digits:
        if after.startswith("decimal"):
            return bool(target.precision() - target.scale() >= digits[before])
        return digits.get(after, 0) > digits[before] or (after == "double" and before != "bigint")
    if before.startswith("decimal") and after.startswith("decimal"):
        is_enough = target.precision() - target.scale() >= source.precision() - source.scale()
        return bool(is_enough and target.scale() >= source.scale())
    return (before, after) == ("float", "double")


def _translate_literal(node: Any, type_: DataType, *, is_bound: bool = False) -> str:
    if _class_name(node) != "Literal":
        raise _Untranslatable
    return _format_constant(_to_python_value(node.value(), node.dataType().catalogString()), type_, is_bound=is_bound)


def _to_python_value(value: Any, name: str) -> object:
    """Converts Catalyst's value of the type to ``None``, a number, text, a date or microseconds."""
    if value is None or name in _WHOLE or name in ("boolean", "double", "timestamp"):
        return value
    if name == "float":  # Catalyst gives only the digits that distinguish it from other floats
        return ctypes.c_float(value).value
    if name == "date":
        return _EPOCH + datetime.timedelta(value) if abs(value) < 500_000 else None
    if name == "string":
        return value.toString()
    if name.startswith("decimal"):
        return Decimal(value.toString())
    return None


def _format_constant(value: object, type_: DataType, *, is_bound: bool = False) -> str:
    """Returns a literal that compares with values of the type as in Spark.

    Raises for a literal that no value of the type equals, because it is out of range or finer: for IN and = the server
    would cast it to the type, and find another value. Only a bound (``is_bound``, of < or >) may be such a literal.
    """
    if not is_bound and not _can_hold(type_, value):
        raise _Untranslatable
    match type_, value:
        case BoolType(), bool():
            return str(value).lower()
        case IntegerType(), int() | float() | Decimal() if -(1 << 63) <= value < 1 << 64 and value == int(value):
            return str(int(value))
        case FloatType(), int() | float() if math.isfinite(value):
            return repr(float(value))
        case DecimalType(), int() | Decimal():
            return _format_decimal(Decimal(value), type_)
        case StringType(), str():
            return f"'{escape_string(value)}'"
        case DateType() | Date32Type(), datetime.date():
            function, first, last = _DATES[type(type_)]
            if first <= value <= last:
                return f"{function}('{value}')"
        case DateTimeType(), int() if value % _MICROSECONDS == 0 and 0 <= value < _MICROSECONDS << 32:
            return f"toDateTime({value // _MICROSECONDS})"
        case ((DateTimeType() | DateTime64Type()), int()) if _FIRST_SECOND <= value // _MICROSECONDS < _LAST_SECOND:
            return f"fromUnixTimestamp64Micro({value})"
    raise _Untranslatable


def _can_hold(type_: DataType, value: object) -> bool:
    match type_, value:
        case IntegerType(bits, signed), int() | float() | Decimal():
            low = -(1 << bits - 1) if signed else 0
            return low <= value < low + (1 << bits)
        case FloatType(32), int() | float():
            return ctypes.c_float(value).value == value
        case DateTimeType(), int():
            return value % _MICROSECONDS == 0 and 0 <= value < _MICROSECONDS << 32
        case DateTime64Type(precision), int():
            return bool(value % 10 ** max(0, 6 - precision) == 0)
    return True


def _format_decimal(value: Decimal, type_: DecimalType) -> str:
    """Returns a decimal literal; raises for one that no value of the column can be.

    So it is never scaled beyond the column's digits.
    """
    _, digits, exponent = value.as_tuple()
    scaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, type_.scale + int(exponent))
    if int(exponent) < -type_.scale:
        scaled, rest = divmod(scaled, 10 ** (-type_.scale - int(exponent)))
        if rest:
            raise _Untranslatable
    if scaled >= 10**type_.precision:
        raise _Untranslatable
    return f"toDecimal128('{value:f}', {type_.scale})"


def _translate_pattern(node: Any) -> str:
    """Translates a LIKE pattern; both read ``%``, ``_`` and the backslash before one of the three alike."""
    if _class_name(node.right()) != "Literal" or node.right().value() is None or node.escapeChar() != "\\":
        raise _Untranslatable
    pattern = str(node.right().value().toString())
    if any(follower not in "%_\\" for follower in _escapes(pattern)):
        raise _Untranslatable
    return f"'{escape_string(pattern)}'"


def _escapes(pattern: str) -> Iterator[str]:
    """Yields the character behind each escaping backslash; a blank at the end."""
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            yield next(characters, " ")
