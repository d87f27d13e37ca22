"""CREATE, DROP, DETACH, ATTACH, RENAME, TRUNCATE, USE and SET."""

from __future__ import annotations

from dataclasses import replace

from engine.catalog.database_names import make_unknown_database_error
from engine.catalog.view_targets import resolve_stored_table
from engine.distributed.table_creation import complete_definition
from engine.interpreter.insert_statement import insert_select
from engine.interpreter.select import LOCAL_QUERIES, describe_columns
from engine.interpreter.shared_steps import refuse_system_database, wait_for_replicas
from engine.interpreter.statement_kind import StatementKind, define_owner_statement
from engine.interpreter.temporary_tables import create_temporary_table
from engine.interpreter.views import create_view
from engine.links.dropped_targets import ending_links
from engine.queries.context import Context, OwnerContext
from engine.queries.session import QueryResult
from engine.queries.settings_constraints import check_settings_change
from engine.server.config import Config
from engine.tables.required_capabilities import require_truncate
from engine.tables.table import Table
from parts.common.errors import UserError
from sql.definitions.column_defaults import list_insert_columns
from sql.definitions.create_table_completion import complete_create_table, complete_from_table
from sql.definitions.key_checks import check_new_keys
from sql.definitions.nested_columns import flatten_columns
from sql.definitions.ttl_compiler import check_ttl_reads_columns
from sql.grammar.clause_types import ColumnClause
from sql.grammar.statements.statement import (
    AttachTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    ExchangeTables,
    RenameTables,
    SetSettings,
    TruncateTable,
    Use,
)
from sql.settings.session_settings import (
    parse_settings,
)
from sql.settings.setting_values import (
    SettingValue,
)


def create_database(statement: CreateDatabase, context: OwnerContext) -> QueryResult:
    context.server.catalog.create_database(statement.name, if_not_exists=statement.if_not_exists)
    return QueryResult()


def drop_database(statement: DropDatabase, context: OwnerContext) -> QueryResult:
    refuse_system_database(statement.name)
    with ending_links(context.server, [] if statement.detach else [(statement.name, None)]):
        context.server.catalog.drop_database(statement.name, if_exists=statement.if_exists, detach=statement.detach)
    return QueryResult()


def create_table(statement: CreateTable, context: Context) -> QueryResult:
    database = context.database(statement.table.database)
    if not statement.is_temporary:
        refuse_system_database(database)
    if statement.view is not None:
        return create_view(statement, context)
    create = complete_definition(_with_columns(statement, context), statement, context, LOCAL_QUERIES)
    create = replace(create, columns=flatten_columns(create.columns))
    if not create.attach:
        create = complete_create_table(
            create, context.settings, context.server.catalog.default_settings.index_granularity
        )
    create = replace(create, as_table=None, as_select="", is_empty=False, must_exist=False)
    if not create.attach:
        _check_new(create, database, context)
    if statement.is_temporary:
        table = create_temporary_table(create, context)
        if table is not None:
            _fill(table, statement, context)
        return QueryResult()
    create = replace(create, replaces=False)
    if statement.replaces:
        _replace_table(database, create, statement, context)
        return QueryResult()
    table = context.server.catalog.create_table(database, create)
    if table is not None:
        _fill(table, statement, context)
    return QueryResult()


def _check_new(create: CreateTable, database: str, context: Context) -> None:
    """Raises what a table that was made before may have, and a new one may not."""
    if create.partition_by or create.order_by or create.primary_key:
        may_repeat = create.settings.get("allow_suspicious_indices") not in (None, 0, "0")
        may_aggregate = context.settings.allow_suspicious_primary_key
        definition = context.server.catalog.define(database, create)
        check_new_keys(definition, may_repeat=may_repeat, may_aggregate=may_aggregate)
    has_ttl = create.ttl or any(column.ttl for column in create.columns)
    if has_ttl and not context.settings.allow_suspicious_ttl_expressions:
        check_ttl_reads_columns(context.server.catalog.define(database, create).description.ttl)


def _fill(table: Table, statement: CreateTable, context: Context) -> None:
    if statement.as_select and not statement.is_empty:
        insert_select(table, list_insert_columns(table.description.schema), statement.as_select, context)


def _replace_table(database: str, create: CreateTable, statement: CreateTable, context: Context) -> None:
    """The new table is filled under another name: readers of the old one see it until the new one is whole."""
    catalog, name = context.server.catalog, create.table.table
    if statement.must_exist:
        catalog.table(database, name)
    unnamed = catalog.create_unnamed_table(database, create)
    try:
        _fill(catalog.table(database, unnamed), statement, context)
        catalog.replace_table(database, unnamed, name)
    except BaseException:
        catalog.discard_table(database, unnamed)
        raise


