"""Renames a column in the texts of a definition that name it."""

from __future__ import annotations

from dataclasses import replace

from sql.grammar.clause_types import ColumnClause
from sql.grammar.tokens import TokenStream, quote_identifier_if_needed


def rename_in_column(column: ColumnClause, old: str, new: str) -> ColumnClause:
    """Renames a column in another's clause, or in its own."""
    name = new if column.name == old else column.name
    default = rename_in_expression(column.default_expression, old, new)
    return replace(column, name=name, default_expression=default, ttl=rename_in_expression(column.ttl, old, new))


def rename_in_expression(expression: str, old: str, new: str) -> str:
    """Renames a column in an expression's text.

    A lambda's parameter of the same name is renamed too, which changes nothing.
    """
    pieces: list[str] = []
    end = 0
    for start, stop in find_column_references(old, expression):
        pieces += [expression[end:start], quote_identifier_if_needed(new)]
        end = stop
    return "".join([*pieces, expression[end:]])


def find_column_references(column: str, expression: str) -> list[tuple[int, int]]:
    """Returns where the text names the column, alone or as the start of a compound name."""
    stream = TokenStream(expression)
    places = []
    while (token := stream.next()).kind != "end":
        if not token.is_identifier or stream.at("("):
            continue
        name = token.value
        found = [(name, token.end)]
        while stream.at(".") and stream.peek(1).is_identifier:
            stream.next()
            part = stream.next()
            name = f"{name}.{part.value}"
            found.append((name, part.end))
        places += [(token.start, end) for name, end in found if name == column]
    return places
