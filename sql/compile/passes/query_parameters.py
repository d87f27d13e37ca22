r"""Replaces ``{name:Type}`` by the parameter's value, parsed as a value of its type.

Texts are escaped as in TabSeparated (``a\tb`` is three characters). Arrays, tuples and maps are literals that contain
nothing but values. Source: ClickHouse documentation, "Query parameters".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import IntegerType, NullableType, StringType, parse_type
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node, Parameter, Query, transform
from sql.grammar.text_escapes import unescape
from sql.typing.typed_expressions import integer_literal_type

_INTEGER = re.compile(r"[+-]?[0-9]{1,80}\Z")
_BARE_SEPARATOR = re.compile(r"(?s)(?:[^\\\t\n]|\\.)*+[\t\n]")
_LITERAL_FUNCTIONS = frozenset({"array", "tuple", "map"})


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    """Replaces all parameters of a query. Raises ``UserError`` 25, 456, 457."""

    def change(node: Node) -> Node:
        return parameter_value(node, given) if isinstance(node, Parameter) else node

    result = transform(query, change)
    assert isinstance(result, Query)
    return result


def parameter_value(parameter: Parameter, given: Mapping[str, str]) -> Node:
    """Returns the value of a parameter as a tree.

    Raises 456 (UNKNOWN_QUERY_PARAMETER), 457 for an invalid text, 25 for an invalid escape.
    """
    if parameter.name not in given:
        name = parameter.name
        raise UserError("UNKNOWN_QUERY_PARAMETER", f"Substitution `{name}` is not set: pass param_{name}")
    text = given[parameter.name]
    if parameter.type == "Identifier":
        return Identifier(tuple(text.split(".")))
    type_ = parse_type(parameter.type)
    if isinstance(type_, NullableType) and text in ("\\N", "NULL"):
        return Function("CAST", (Literal(None), Literal(parameter.type)))
    bare = type_.inner if isinstance(type_, NullableType) else type_
    if isinstance(bare, IntegerType):
        if not _INTEGER.match(text):
            raise _invalid_value_error(parameter, text)
        number = int(text)
        if not bare.minimum <= number <= bare.maximum:
            raise _invalid_value_error(parameter, text)
        if type_ is bare and _is_literal_type(number, bare):
            return Literal(number, text)
        return Function("CAST", (Literal(number, text), Literal(parameter.type)))
    if bare.is_composite:
        return Function("CAST", (_parse_composite(parameter, text), Literal(parameter.type)))
    value = _unescape(parameter, text)
    return (
        Literal(value) if isinstance(type_, StringType) else Function("CAST", (Literal(value), Literal(parameter.type)))
    )


def _unescape(parameter: Parameter, text: str) -> str:
    if _BARE_SEPARATOR.match(text):
        raise _invalid_value_error(parameter, text, " (tabs and line feeds must be escaped)")
    if "\\" not in text:
        return text
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise UserError(
            "CANNOT_PARSE_ESCAPE_SEQUENCE", f"Parameter '{parameter.name}' ends within an escape: {text[:200]!r}"
        )
    return str(unescape(pa.array([text]))[0])


def _parse_composite(parameter: Parameter, text: str) -> Node:
    """Parses an array, tuple or map of literals. Anything else would be code injection, and is refused."""
    if text[:1] == "{":
        return Literal(text)
    if text[:1] not in ("[", "("):
        raise _invalid_value_error(parameter, text)
    tree = parse_expression(text)
    if not _is_value(tree):
        raise _invalid_value_error(parameter, text)
    return tree


def _is_value(node: Node) -> bool:
    if isinstance(node, Function):
        return node.name in _LITERAL_FUNCTIONS and node.params is None and all(map(_is_value, node.args))
    return isinstance(node, Literal)


def _is_literal_type(number: int, type_: IntegerType) -> bool:
    return integer_literal_type(number) == type_


def _invalid_value_error(parameter: Parameter, text: str, reason: str = "") -> UserError:
    return UserError(
        "BAD_QUERY_PARAMETER",
        f"Value {text[:200]!r} cannot be parsed as {parameter.type} for query parameter '{parameter.name}'{reason}",
    )
