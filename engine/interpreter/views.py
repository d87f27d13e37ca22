"""CREATE VIEW."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from engine.context import Context
from engine.interpreter.queries import described
from engine.interpreter.refusals import refuse_system
from engine.session import QueryResult
from parts.errors import UserError
from sql.definitions.views import kept_query
from sql.grammar.plain_clauses import ColumnClause
from sql.grammar.queries import parse_query
from sql.grammar.statements import CreateTable
from sql.grammar.syntax_tree import Parameter, walk
from sql.grammar.table_names import tables_of

_MOST_LEVELS = 100


def create_view(statement: CreateTable, context: Context) -> QueryResult:
    """Raises what its query raises, 269 for one that reads the view itself."""
    database, name = context.database(statement.table.database), statement.table.table
    refuse_system(database)
    catalog = context.server.catalog
    if statement.if_not_exists and catalog.find(database, name) is not None:
        return QueryResult()
    if statement.view is not None and statement.view.is_materialized:
        raise UserError("NOT_IMPLEMENTED", "CREATE MATERIALIZED VIEW is not supported")
    create = replace(_with_query(statement, (database, name), context), replaces=False)
    if not statement.replaces or catalog.find(database, name) is None:
        catalog.create_table(database, create)
        return QueryResult()
    scratch = catalog.create_scratch(database, create)
    try:
        catalog.put_in_place(database, scratch, name)
    except BaseException:
        catalog.drop_table(database, scratch)
        raise
    return QueryResult()


def _with_query(statement: CreateTable, name: tuple[str, str], context: Context) -> CreateTable:
    """With the text and the columns that are kept. The columns of a view with parameters are not known."""
    catalog, session = context.server.catalog, context.session
    query = parse_query(statement.as_select)
    if any(table.database is None and table.table in session.temporary_tables for table in tables_of(query)):
        raise UserError("NOT_IMPLEMENTED", "A view of temporary tables is not supported")
    known = partial(catalog.find, session.database)
    text = kept_query(statement.as_select, session.database, lambda table: known(table) is not None, statement.columns)
    _refuse_circle(text, name, context)
    columns = statement.columns
    if any(isinstance(node, Parameter) for node in walk(query)):
        columns = ()
    elif not statement.attach:
        selected = described(text, context)
        if not any(column.type for column in columns):
            columns = tuple(ColumnClause(name, str(type_)) for name, type_ in selected)
    return replace(statement, columns=columns, as_select=text)


def _refuse_circle(query: str, name: tuple[str, str], context: Context, level: int = 0) -> None:
    """The view itself among what its query reads."""
    for table in tables_of(parse_query(query)):
        place = (context.database(table.database), table.table)
        if place == name or level > _MOST_LEVELS:
            raise UserError(
                "INFINITE_LOOP", f"Cannot create view {'.'.join(name)}, because it will lead to cyclic dependencies"
            )
        if place[0] in context.server.system_schemas:
            continue
        found = context.server.catalog.find(*place)
        if found is not None and found.definition.create.view is not None:
            _refuse_circle(found.definition.create.as_select, name, context, level + 1)
