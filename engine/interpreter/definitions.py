"""CREATE, DROP, DETACH, ATTACH, RENAME, TRUNCATE, USE and SET."""

from __future__ import annotations

from dataclasses import replace

from engine.config import Config
from engine.context import Context
from engine.interpreter.inserts import insert_select
from engine.interpreter.queries import described
from engine.interpreter.refusals import refuse_system, wait_for_replicas
from engine.readonly import check_settings_change
from engine.session import QueryResult
from parts.errors import UserError
from parts.schema_history import UNCHANGED
from sql.definitions.creation import completed
from sql.definitions.defaults import insertable_columns
from sql.grammar.plain_clauses import ColumnClause
from sql.grammar.statements import (
    AttachTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    RenameTables,
    SetSettings,
    TruncateTable,
    Use,
)
from sql.settings.session import SettingValue, parse_settings


def create_database(statement: CreateDatabase, context: Context) -> QueryResult:
    context.server.catalog.create_database(statement.name, if_not_exists=statement.if_not_exists)
    return QueryResult()


def drop_database(statement: DropDatabase, context: Context) -> QueryResult:
    refuse_system(statement.name)
    context.server.catalog.drop_database(statement.name, if_exists=statement.if_exists, detach=statement.detach)
    return QueryResult()


def create_table(statement: CreateTable, context: Context) -> QueryResult:
    database = context.database(statement.table.database)
    refuse_system(database)
    create = _with_columns(statement, context)
    if not create.attach:
        create = completed(create, context.settings)
    table = context.server.catalog.create_table(database, replace(create, as_table=None, as_select="", is_empty=False))
    if table is not None and statement.as_select and not statement.is_empty:
        insert_select(table, insertable_columns(table.description.schema), statement.as_select, context)
    return QueryResult()


def _with_columns(statement: CreateTable, context: Context) -> CreateTable:
    """Fills in what ``AS table`` and ``AS SELECT`` leave out."""
    if statement.as_table is not None:
        source = context.server.catalog.table(
            context.database(statement.as_table.database), statement.as_table.table
        ).definition.create
        if statement.engine is None:
            return replace(
                source,
                table=statement.table,
                if_not_exists=statement.if_not_exists,
                as_select=statement.as_select,
                history=UNCHANGED,
            )
        return replace(statement, columns=statement.columns or source.columns)
    if statement.as_select and not statement.columns:
        columns = described(statement.as_select, context)
        return replace(statement, columns=tuple(ColumnClause(name, str(type_)) for name, type_ in columns))
    return statement


def drop_table(statement: DropTable, context: Context) -> QueryResult:
    database = context.database(statement.table.database)
    refuse_system(database)
    context.server.catalog.drop_table(
        database, statement.table.table, if_exists=statement.if_exists, detach=statement.detach
    )
    return QueryResult()


def attach_table(statement: AttachTable, context: Context) -> QueryResult:
    context.server.catalog.attach_table(
        context.database(statement.table.database), statement.table.table, if_not_exists=statement.if_not_exists
    )
    return QueryResult()


def rename_tables(statement: RenameTables, context: Context) -> QueryResult:
    for old, new in statement.pairs:
        context.server.catalog.rename_table(
            (context.database(old.database), old.table), (context.database(new.database), new.table)
        )
    return QueryResult()


def truncate_table(statement: TruncateTable, context: Context) -> QueryResult:
    database = context.database(statement.table.database)
    if statement.if_exists and context.server.catalog.find(database, statement.table.table) is None:
        return QueryResult()
    table = context.server.catalog.table(database, statement.table.table)
    table.truncate(context.status)
    wait_for_replicas(table, context)
    return QueryResult()


def use(statement: Use, context: Context) -> QueryResult:
    if statement.database not in context.server.database_names():
        raise UserError("UNKNOWN_DATABASE", f"Database {statement.database} does not exist")
    context.session.database = statement.database
    return QueryResult()


def set_settings(statement: SetSettings, context: Context) -> QueryResult:
    changes = setting_changes(statement, context.server.config)
    check_settings_change(context.session.settings, changes)
    context.session.apply(changes)
    return QueryResult()


def setting_changes(statement: SetSettings, config: Config) -> dict[str, SettingValue | None]:
    """What SET changes, by canonical names: ``profile`` stands for the settings of a profile."""
    changes: dict[str, SettingValue | None] = {}
    for name, value in statement.settings.items():
        changes.update(config.profile(str(value)) if name == "profile" else parse_settings({name: value}))
    return changes
