"""SHOW, DESCRIBE and EXISTS."""

from __future__ import annotations

import re
from dataclasses import replace

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.interpreter.result_rows import STRING, UINT8, make_result
from engine.interpreter.select import describe_columns, run_query
from engine.interpreter.statement_kind import StatementKind
from engine.interpreter.temporary_tables import get_session_name
from engine.queries.context import Context
from engine.queries.session import QueryResult
from parts.table.table_description import TableSchema
from sql.definitions.definition_text import render_shown_create, render_shown_expression
from sql.grammar.statements.statement import (
    DescribeQuery,
    DescribeTable,
    ExistsDatabase,
    ExistsTable,
    ShowCreateDatabase,
    ShowCreateTable,
    ShowDatabases,
    ShowProcesslist,
    ShowTables,
)


def show_databases(statement: ShowDatabases, context: Context) -> QueryResult:
    """Executes SHOW DATABASES."""
    names = _filter_names(context.server.database_names(), statement.like, statement.not_like)
    return make_result([("name", STRING)], [(name,) for name in names])


def show_tables(statement: ShowTables, context: Context) -> QueryResult:
    """Executes SHOW TABLES."""
    names = _list_table_names(context.database(statement.database), context)
    return make_result(
        [("name", STRING)], [(name,) for name in _filter_names(names, statement.like, statement.not_like)]
    )


def show_create_table(statement: ShowCreateTable, context: Context) -> QueryResult:
    """Executes SHOW CREATE TABLE."""
    table = context.server.catalog.table(context.database(statement.table.database), statement.table.table)
    create = table.definition.create
    shown = replace(create, table=get_session_name(create.table, context.session))
    return make_result([("statement", STRING)], [(render_shown_create(shown),)])


def show_create_database(statement: ShowCreateDatabase, context: Context) -> QueryResult:
    """Executes SHOW CREATE DATABASE."""
    context.server.catalog.tables(statement.name)
    return make_result([("statement", STRING)], [(f"CREATE DATABASE {statement.name}\nENGINE = Ordinary",)])


def show_processlist(_: ShowProcesslist, context: Context) -> QueryResult:
    """Executes SHOW PROCESSLIST."""
    return run_query("SELECT * FROM system.processes", context)


def describe_table(statement: DescribeTable, context: Context) -> QueryResult:
    """Executes DESCRIBE TABLE."""
    schema = _find_schema(context.database(statement.table.database), statement.table.table, context)
    return _make_description(
        [
            (
                c.name,
                c.type_text,
                c.default_kind,
                render_shown_expression(c.default_expression),
                c.comment,
                c.codec,
                c.ttl,
            )
            for c in schema.columns
        ]
    )


def describe_query(statement: DescribeQuery, context: Context) -> QueryResult:
    """Executes DESCRIBE of a query."""
    columns = describe_columns(statement.query, context)
    return _make_description([(name, str(type_), "", "", "", "", "") for name, type_ in columns])


def exists_table(statement: ExistsTable, context: Context) -> QueryResult:
    """Executes EXISTS TABLE and EXISTS VIEW."""
    database = context.database(statement.table.database)
    if database == TEMPORARY_DATABASE:
        found = context.server.catalog.find(database, statement.table.table) is not None
        return make_result([("result", UINT8)], [(int(found),)])
    found = database in context.server.database_names() and statement.table.table in _list_table_names(
        database, context
    )
    if found and statement.is_view:
        table = context.server.catalog.find(database, statement.table.table)
        found = table is not None and table.definition.create.view is not None
    return make_result([("result", UINT8)], [(int(found),)])


def exists_database(statement: ExistsDatabase, context: Context) -> QueryResult:
    """Executes EXISTS DATABASE."""
    return make_result([("result", UINT8)], [(int(statement.name in context.server.database_names()),)])


def _list_table_names(database: str, context: Context) -> list[str]:
    """Returns the names of a database's tables. Raises 81 (UNKNOWN_DATABASE)."""
    system = context.server.system_schemas.get(database)
    if system is not None:
        return sorted(system)
    catalog = context.server.catalog
    loaded = [table.definition.name for table in catalog.tables(database)]
    return sorted([*loaded, *(failed.name for failed in catalog.list_not_loaded(database))])


def _find_schema(database: str, table: str, context: Context) -> TableSchema:
    system = context.server.system_schemas.get(database, {})
    return system[table] if table in system else context.server.catalog.table(database, table).description.schema


def _make_description(rows: list[tuple[object, ...]]) -> QueryResult:
    names = ("name", "type", "default_type", "default_expression", "comment", "codec_expression", "ttl_expression")
    return make_result([(name, STRING) for name in names], rows)


def _filter_names(names: list[str], pattern: str | None, negated: bool) -> list[str]:
    if pattern is None:
        return names
    expression = re.compile(
        "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern), re.DOTALL
    )
    return [name for name in names if bool(expression.fullmatch(name)) != negated]


STATEMENTS = (
    StatementKind(ShowDatabases, show_databases, is_read_only=True),
    StatementKind(ShowTables, show_tables, is_read_only=True),
    StatementKind(ShowCreateTable, show_create_table, is_read_only=True),
    StatementKind(ShowCreateDatabase, show_create_database, is_read_only=True),
    StatementKind(ShowProcesslist, show_processlist, is_read_only=True),
    StatementKind(DescribeTable, describe_table, is_read_only=True),
    StatementKind(DescribeQuery, describe_query, is_read_only=True),
    StatementKind(ExistsTable, exists_table, is_read_only=True),
    StatementKind(ExistsDatabase, exists_database, is_read_only=True),
)
