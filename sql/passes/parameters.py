"""``{name:Type}`` becomes the parameter's value, read as a value of its type."""

from __future__ import annotations

from collections.abc import Mapping

from parts.errors import UserError
from parts.types import IntegerType, NullableType, StringType, parse_type
from sql.syntax_tree import Function, Literal, Node, Parameter, Query, transform


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    def change(node: Node) -> Node:
        return _value(node, given) if isinstance(node, Parameter) else node

    result = transform(query, change)
    assert isinstance(result, Query)
    return result


def _value(parameter: Parameter, given: Mapping[str, str]) -> Node:
    if parameter.name not in given:
        name = parameter.name
        raise UserError("UNKNOWN_QUERY_PARAMETER", f"Substitution `{name}` is not set: pass param_{name}")
    text = given[parameter.name]
    if parameter.type == "Identifier":
        from sql.syntax_tree import Identifier

        return Identifier(tuple(text.split(".")))
    type_ = parse_type(parameter.type)
    if isinstance(type_, NullableType) and text in ("\\N", "NULL"):
        return Function("CAST", (Literal(None), Literal(parameter.type)))
    bare = type_.inner if isinstance(type_, NullableType) else type_
    if isinstance(bare, IntegerType):
        try:
            number = int(text)
        except ValueError:
            raise _bad(parameter, text) from None
        if not bare.minimum <= number <= bare.maximum:
            raise _bad(parameter, text)
        if type_ is bare and _literal_type_is(number, bare):
            return Literal(number, text)
        return Function("CAST", (Literal(number, text), Literal(parameter.type)))
    if isinstance(type_, StringType):
        return Literal(text)
    if text.startswith(("[", "(", "{")):
        from sql.query_parser import parse_expression

        return Function("CAST", (parse_expression(text), Literal(parameter.type)))
    return Function("CAST", (Literal(text), Literal(parameter.type)))


def _literal_type_is(number: int, type_: IntegerType) -> bool:
    from sql.typed import integer_literal_type

    return integer_literal_type(number) == type_


def _bad(parameter: Parameter, text: str) -> UserError:
    return UserError(
        "CANNOT_PARSE_TEXT",
        f"Value {text!r} cannot be parsed as {parameter.type} for query parameter '{parameter.name}'",
    )
