"""Translates conditions of Spark to ClickHouse, where both mean the same for every row.

The same means the same true, false and NULL. What may differ is left out, and Spark, which then keeps its filter,
decides it alone. Of an AND, each term that can be translated is; below NOT it must be the whole.

These differences are respected. In Spark NaN is above all numbers, and equal to itself. Strings that have another type
on the server (Enum, UUID, addresses) are compared as strings. Instants are microseconds since 1970, whatever the time
zones. NULL in a list makes the answer NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Call, ColumnName, Literal, Node
from engine.scan.push_down.literals import UntranslatableError, format_constant, quote_name, quote_text
from parts.types import BoolType, DataType, FloatType, StringType

_TURNED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AFFIXES = {"STARTS_WITH": "startsWith({}, {})", "ENDS_WITH": "endsWith({}, {})", "CONTAINS": "(position({}, {}) > 0)"}
_MOST_VALUES = 20_000


@dataclass(frozen=True)
class Condition:
    """A condition of ClickHouse that holds wherever Spark's does; if it ``is_exact``, nowhere else."""

    sql: str
    is_exact: bool = True


def translate_condition(node: Node, columns: ScanColumns) -> Condition | None:
    """Returns the strongest condition that is known to hold where Spark's does; ``None`` for none."""
    try:
        return _translate(node, columns, is_exact=False)
    except UntranslatableError:
        return None


def _translate(node: Node, columns: ScanColumns, *, is_exact: bool) -> Condition:
    match node:
        case Call("AND", (left, right)):
            return _conjunction((left, right), columns, is_exact=is_exact)
        case Call("OR", (left, right)):
            sides = [_translate(side, columns, is_exact=is_exact) for side in (left, right)]
            return Condition(f"({sides[0].sql} OR {sides[1].sql})", all(side.is_exact for side in sides))
        case Call("NOT", (child,)):
            return Condition(f"(NOT {_translate(child, columns, is_exact=True).sql})")
        case Call("<>", (left, right)):
            return Condition(f"(NOT {_compare('=', left, right, columns)})")
        case Call("ALWAYS_TRUE", ()):
            return Condition("(1 = 1)")
        case Call("ALWAYS_FALSE", ()):
            return Condition("(1 = 0)")
        case Call("BOOLEAN_EXPRESSION", (child,)):
            return _translate(child, columns, is_exact=is_exact)
        case Call(name, (left, right)) if name in _TURNED:
            return Condition(_compare(name, left, right, columns))
        case Call(name, (left, Literal(str(value), "string"))) if name in _AFFIXES:
            return Condition(_AFFIXES[name].format(_text(left, columns), quote_text(value)))
        case Call("LIKE", (left, Literal(str(pattern), "string"))):
            return Condition(f"({_text(left, columns)} LIKE {_translate_pattern(pattern)})")
        case Call("IN", (left, *items)):
            return Condition(_membership(left, items, columns))
        case Call("IS_NULL" | "IS_NOT_NULL" as name, (child,)):
            function = "isNull" if name == "IS_NULL" else "isNotNull"
            return Condition(f"{function}({quote_name(columns.get_column(child)[0])})")
        case Call("IS_NAN", (child,)):
            return Condition(_nan(child, columns))
        case ColumnName():
            operand = columns.get_operand(node)
            if isinstance(operand.type, BoolType):
                return Condition(f"({operand.sql} = true)")
    raise UntranslatableError


def _conjunction(sides: tuple[Node, Node], columns: ScanColumns, *, is_exact: bool) -> Condition:
    terms = []
    for side in sides:
        try:
            terms.append(_translate(side, columns, is_exact=is_exact))
        except UntranslatableError:
            if is_exact:
                raise
    if not terms:
        raise UntranslatableError
    sql = f"({' AND '.join(term.sql for term in terms)})" if len(terms) > 1 else terms[0].sql
    return Condition(sql, len(terms) == 2 and all(term.is_exact for term in terms))


def _compare(sign: str, left: Node, right: Node, columns: ScanColumns) -> str:
    if isinstance(left, Literal):
        left, right, sign = right, left, _TURNED[sign]
    operand = columns.get_compared_operand(left)
    value = _constant(right, operand.type, is_bound=sign not in ("=", "<=>"))
    if sign in (">", ">=") and isinstance(operand.type, FloatType):
        return f"({operand.sql} {sign} {value} OR isNaN({operand.sql}))"
    if sign == "<=>":
        return f"({operand.sql} = {value} AND isNotNull({operand.sql}))"
    return f"({operand.sql} {sign} {value})"


def _membership(left: Node, items: list[Node], columns: ScanColumns) -> str:
    if not 0 < len(items) <= _MOST_VALUES:
        raise UntranslatableError
    operand = columns.get_compared_operand(left)
    values = [_constant(item, operand.type) for item in items]
    if isinstance(operand.type, FloatType) and any(float(value) == 0 for value in values):
        raise UntranslatableError  # in a set of the server 0.0 and -0.0 differ
    return f"({operand.sql} IN ({', '.join(values)}))"


def _constant(node: Node, type_: DataType, *, is_bound: bool = False) -> str:
    if not isinstance(node, Literal):
        raise UntranslatableError
    return format_constant(node.value, type_, is_bound=is_bound)


def _nan(node: Node, columns: ScanColumns) -> str:
    """Translates IsNaN, which is never NULL in Spark."""
    operand = columns.get_compared_operand(node)
    if not isinstance(operand.type, FloatType):
        raise UntranslatableError
    return f"(isNaN({operand.sql}) AND isNotNull({operand.sql}))"


def _text(node: Node, columns: ScanColumns) -> str:
    operand = columns.get_operand(node)
    if not isinstance(operand.type, StringType):
        raise UntranslatableError
    return operand.sql


def _translate_pattern(pattern: str) -> str:
    """Translates a LIKE pattern; both read ``%``, ``_`` and the backslash before one of the three alike."""
    if any(follower not in "%_\\" for follower in _escapes(pattern)):
        raise UntranslatableError
    return quote_text(pattern)


def _escapes(pattern: str) -> Iterator[str]:
    """Yields the character behind each escaping backslash; a blank at the end."""
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            yield next(characters, " ")
