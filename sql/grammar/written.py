"""The text of an expression as ClickHouse keeps it in definitions: operators between their operands, in brackets where
an operand is an operator too; INTERVAL as the function that it means."""

from __future__ import annotations

from sql.grammar.queries import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Literal, LiteralList, Node
from sql.grammar.tokens import identifier_if_needed, quote_string

_BETWEEN = {
    "plus": "+", "minus": "-", "multiply": "*", "divide": "/", "modulo": "%", "equals": "=", "notEquals": "!=",
    "less": "<", "greater": ">", "lessOrEquals": "<=", "greaterOrEquals": ">=", "like": "LIKE", "notLike": "NOT LIKE",
    "ilike": "ILIKE", "notILike": "NOT ILIKE", "in": "IN", "notIn": "NOT IN", "and": "AND", "or": "OR",
}  # fmt: skip
_BEFORE = {"not": "NOT ", "negate": "-"}
_BEHIND = {"isNull": " IS NULL", "isNotNull": " IS NOT NULL"}


class _OtherError(Exception):
    """The expression has something that is not written here."""


def written(text: str) -> str:
    """As it was, but for blanks, where it has a form that is not known here. Raises ``UserError`` 62."""
    node = parse_expression(text)
    try:
        return _text(node)
    except _OtherError:
        return " ".join(text.split()) if "'" not in text else text.strip()


def _text(node: Node) -> str:
    match node:
        case Literal(value, number):
            return _literal(value, number)
        case LiteralList(values, is_array) if not node.is_of_tuples:
            items = ", ".join(_literal(value, "") for value in values.to_pylist())
            return f"[{items}]" if is_array else f"({items})"
        case Identifier(parts):
            return ".".join(identifier_if_needed(part) for part in parts)
        case Function() if not (node.distinct or node.filter or node.window or node.nulls):
            return _function(node)
    raise _OtherError


def _function(node: Function) -> str:
    name, args = node.name, node.args
    if node.params is None:
        if name in _BETWEEN and len(args) >= 2:
            return f" {_BETWEEN[name]} ".join(map(_operand, args))
        if name in _BEFORE and len(args) == 1:
            return _BEFORE[name] + _operand(args[0])
        if name in _BEHIND and len(args) == 1:
            return _operand(args[0]) + _BEHIND[name]
        if name in ("in", "notIn"):
            raise _OtherError
        if name == "tuple" and len(args) > 1:
            return f"({_list(args)})"
        if name == "array":
            return f"[{_list(args)}]"
        if name == "arrayElement":
            return f"{_operand(args[0])}[{_text(args[1])}]"
    params = f"({_list(node.params)})" if node.params is not None else ""
    return f"{name}{params}({_list(args)})"


def _operand(node: Node) -> str:
    is_operator = isinstance(node, Function) and node.name in {**_BETWEEN, **_BEFORE, **_BEHIND}
    return f"({_text(node)})" if is_operator else _text(node)


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(map(_text, nodes))


def _literal(value: object, number: str) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    return quote_string(value) if isinstance(value, str) else number or repr(value)
