"""Parses columns of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import ColumnClause
from sql.grammar.table_elements.ttl import read_column_ttl_text
from sql.grammar.tokens import TokenStream, not_implemented
from sql.grammar.type_texts import type_text

_DEFAULT_KINDS = ("DEFAULT", "MATERIALIZED", "ALIAS")
_COLUMN_REFUSED = ("EPHEMERAL", "STATISTICS", "COLLATE", "AUTO_INCREMENT", "SETTINGS")


def parse_column_name(stream: TokenStream) -> str:
    """Parses a column's name; ``n.a`` of a Nested column is one name."""
    name = stream.identifier("column name")
    while stream.accept("."):  # a name such as n.a, as in flattened Nested columns
        name += "." + stream.identifier("column name")
    return name


def parse_column(stream: TokenStream) -> ColumnClause:
    """Parses a column's name, type and properties."""
    return parse_column_properties(stream, parse_column_name(stream))


def parse_column_properties(stream: TokenStream, name: str, *, is_change: bool = False) -> ColumnClause:
    """Parses what follows a column's name: its type and properties.

    With ``is_change`` (MODIFY COLUMN) all of it may be left out.
    """
    type_ = "" if _at_column_clause(stream) or (is_change and _column_ends(stream)) else type_text(stream)
    kind = expression = codec = comment = ttl = ""
    is_not_null = False
    while not _column_ends(stream):
        token = stream.peek()
        if stream.at("NULL") or stream.at("NOT", "NULL"):
            if type_.startswith("Nullable("):
                raise UserError("ILLEGAL_SYNTAX_FOR_DATA_TYPE", f"{type_} of {name} says already that it takes NULL")
            is_not_null = stream.accept("NOT") or is_not_null
            stream.expect("NULL")
            type_ = type_ if is_not_null else f"Nullable({type_})"
        elif token.kind == "word" and token.upper in _DEFAULT_KINDS and not kind:
            kind = stream.next().upper
            expression = stream.slice_until(_column_expression_ends)
        elif stream.at("CODEC", "(") and not codec:
            stream.next()
            codec = _read_group(stream)
            if not codec:
                stream.fail("a codec in CODEC")
        elif stream.accept("COMMENT"):
            comment = stream.string("comment")
        elif stream.at("TTL") and not ttl:
            stream.next()
            ttl = read_column_ttl_text(stream)
        elif token.kind == "word" and (token.upper in _COLUMN_REFUSED or stream.at("PRIMARY", "KEY")):
            raise not_implemented(f"{token.upper} of column {name!r}")
        else:
            stream.fail("DEFAULT", "MATERIALIZED", "ALIAS", "NULL", "NOT NULL", "CODEC", "COMMENT", "TTL", ",", ")")
    if not type_ and not kind and not is_change:
        stream.fail("data type", "DEFAULT")
    return ColumnClause(name, type_, kind, expression, codec, comment, is_not_null, ttl)


def _column_ends(stream: TokenStream) -> bool:
    return stream.at(",") or stream.at(")") or stream.is_at_end() or _follows_column(stream)


def _follows_column(stream: TokenStream) -> bool:
    """Returns whether a word comes next that ends a column of ALTER TABLE."""
    token = stream.peek()
    return token.kind == "word" and token.upper in ("FIRST", "AFTER", "FORMAT", "SETTINGS")


def _at_column_clause(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind == "word" and token.upper in (*_DEFAULT_KINDS, "CODEC", "COMMENT", "EPHEMERAL", "TTL")


def _column_expression_ends(stream: TokenStream) -> bool:
    if stream.at(",") or stream.at("CODEC", "(") or stream.at("PRIMARY", "KEY") or _follows_column(stream):
        return True
    token = stream.peek()
    if token.kind != "word":
        return False
    return (token.upper == "COMMENT" and stream.peek(1).kind == "string") or token.upper in ("TTL", "STATISTICS")


def _read_group(stream: TokenStream) -> str:
    """Returns the text inside the brackets that come next."""
    if not stream.at("("):
        stream.fail("(")
    start = stream.peek().end
    stream.skip_group()
    return stream.text[start : stream.position - 1].strip()
