"""SHOW, DESCRIBE and EXISTS: what there is."""

from __future__ import annotations

import re

from engine.interpreter.context import STRING, UINT8, Context, rows_result
from engine.session import QueryResult
from sql.ddl_render import render_create
from sql.statements import (
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
    names = _like(context.engine.database_names(), statement.like, statement.not_like)
    return rows_result([("name", STRING)], [(name,) for name in names])


def show_tables(statement: ShowTables, context: Context) -> QueryResult:
    names = context.engine.table_names(context.database(statement.database))
    return rows_result([("name", STRING)], [(name,) for name in _like(names, statement.like, statement.not_like)])


def show_create_table(statement: ShowCreateTable, context: Context) -> QueryResult:
    table = context.engine.catalog.table(context.database(statement.table.database), statement.table.table)
    return rows_result([("statement", STRING)], [(render_create(table.definition.create),)])


def show_create_database(statement: ShowCreateDatabase, context: Context) -> QueryResult:
    context.engine.catalog.tables(statement.name)
    return rows_result([("statement", STRING)], [(f"CREATE DATABASE {statement.name}\nENGINE = Ordinary",)])


def show_processlist(_: ShowProcesslist, context: Context) -> QueryResult:
    return context.engine.select("SELECT * FROM system.processes", context)


def describe_table(statement: DescribeTable, context: Context) -> QueryResult:
    schema = context.engine.table_schema(context.database(statement.table.database), statement.table.table)
    return _described(
        [(c.name, str(c.type), c.default_kind, c.default_expression, c.comment, c.codec, "") for c in schema.columns]
    )


def describe_query(statement: DescribeQuery, context: Context) -> QueryResult:
    columns = context.engine.describe_query(statement.query, context)
    return _described([(name, str(type_), "", "", "", "", "") for name, type_ in columns])


def exists_table(statement: ExistsTable, context: Context) -> QueryResult:
    database = context.database(statement.table.database)
    found = database in context.engine.database_names() and statement.table.table in context.engine.table_names(
        database
    )
    return rows_result([("result", UINT8)], [(int(found),)])


def exists_database(statement: ExistsDatabase, context: Context) -> QueryResult:
    return rows_result([("result", UINT8)], [(int(statement.name in context.engine.database_names()),)])


def _described(rows: list[tuple[object, ...]]) -> QueryResult:
    names = ("name", "type", "default_type", "default_expression", "comment", "codec_expression", "ttl_expression")
    return rows_result([(name, STRING) for name in names], rows)


def _like(names: list[str], pattern: str | None, negated: bool) -> list[str]:
    if pattern is None:
        return names
    expression = re.compile(
        "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern), re.DOTALL
    )
    return [name for name in names if bool(expression.fullmatch(name)) != negated]
