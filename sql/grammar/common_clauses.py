"""Parses clauses that several statements share.

They are table names, ON CLUSTER, lists of settings, the text of a query, FORMAT and INTO OUTFILE.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sql.grammar.clause_types import (
    SettingLiteral,
    TableRef,
)
from sql.grammar.number_literals import parse_number
from sql.grammar.tokens import ClusterClause, Token, TokenStream, not_implemented, quote_string


@dataclass(frozen=True, slots=True)
class OutputClauses:
    """The clauses that may follow a statement that answers with rows."""

    format: str | None = None
    outfile: str | None = None
    settings: dict[str, SettingLiteral] = field(default_factory=dict)


def parse_table_name(stream: TokenStream, what: str = "table name") -> TableRef:
    """Parses ``table`` or ``database.table``; ``what`` is the name for it in a syntax error."""
    first = stream.identifier(what)
    if stream.accept("."):
        return TableRef(first, stream.identifier(what))
    return TableRef(None, first)


def on_cluster(stream: TokenStream) -> None:
    """Parses an optional ``ON CLUSTER name`` and notes it in the stream.

    It is no part of the statement: the statement parser takes it from ``stream.on_cluster``.
    """
    start = stream.peek().start
    if not stream.accept("ON", "CLUSTER"):
        return
    if stream.on_cluster is not None:
        stream.fail("ON CLUSTER only once")
    name = stream.string() if stream.peek().kind == "string" else stream.identifier("cluster name")
    stream.on_cluster = ClusterClause(name, start, stream.position)


def accept_if_exists(stream: TokenStream) -> bool:
    return stream.accept("IF", "EXISTS")


def accept_if_not_exists(stream: TokenStream) -> bool:
    return stream.accept("IF", "NOT", "EXISTS")


def parse_identifier_list(stream: TokenStream) -> tuple[str, ...]:
    """Parses ``name, name, …``; a compound name ``a.b`` is one name."""
    names: list[str] = []
    while True:
        name = stream.identifier("column name")
        while stream.accept("."):
            name += "." + stream.identifier("column name")
        names.append(name)
        if not stream.accept(","):
            return tuple(names)


def parse_settings_clause(stream: TokenStream) -> dict[str, SettingLiteral]:
    """Parses ``name = value, …``; a later value of the same name wins."""
    settings: dict[str, SettingLiteral] = {}
    while True:
        name = stream.identifier("setting name")
        stream.expect("=")
        settings[name] = parse_setting_literal(stream)
        if not (stream.at(",") and stream.peek(1).is_identifier and stream.peek(2).text == "="):
            return settings
        stream.next()


def parse_setting_literal(stream: TokenStream) -> SettingLiteral:
    """Parses one value of a setting: a number, string, boolean, DEFAULT, or a bracketed literal as text."""
    token = stream.peek()
    negative = token.text in ("-", "+") and token.kind == "mark" and stream.peek(1).kind == "number"
    if negative:
        stream.next()
    if token.kind == "string":
        return stream.next().value
    if stream.peek().kind == "number":
        value = parse_number_token(stream.next())
        return -value if token.text == "-" else value
    if token.kind == "word":
        lower = token.text.lower()
        if lower in ("true", "false"):
            stream.next()
            return lower == "true"
        if lower == "default":
            stream.next()
            return None
    if token.kind == "mark" and token.text in "[({":
        start = token.start
        stream.skip_group()
        return stream.text[start : stream.position]
    return stream.fail("a literal value")


def parse_parameter_value(stream: TokenStream) -> str:
    """Parses the value of a query parameter and returns it as an HTTP request would give it.

    Numbers and booleans are written out; a bare word is taken as it is.
    """
    token = stream.peek()
    if token.kind == "word" and token.upper not in ("TRUE", "FALSE"):
        return stream.next().text
    value = parse_setting_literal(stream)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.17g}" if isinstance(value, float) and value.is_integer() else str(value)


def parse_number_token(token: Token) -> int | float:
    """Returns the value of a number token."""
    value: int | float = parse_number(token.text).value
    return value


def slice_query(stream: TokenStream, behind: str = "") -> str:
    """Returns the text of a query, without parsing it.

    The query ends before FORMAT, SETTINGS, INTO OUTFILE, ``;``, a closing bracket that was not opened, or the word
    ``behind`` before a string.
    """

    def ends(inner: TokenStream) -> bool:
        return _query_ends(inner) or (bool(behind) and inner.at(behind) and inner.peek(1).kind == "string")

    return stream.slice_until(ends, "a query")


def _query_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    if token.kind != "word":
        return False
    word = token.upper
    if word == "FORMAT":
        return stream.peek(1).is_identifier and _is_clause_end(stream.peek(2))
    if word == "SETTINGS":
        return stream.peek(1).is_identifier and stream.peek(2).text == "="
    if word == "INTO":
        return stream.at("INTO", "OUTFILE") and stream.peek(2).kind == "string"
    return False


def _is_clause_end(token: Token) -> bool:
    return token.kind == "end" or token.text in (";", ")") or token.upper in ("SETTINGS", "INTO")


def parse_output_clauses(stream: TokenStream) -> OutputClauses:
    """Parses INTO OUTFILE, FORMAT and SETTINGS in any order, each at most once."""
    output_format: str | None = None
    outfile: str | None = None
    settings: dict[str, SettingLiteral] = {}
    while True:
        if outfile is None and stream.accept("INTO", "OUTFILE"):
            outfile = stream.string("the file name")
            for word in ("AND", "APPEND", "TRUNCATE", "COMPRESSION"):
                if stream.at(word):
                    raise not_implemented(f"INTO OUTFILE … {word}")
        elif output_format is None and stream.at("FORMAT") and stream.peek(1).is_identifier:
            stream.next()
            output_format = stream.identifier("format name")
        elif not settings and stream.at("SETTINGS") and stream.peek(1).is_identifier:
            stream.next()
            settings = parse_settings_clause(stream)
        else:
            return OutputClauses(output_format, outfile, settings)


def render_settings(settings: dict[str, SettingLiteral]) -> str:
    """Writes ``name = value, …`` so that it can be parsed again."""
    return ", ".join(f"{name} = {render_setting_value(value)}" for name, value in settings.items())


def render_setting_value(value: SettingLiteral) -> str:
    """Writes a setting's value as a literal."""
    if value is None or isinstance(value, bool):
        return "DEFAULT" if value is None else str(value).lower()
    return quote_string(value) if isinstance(value, str) else repr(value)
