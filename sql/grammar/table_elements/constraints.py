"""Parses constraints of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from sql.grammar.clause_types import ConstraintClause
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.tokens import TokenStream

_ENDS = ("FORMAT", "SETTINGS")
_ELEMENTS = 2
"""The constraint and its expression, in ClickHouse's tree."""


def parse_constraint(stream: TokenStream) -> ConstraintClause:
    """Parses what follows CONSTRAINT: ``name CHECK | ASSUME expression``."""
    stream.guard.count(_ELEMENTS)
    name = stream.identifier("constraint name")
    is_assumed = stream.accept("ASSUME")
    if not is_assumed:
        stream.expect("CHECK")
    expression = stream.slice_until(_ends, "constraint expression")
    parse_expression(expression)
    return ConstraintClause(name, expression, is_assumed)


def _ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.text == "," or (token.kind == "word" and token.upper in _ENDS)
