"""Parses skip indexes of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import IndexClause
from sql.grammar.tokens import TokenStream

_ELEMENTS = 3
"""The index, its expression and its type, in ClickHouse's tree."""
_WHOLE_PART = 100_000_000
"""The granularity that ClickHouse shows of a text index, whatever was written."""


def parse_index(stream: TokenStream) -> IndexClause:
    """Parses what follows INDEX: the name, expression, type and granularity."""
    stream.guard.count(_ELEMENTS)
    name = stream.identifier("index name")
    expression = stream.slice_until(lambda inner: inner.at("TYPE"), "index expression")
    type_, arguments, granularity = parse_index_type(stream, name)
    return IndexClause(name, expression, type_, arguments, granularity)


def parse_index_type(stream: TokenStream, name: str) -> tuple[str, tuple[str, ...], int]:
    """Parses ``TYPE type(arguments) GRANULARITY n`` of the index ``name``.

    Returns the three. Raises 36 (BAD_ARGUMENTS) for a granularity of 0.
    """
    stream.expect("TYPE")
    type_ = stream.identifier("index type")
    arguments: list[str] = []
    if stream.accept("("):
        while not stream.accept(")"):
            if arguments and not stream.accept(","):
                stream.fail(",", ")")
            arguments.append(stream.slice_until(lambda inner: inner.at(","), "index argument"))
    granularity = 1
    if stream.accept("GRANULARITY"):
        token = stream.peek()
        if token.kind != "number" or not token.text.isdecimal():
            stream.fail("unsigned integer")
        granularity = int(stream.next().text)
        if not granularity:
            raise UserError("BAD_ARGUMENTS", f"Index GRANULARITY must be a positive integer (index {name})")
    return type_, tuple(arguments), _WHOLE_PART if type_.lower() == "text" else granularity
