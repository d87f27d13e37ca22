"""Parses the TTL of tables and columns: ``TTL expression [action], …``.

Expressions in the stored text of a clause are as :mod:`sql.grammar.queries.query_formatter` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from parts.common.errors import UserError
from sql.grammar.queries.query_formatter import normalize_expression
from sql.grammar.tokens import TokenStream, not_implemented

_ENDS = frozenset(
    {"DELETE", "RECOMPRESS", "WHERE", "SET", "SETTINGS", "ENGINE", "AS", "EMPTY", "FORMAT", "FIRST", "AFTER", "CODEC"}
)
_ENDING_PAIRS = (("GROUP", "BY"), ("TO", "DISK"), ("TO", "VOLUME"), ("PARTITION", "BY"), ("ORDER", "BY"),
                 ("PRIMARY", "KEY"), ("SAMPLE", "BY"))  # fmt: skip
_COMMANDS = frozenset(
    {"ADD", "DROP", "MODIFY", "ALTER", "REMOVE", "RENAME", "COMMENT", "CLEAR", "MATERIALIZE", "RESET"}
)


@dataclass(frozen=True, slots=True)
class TtlClause:
    """``TTL expression`` of a table, with its action.

    Without other fields, expired rows are deleted (those that match ``where``). With ``group_by`` they are merged into
    one row per key, with the ``assigned`` values. With ``recompress`` they are stored with another codec.
    """

    expression: str
    where: str = ""
    group_by: tuple[str, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    recompress: str = ""

    @property
    def expressions(self) -> tuple[str, ...]:
        """All expressions of the clause, as text."""
        return (self.expression, *filter(None, [self.where]), *self.group_by, *(value for _, value in self.assigned))

    @property
    def text(self) -> str:
        """The clause as it is stored."""
        if self.recompress:
            return f"{self.expression} RECOMPRESS CODEC({self.recompress})"
        if self.group_by:
            sets = ", ".join(f"{column} = {value}" for column, value in self.assigned)
            return f"{self.expression} GROUP BY {', '.join(self.group_by)}" + (f" SET {sets}" if sets else "")
        return f"{self.expression} WHERE {self.where}" if self.where else self.expression


def read_table_ttl_text(stream: TokenStream) -> str:
    """Parses what follows TTL of a table; returns the text to be stored."""
    return ", ".join(clause.text for clause in parse_ttl_clauses(stream))


def read_column_ttl_text(stream: TokenStream) -> str:
    """Parses what follows TTL of a column; returns the text to be stored."""
    return normalize_expression(stream.slice_until(_expression_ends))


def parse_stored_ttl(text: str) -> tuple[TtlClause, ...]:
    """Parses the stored text of a table's TTL."""
    stream = TokenStream(text)
    clauses = parse_ttl_clauses(stream)
    if not stream.is_at_end():
        stream.fail("end of TTL")
    return clauses


def parse_ttl_clauses(stream: TokenStream) -> tuple[TtlClause, ...]:
    """Parses the clauses of a table's TTL."""
    clauses = [_parse_clause(stream)]
    while stream.at(",") and not _at_next_command(stream):
        stream.next()
        clauses.append(_parse_clause(stream))
    return tuple(clauses)


def _at_next_command(stream: TokenStream) -> bool:
    """Returns whether another command of ALTER TABLE comes after the comma."""
    verb, object_ = stream.peek(1), stream.peek(2)
    return verb.upper in _COMMANDS and object_.kind == "word"


def _parse_clause(stream: TokenStream) -> TtlClause:
    expression = normalize_expression(stream.slice_until(_expression_ends, "TTL expression"))
    if stream.accept("RECOMPRESS"):
        if not stream.at("CODEC", "("):
            stream.fail("CODEC")
        stream.next()
        start = stream.peek().end
        stream.skip_group()
        return TtlClause(expression, recompress=stream.text[start : stream.position - 1].strip())
    if stream.at("TO", "DISK") or stream.at("TO", "VOLUME"):
        kind = stream.peek(1).upper
        place = stream.peek(4 if stream.at("TO", kind, "IF", "EXISTS") else 2).value
        if place == "default":
            raise not_implemented(f"TTL … TO {kind}")
        raise UserError("BAD_TTL_EXPRESSION", f"No such {kind.lower()} {place!r}: the data of a table are on one disk")
    if stream.accept("GROUP", "BY"):
        keys = [normalize_expression(stream.slice_until(_expression_ends, "key"))]
        while stream.accept(","):
            keys.append(normalize_expression(stream.slice_until(_expression_ends, "key")))
        return TtlClause(expression, group_by=tuple(keys), assigned=_parse_assignments(stream))
    stream.accept("DELETE")
    where = normalize_expression(stream.slice_until(_expression_ends)) if stream.accept("WHERE") else ""
    return TtlClause(expression, where)


def _parse_assignments(stream: TokenStream) -> tuple[tuple[str, str], ...]:
    if not stream.accept("SET"):
        return ()
    found = [_parse_assignment(stream)]
    while stream.at(",") and stream.peek(1).is_identifier and stream.peek(2).text == "=":
        stream.next()
        found.append(_parse_assignment(stream))
    return tuple(found)


def _parse_assignment(stream: TokenStream) -> tuple[str, str]:
    column = stream.identifier("column name")
    stream.expect("=")
    return column, normalize_expression(stream.slice_until(_expression_ends))


def _expression_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    if token.text == ",":
        return True
    if token.kind != "word":
        return False
    if token.upper == "COMMENT":
        return stream.peek(1).kind == "string"
    return token.upper in _ENDS or any(stream.at(*pair) for pair in _ENDING_PAIRS)
