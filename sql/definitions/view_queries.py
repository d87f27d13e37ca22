"""Builds the stored query of a view: tables with databases, in ClickHouse's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from parts.common.errors import UserError
from sql.grammar.clause_types import ColumnClause
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.queries.query_formatter import format_view_query
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.queries.table_references import qualify_tables
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import Alias, Query, Select, Star

_SETTINGS = "\nSETTINGS "


def build_stored_query(
    text: str, database: str, has_table: Callable[[str], bool], columns: Sequence[ColumnClause] = ()
) -> str:
    """Returns the query's text for a view's definition.

    ``columns`` without types rename the query's columns.
    """
    query, settings = _split_settings(text)
    if columns and not any(column.type for column in columns):
        query = _rename_columns(query, [column.name for column in columns])
    return format_view_query(qualify_tables(query, database, has_table)) + settings


def render_stored_query(create: CreateTable) -> str:
    """Renders a view's query in one line."""
    if create.view is None:
        return ""
    query, settings = _split_settings(create.as_select)
    return hide_passwords(format_view_query(query, one_line=True)) + settings.replace("\n", " ")


def _split_settings(text: str) -> tuple[Query, str]:
    """Splits the text into the query's tree and its SETTINGS, which the tree lacks."""
    query, separator, settings = text.rpartition(_SETTINGS)
    return parse_query(query if separator else text), separator + settings if separator else ""


def _rename_columns(query: Query, names: Sequence[str]) -> Query:
    if not isinstance(query, Select) or any(isinstance(item, Star) for item in query.expressions):
        raise UserError("NOT_IMPLEMENTED", "Column names without types need a SELECT of as many expressions")
    if len(names) != len(query.expressions):
        raise UserError("BAD_ARGUMENTS", f"The view has {len(names)} columns, and its query {len(query.expressions)}")
    bare = [item.expression if isinstance(item, Alias) else item for item in query.expressions]
    return replace(query, expressions=tuple(map(Alias, bare, names)))