def _with_columns(statement: CreateTable, context: Context) -> CreateTable:
    """Fills in what ``AS table`` and ``AS SELECT`` leave out."""
    if statement.as_table is not None:
        ref = statement.as_table
        database = context.database(ref.database)
        system = context.server.system_schemas.get(database, {})
        if ref.table in system and statement.engine is not None:
            columns = tuple(ColumnClause(column.name, str(column.type)) for column in system[ref.table].columns)
            return replace(statement, columns=columns)
        if database in context.server.system_schemas:
            raise UserError("UNKNOWN_TABLE", f"There is no definition of table {database}.{ref.table}: name an ENGINE")
        source = context.server.catalog.table(database, ref.table).definition.create
        if source.view is not None and statement.engine is None:
            raise UserError("INCORRECT_QUERY", f"Cannot CREATE a table AS {database}.{ref.table}, it is a View")
        return complete_from_table(source, statement, context.settings)
    if statement.as_select and not statement.columns:
        selected = describe_columns(statement.as_select, context)
        return replace(statement, columns=tuple(ColumnClause(name, str(type_)) for name, type_ in selected))
    return statement


def drop_table(statement: DropTable, context: OwnerContext) -> QueryResult:
    names = [(context.database(ref.database), ref.table) for ref in (statement.table, *statement.others)]
    with ending_links(context.server, [] if statement.detach else names):
        return _drop_tables(statement, context)


def _drop_tables(statement: DropTable, context: OwnerContext) -> QueryResult:
    catalog = context.server.catalog
    for ref in (statement.table, *statement.others):
        database = context.database(ref.database)
        refuse_system_database(database)
        table = catalog.find(database, ref.table) if statement.is_view and not statement.detach else None
        if table is not None and table.definition.create.view is None:
            raise UserError("INCORRECT_QUERY", f"Table {database}.{ref.table} is not a View")
        catalog.drop_table(
            database,
            ref.table,
            if_exists=statement.if_exists,
            detach=statement.detach,
            permanently=statement.permanently,
        )
    return QueryResult()


def attach_table(statement: AttachTable, context: OwnerContext) -> QueryResult:
    context.server.catalog.attach_table(
        context.database(statement.table.database),
        statement.table.table,
        if_not_exists=statement.if_not_exists,
        as_replicated=statement.as_replicated,
    )
    return QueryResult()


def rename_tables(statement: RenameTables, context: OwnerContext) -> QueryResult:
    catalog = context.server.catalog
    for place, (old, new) in enumerate(statement.pairs):
        database = context.database(old.database)
        if place not in statement.optional or catalog.find(database, old.table) is not None:
            catalog.rename_table((database, old.table), (context.database(new.database), new.table))
    return QueryResult()


def exchange_tables(statement: ExchangeTables, context: OwnerContext) -> QueryResult:
    for one, other in statement.pairs:
        context.server.catalog.exchange_tables(
            (context.database(one.database), one.table), (context.database(other.database), other.table)
        )
    return QueryResult()


def truncate_table(statement: TruncateTable, context: OwnerContext) -> QueryResult:
    database = context.database(statement.table.database)
    if statement.if_exists and context.server.catalog.find(database, statement.table.table) is None:
        return QueryResult()
    table = context.server.catalog.table(database, statement.table.table)
    if (view := table.definition.create.view) is not None and view.target is not None:
        return QueryResult()  # its rows are another table's
    table = resolve_stored_table(table, context.server.catalog)
    require_truncate(table)(context.status)
    wait_for_replicas(table, context)
    return QueryResult()


def use(statement: Use, context: Context) -> QueryResult:
    if statement.database not in context.server.database_names():
        raise make_unknown_database_error(statement.database, context.server.database_names())
    context.session.database = statement.database
    return QueryResult()


def set_settings(statement: SetSettings, context: Context) -> QueryResult:
    changes = resolve_setting_changes(statement, context.server.config)
    check_settings_change(context.session.settings, changes, context.server.config.default_settings)
    context.session.apply(changes)
    context.session.parameters.update(statement.parameters)
    return QueryResult()


def resolve_setting_changes(statement: SetSettings, config: Config) -> dict[str, SettingValue | None]:
    """Returns the settings that SET changes, by canonical names; ``profile`` stands for its settings."""
    changes: dict[str, SettingValue | None] = {}
    for name, value in statement.settings.items():
        changes.update(config.profile(str(value)) if name == "profile" else parse_settings({name: value}))
    return changes


STATEMENTS = (
    StatementKind(CreateTable, create_table),
    define_owner_statement(CreateDatabase, create_database),
    define_owner_statement(DropDatabase, drop_database),
    define_owner_statement(DropTable, drop_table),
    define_owner_statement(AttachTable, attach_table),
    define_owner_statement(RenameTables, rename_tables),
    define_owner_statement(ExchangeTables, exchange_tables),
    define_owner_statement(TruncateTable, truncate_table),
    StatementKind(Use, use, is_read_only=True),
    StatementKind(SetSettings, set_settings, is_read_only=True),
)
