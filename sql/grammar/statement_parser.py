"""ClickHouse's statement grammar: recursive descent over a lazy token stream.

Queries and expressions are not understood here; they are sliced from the text as written, for ``queries`` and
``expressions``. What ClickHouse has and Pando has not is refused by name (48); what neither has is a syntax error (62).

The bodies of INSERT are never tokenised: see :func:`parse_insert_head` for a streamed body.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.grammar.common_clauses import parse_output_clauses, parse_settings_clause, render_settings, slice_query
from sql.grammar.query_limits import QueryGuard
from sql.grammar.statements import (
    alter,
    create_table,
    drop_table,
    insert,
    mutate_table,
    select,
    show,
    system_statements,
    transactions,
)
from sql.grammar.statements.statement import Explain, Insert, OnCluster, ParsedStatement
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream, not_implemented

MAX_STATEMENTS = 100_000
_UNSUPPORTED = frozenset(
    {
        "GRANT",
        "REVOKE",
        "UNDROP",
        "BACKUP",
        "RESTORE",
        "MOVE",
        "BEGIN",
        "EXECUTE",
        "WATCH",
        "PARALLEL",
    }
)
_EXPLAIN_KINDS = (
    "AST",
    "SYNTAX",
    "QUERY TREE",
    "PLAN",
    "PIPELINE",
    "ESTIMATE",
    "TABLE OVERRIDE",
    "CURRENT TRANSACTION",
)


def parse_statements(text: str | bytes, status: QueryStatus | None = None) -> list[ParsedStatement]:
    """Parses all statements of the text, separated by ``;``.

    The data of ``INSERT … FORMAT x`` runs to the end of the text; that of VALUES to the next ``;`` outside quotes.
    Raises ``UserError`` 62 (SYNTAX_ERROR), 48 (NOT_IMPLEMENTED), and what :meth:`QueryStatus.check` raises.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    stream = TokenStream(text, guard=QueryGuard(status=status, text=text))
    statements: list[ParsedStatement] = []
    for _ in range(MAX_STATEMENTS):
        while stream.accept(";"):
            pass
        if stream.peek().kind == "end":
            return statements
        statements.append(_statement(stream))
        if not stream.at_end():
            stream.fail("end of query")
    raise UserError("SYNTAX_ERROR", f"More than {MAX_STATEMENTS} statements in one text")


def parse_statement(text: str | bytes) -> ParsedStatement:
    """The only statement of the text."""
    statements = parse_statements(text)
    if len(statements) != 1:
        what = "Empty query" if not statements else "Multi-statements are not allowed"
        raise UserError("SYNTAX_ERROR", f"Syntax error: {what}: expected one statement, found {len(statements)}")
    return statements[0]


def parse_insert_head(prefix: bytes, *, complete: bool = False) -> tuple[Insert | None, int] | None:
    """Splits a body that begins with an INSERT with inline data into statement and data.

    Returns the statement, with empty ``inline_data``, and the byte offset where its data begins. Returns ``(None, 0)``
    if the text is anything else and must be read whole and given to :func:`parse_statements`. Returns ``None`` if more
    bytes are needed to tell. ``complete`` says that ``prefix`` is all there is.
    """
    return insert.parse_insert_head(prefix, complete=complete)


def _statement(stream: TokenStream) -> ParsedStatement:
    first = stream.peek()
    syntax = _SYNTAX.get(first.upper)
    if syntax is None:
        if first.upper in _UNSUPPORTED and first.kind == "word":
            raise not_implemented(f"{first.upper} {stream.peek(1).upper}".strip())
        stream.fail(*filter(str.isalpha, _SYNTAX))
    stream.on_cluster = None
    statement = syntax.parse(stream)
    if isinstance(statement, ParsedStatement):
        return statement
    on_cluster = _distributed(stream, first.start)
    clauses = parse_output_clauses(stream)
    return ParsedStatement(statement, clauses.format, clauses.outfile, clauses.settings, on_cluster)


def _distributed(stream: TokenStream, start: int) -> OnCluster | None:
    """The statement has just been read; it began at ``start``."""
    clause = stream.on_cluster
    if clause is None:
        return None
    before, behind = stream.text[start : clause.start], stream.text[clause.end : stream.position]
    return OnCluster(clause.name, (before + behind.lstrip()).strip())


def _explain(stream: TokenStream) -> ParsedStatement:
    stream.expect("EXPLAIN")
    kind = "PLAN"
    for candidate in _EXPLAIN_KINDS:
        if stream.accept(*candidate.split()):
            kind = candidate
            break
    options = parse_settings_clause(stream) if stream.peek(1).text == "=" else {}
    if not (stream.at("SELECT") or stream.at("WITH") or stream.at("(") or stream.at("FROM")):
        if stream.peek().kind == "word" and stream.peek().upper in _SYNTAX and not stream.at("EXPLAIN"):
            raise not_implemented(f"EXPLAIN of {stream.peek().upper}")
        stream.fail("SELECT", "WITH", "(")
    query = slice_query(stream)
    clauses = parse_output_clauses(stream)
    if clauses.settings:
        query += " SETTINGS " + render_settings(clauses.settings)
    return ParsedStatement(Explain(kind, options, query), clauses.format, clauses.outfile)


_MODULES = (
    select, insert, create_table, drop_table, show, alter, mutate_table, system_statements, transactions,
)  # fmt: skip
_SYNTAX: Mapping[str, StatementSyntax] = MappingProxyType(
    {keyword: syntax for module in _MODULES for syntax in module.SYNTAX for keyword in syntax.keywords}
    | {"EXPLAIN": StatementSyntax(("EXPLAIN",), _explain)}
)
"""The syntax of every statement, by the keyword that begins it."""
