"""CREATE VIEW, CREATE MATERIALIZED VIEW and MODIFY QUERY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from engine.catalog.view_targets import resolve_stored_table
from engine.interpreter.insert_statement import insert_select
from engine.interpreter.select import describe_columns
from engine.interpreter.shared_steps import refuse_system_database
from engine.queries.context import Context, OwnerContext
from engine.queries.session import QueryResult
from engine.tables.owned_table import OwnedTable
from engine.tables.table import Table
from parts.common.errors import UnknownOutcomeError, UserError
from parts.types import DataType
from sql.definitions.column_defaults import list_insert_columns
from sql.definitions.create_table_completion import complete_create_table
from sql.definitions.definition_text import render_table
from sql.definitions.nested_columns import flatten_columns
from sql.definitions.view_queries import build_stored_query
from sql.grammar.clause_types import (
    ColumnClause,
    TableRef,
)
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.queries.table_references import find_first_table, list_tables
from sql.grammar.statements.alter_commands import AlterCommand, ModifyQuery
from sql.grammar.statements.statement import (
    CreateTable,
    ViewClause,
)
from sql.grammar.syntax_tree import NamedTable, Parameter, TableFunction, walk
from sql.grammar.tokens import quote_identifier

_MOST_LEVELS = 100

Selected = Sequence[tuple[str, DataType]]
Enter = Callable[[CreateTable], object]
"""A function that puts a view into the catalog."""


def create_view(statement: CreateTable, context: Context) -> QueryResult:
    """Creates a view.

    Raises the errors of its query, and 269 (INFINITE_LOOP) for one that reads the view itself.
    """
    database, name = context.database(statement.table.database), statement.table.table
    refuse_system_database(database)
    catalog = context.server.catalog
    if catalog.find(database, name) is not None and not statement.replaces:
        if statement.if_not_exists:
            return QueryResult()
        raise UserError("TABLE_ALREADY_EXISTS", f"Table {database}.{name} already exists")
    create, selected = _resolve_query(statement, (database, name), context)
    create = replace(create, table=TableRef(database, name), replaces=False)
    if statement.replaces:
        _replace(database, create, selected, context)
    else:
        _create(create, selected, context, partial(catalog.create_table, database))
    return QueryResult()


def _create(create: CreateTable, selected: Selected, context: Context, enter: Enter) -> None:
    if create.view is not None and create.view.is_materialized:
        _create_materialized(create, create.view, selected, context, enter)
    else:
        enter(create)


def _replace(database: str, create: CreateTable, selected: Selected, context: Context) -> None:
    """Replaces a view. The new one is complete and filled before it gets the name and any INSERT."""
    catalog = context.server.catalog
    made: list[str] = []
    try:
        _create(create, selected, context, lambda view: made.append(catalog.create_unnamed_table(database, view)))
        catalog.replace_table(database, made[0], create.table.table)
    except BaseException:
        for unnamed in made:
            catalog.discard_table(database, unnamed)
        raise


def _resolve_query(statement: CreateTable, name: tuple[str, str], context: Context) -> tuple[CreateTable, Selected]:
    """Returns the statement with query and columns as stored, and the columns that the query returns.

    The columns of a view with parameters are unknown.
    """
    catalog, session = context.server.catalog, context.session
    query = parse_query(statement.as_select)
    if any(table.database is None and table.table in session.temporary_tables for table in list_tables(query)):
        raise UserError("NOT_IMPLEMENTED", "A view of temporary tables is not supported")
    known = partial(catalog.find, session.database)
    text = build_stored_query(
        statement.as_select, session.database, lambda table: known(table) is not None, statement.columns
    )
    _refuse_circle(text, name, context)
    columns = statement.columns
    selected: Selected = ()
    assert statement.view is not None
    if any(isinstance(node, Parameter) for node in walk(query)):
        if statement.view.is_materialized:
            raise UserError("NOT_IMPLEMENTED", "A materialized view with parameters is not supported")
        columns = ()
    elif not statement.attach:
        selected = describe_columns(text, context)
        if not any(column.type for column in columns):
            columns = tuple(ColumnClause(name, str(type_)) for name, type_ in selected)
    return replace(statement, columns=columns, as_select=text), selected


def _refuse_circle(query: str, name: tuple[str, str], context: Context, level: int = 0) -> None:
    """Raises 269 (INFINITE_LOOP) if the query reads the view itself."""
    for table in list_tables(parse_query(query)):
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


# Materialized ---------------------------------------------------------------------------------------------------------


def _create_materialized(
    create: CreateTable, view: ViewClause, selected: Selected, context: Context, enter: Enter
) -> None:
    query = parse_query(create.as_select)
    if find_first_table(query) is None and any(isinstance(node, TableFunction) for node in walk(query)):
        raise UserError(
            "QUERY_IS_NOT_SUPPORTED_IN_MATERIALIZED_VIEW", "A materialized view cannot be created from table functions"
        )
    if view.target is None:
        _create_with_inner_table(create, view, selected, context, enter)
        return
    place = (context.database(view.target.database), view.target.table)
    view = replace(view, target=TableRef(*place))
    _check_target(context.server.catalog.table(*place), selected, context)
    if find_first_table(query) == NamedTable(*place):
        raise UserError("INFINITE_LOOP", f"Materialized view {render_table(create.table)} reads its own target")
    enter(replace(create, view=view))


def _create_with_inner_table(
    create: CreateTable, view: ViewClause, selected: Selected, context: Context, enter: Enter
) -> None:
    """Creates the inner table, then the view: a crash in between leaves an empty table."""
    catalog, database = context.server.catalog, str(create.table.database)
    view = replace(view, uuid=view.uuid or str(context.server.services.new_uuid()), is_populated=False)
    table = TableRef(database, f".inner_id.{view.uuid}")
    columns = flatten_columns(create.columns)
    inner = replace(create, table=table, columns=columns, view=None, as_select="", is_empty=False, comment="")
    inner = (
        inner
        if create.attach
        else complete_create_table(inner, context.settings, context.server.catalog.default_settings.index_granularity)
    )
    kept = replace(create, view=view, engine=inner.engine, order_by=inner.order_by, is_empty=False)
    if create.attach and catalog.find(database, table.table) is not None:
        enter(kept)
        return
    target = catalog.create_table(database, inner)
    assert target is not None, "its name is new"
    try:
        _check_target(target, selected, context)
        enter(kept)
    except UnknownOutcomeError:
        raise  # the view may have been created
    except BaseException:
        catalog.discard_table(database, table.table)
        raise
    if create.view is not None and create.view.is_populated:
        _populate(target, create.as_select, selected, context)


def modify_view_query(table: OwnedTable, commands: Sequence[AlterCommand], context: OwnerContext) -> QueryResult:
    """Executes ALTER TABLE … MODIFY QUERY of a materialized view.

    Its columns, and the rows already stored, stay.
    """
    definition = table.definition
    if definition.create.view is None or not definition.create.view.is_materialized:
        raise UserError(
            "NOT_IMPLEMENTED", f"Alter of type 'MODIFY_QUERY' is not supported by storage {definition.engine_name}"
        )
    (command, *others) = commands
    if others or not isinstance(command, ModifyQuery):
        raise UserError("NOT_IMPLEMENTED", "MODIFY QUERY beside other commands is not supported")
    statement = replace(definition.create, as_select=command.query)
    changed, selected = _resolve_query(statement, (definition.database, definition.name), context)
    _check_target(resolve_stored_table(table, context.server.catalog), selected, context)
    context.server.catalog.alter_table(
        definition.database, definition.name, lambda old: replace(old.create, as_select=changed.as_select)
    )
    return QueryResult()


def _check_target(target: Table, selected: Selected, context: Context) -> None:
    """Raises 8 (THERE_IS_NO_COLUMN) for a column that the target lacks and whose values would be lost."""
    lacking = [name for name, _ in selected if name not in target.description.schema]
    if lacking and not context.settings.allow_materialized_view_with_bad_select:
        raise UserError(
            "THERE_IS_NO_COLUMN",
            f"SELECT query outputs column with name '{lacking[0]}', which is not found in the target table. Use 'AS' "
            "to assign alias that matches a column name, or set allow_materialized_view_with_bad_select = 1",
        )


def _populate(target: Table, query: str, selected: Selected, context: Context) -> None:
    wanted = {column.name: column for column in list_insert_columns(target.description.schema)}
    columns = [wanted[name] for name, _ in selected if name in wanted]
    names = ", ".join(quote_identifier(column.name) for column in columns)
    insert_select(target, columns, f"SELECT {names} FROM ({query})", context)
