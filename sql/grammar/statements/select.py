"""Parses SELECT. The query is sliced from the text as written, for ``sql.grammar.queries``."""

from __future__ import annotations

from sql.grammar.common_clauses import parse_output_clauses, slice_query
from sql.grammar.statements.statement import ParsedStatement, SelectQuery
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream


def parse_select(stream: TokenStream) -> ParsedStatement:
    """Parses a query, which may begin with WITH, FROM or a bracket, and its clauses of output."""
    query = slice_query(stream)
    clauses = parse_output_clauses(stream)
    return ParsedStatement(SelectQuery(query, clauses.settings), clauses.format, clauses.outfile)


SYNTAX = (StatementSyntax(("SELECT", "WITH", "FROM", "("), parse_select),)
