"""Names of result columns without an alias: the expression in ClickHouse's canonical spelling."""

from __future__ import annotations

from decimal import Decimal

from sql.functions.registry import canonical_function_name
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    LiteralList,
    Node,
    OrderItem,
    Parameter,
    Star,
    StarColumn,
    Subquery,
    WindowSpec,
)
from sql.grammar.tokens import quote_identifier_if_needed, quote_string

_NAMES = {"trim": "trimBoth", "ltrim": "trimLeft", "rtrim": "trimRight"}


def result_column_name(node: Node) -> str:
    """Returns the name of a result column."""
    if isinstance(node, Alias):
        return node.name
    if isinstance(node, Identifier):
        return node.parts[-1] if len(node.parts) <= 2 else ".".join(node.parts[1:])
    return canonical_text(node)


def _literal_text(node: Literal) -> str:
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, float):
        return _float_text(value)
    return str(value)


def _float_text(value: float) -> str:
    """Formats a float: shortest digits, a point after integers, an exponent below 1e-6 and from 1e21 on."""
    if value != value or abs(value) == float("inf"):
        return str(value)
    digits = Decimal(repr(value))
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        text = f"{digits:f}".rstrip("0") if "." in f"{digits:f}" else f"{digits:f}."
        return text
    mantissa, exponent = f"{digits:e}".lower().split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def canonical_text(node: Node) -> str:
    """Returns an expression's text with functions in prefix form; equal expressions have equal texts."""
    match node:
        case Literal():
            return _literal_text(node)
        case LiteralList(values) if node.is_of_tuples:
            rows = zip(*(column.to_pylist() for column in values.flatten()), strict=True)
            tuples = ["(" + ", ".join([_literal_text(Literal(value)) for value in row]) + ")" for row in rows]
            return f"({', '.join(tuples)})"
        case LiteralList(values, is_array):
            inner = ", ".join([_literal_text(Literal(value)) for value in values.to_pylist()])
            return f"[{inner}]" if is_array else f"({inner})"
        case Identifier(parts):
            return ".".join(quote_identifier_if_needed(part) for part in parts)
        case StarColumn(_, _, shown):
            return shown
        case Alias(_, name):
            return quote_identifier_if_needed(name)
        case Lambda(parameters, body):
            names = parameters[0] if len(parameters) == 1 else f"({', '.join(parameters)})"
            return f"lambda(tuple({', '.join(parameters)}), {canonical_text(body)})" if names else ""
        case Parameter(name, type_):
            return f"{{{name}:{type_}}}"
        case Subquery():
            return "_subquery"
        case Star():
            return "*"
        case Function():
            return _function_text(node)
    return type(node).__name__


def _function_text(node: Function) -> str:
    """Returns the canonical text of a call."""
    if node.name == "array" or (node.name == "tuple" and node.args):
        inner = ", ".join(canonical_text(arg) for arg in node.args)
        return f"[{inner}]" if node.name == "array" else f"({inner})"
    name = _NAMES.get(node.name) or canonical_function_name(node.name)
    args = node.args
    if name.lower() == "count" and len(args) == 1 and isinstance(args[0], Star):
        name, args = "count", ()
    if node.distinct:
        name += "Distinct"
    params = "" if node.params is None else f"({', '.join(canonical_text(item) for item in node.params)})"
    text = f"{name}{params}({', '.join(canonical_text(arg) for arg in args)})"
    if node.window is not None:
        text += f" OVER {_window_text(node.window)}"
    return text


def _window_text(window: WindowSpec | str) -> str:
    if isinstance(window, str):
        return window
    parts = [window.base] if window.base else []
    if window.partition_by:
        parts.append("PARTITION BY " + ", ".join(canonical_text(item) for item in window.partition_by))
    if window.order_by:
        parts.append("ORDER BY " + ", ".join(_order_text(item) for item in window.order_by))
    if window.frame:
        parts.append(window.frame)
    return f"({' '.join(parts)})"


def _order_text(item: OrderItem) -> str:
    nulls = "" if item.nulls_first is None else f" NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return f"{canonical_text(item.expression)} {'DESC' if item.descending else 'ASC'}{nulls}"
