"""Expressions of Spark as a client sends them in JSON.

A node is one of these, where ``type`` is the name that Spark gives a type (``long``, ``decimal(10,2)``)::

    {"column": name}
    {"literal": value or null, "type": type}
    {"call": name, "children": [node, …], "type"?: type, "distinct"?: flag}

Literals are the values that Spark's optimizer keeps: dates are days and timestamps microseconds since 1970. Decimals
and floating numbers are texts. The names of calls are those of Spark's ``Predicate`` and ``AggregateFunc``, besides
``LIKE`` and ``IS_NAN``, and ``CAST`` to ``type``. What is of no such form is an ``Unknown``, which nothing pushes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Types of whole numbers, and the digits of their greatest."""
_MOST_DEPTH = 100
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_EPOCH = datetime.date(1970, 1, 1)
_MOST_DAYS = 500_000
_MOST_DIGITS = 100


@dataclass(frozen=True)
class Unknown:
    """An expression that is not understood."""


@dataclass(frozen=True)
class ColumnName:
    """A column of the table."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A constant: ``None``, a number, text, a date, or microseconds for a timestamp."""

    value: object
    type: str


@dataclass(frozen=True)
class Call:
    """A predicate, an aggregate or a cast."""

    name: str
    children: tuple[Node, ...]
    type: str = ""
    is_distinct: bool = False


Node = Unknown | ColumnName | Literal | Call


def parse_node(document: object, depth: int = 0) -> Node:
    """Parses a node; never raises."""
    if not isinstance(document, Mapping) or depth > _MOST_DEPTH:
        return Unknown()
    match document:
        case {"column": str(name)}:
            return ColumnName(name)
        case {"literal": value, "type": str(type_)}:
            return _parse_literal(value, type_)
        case {"call": str(name), "children": list(children)}:
            type_, is_distinct = document.get("type", ""), document.get("distinct", False)
            if isinstance(type_, str) and isinstance(is_distinct, bool):
                return Call(name, tuple(parse_node(child, depth + 1) for child in children), type_, is_distinct)
    return Unknown()


def parse_decimal_type(name: str) -> tuple[int, int] | None:
    """Returns precision and scale of a decimal type; ``None`` for other types."""
    found = _DECIMAL.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def is_wider(source: str, target: str) -> bool:
    """Returns whether a cast keeps all values distinct and in order."""
    before, after = parse_decimal_type(source), parse_decimal_type(target)
    if source in WHOLE_DIGITS:
        if after is not None:
            return after[0] - after[1] >= WHOLE_DIGITS[source]
        return WHOLE_DIGITS.get(target, 0) > WHOLE_DIGITS[source] or (target == "double" and source != "long")
    if before is not None and after is not None:
        return after[0] - after[1] >= before[0] - before[1] and after[1] >= before[1]
    return (source, target) == ("float", "double")


def _parse_literal(value: object, type_: str) -> Literal | Unknown:
    if value is None:
        return Literal(None, type_)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    match type_:
        case "boolean" if isinstance(value, bool):
            return Literal(value, type_)
        case "byte" | "short" | "integer" | "long" | "timestamp" if is_number:
            return Literal(value, type_)
        case "date" if isinstance(value, int) and is_number and abs(value) < _MOST_DAYS:
            return Literal(_EPOCH + datetime.timedelta(value), type_)
        case "string" if isinstance(value, str):
            return Literal(value, type_)
        case "float" | "double" if isinstance(value, str):
            return _parse_number(float, value, type_)
        case _ if isinstance(value, str) and len(value) <= _MOST_DIGITS and parse_decimal_type(type_):
            return _parse_number(Decimal, value, type_)
    return Unknown()


def _parse_number(kind: type[float] | type[Decimal], text: str, type_: str) -> Literal | Unknown:
    try:
        value = kind(text)
    except (ValueError, InvalidOperation):
        return Unknown()
    if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS):
        return Unknown()
    return Literal(value, type_)
