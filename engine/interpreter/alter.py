"""ALTER TABLE: changes of the definition, partition commands, and mutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from engine.catalog.view_targets import resolve_stored_table
from engine.interpreter.links.commands_from import change_commands_from, split_commands_from
from engine.interpreter.links.tracker_settings import split_tracker_settings
from engine.interpreter.materialized_views.view_inserts import refuse_drop_of_view_columns
from engine.interpreter.mutation_statements import add_mutation
from engine.interpreter.partition_commands import run_partition_commands
from engine.interpreter.refuse_inserts import refuse_inserts, split_refuse_inserts
from engine.interpreter.shared_steps import refuse_system_database, wait_for_replicas
from engine.interpreter.statement_kind import define_owner_statement
from engine.interpreter.views import modify_view_query
from engine.links.tracker.table_options import change_tracker_options
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_mutations, require_partitions
from engine.tables.statement_options import AlterOptions
from engine.tables.table_definition import TableDefinition
from engine.tables.unfinished_errors import report_as_unfinished
from sql.definitions.alter.definition_changes import LOCAL_CHANGE_TYPES, apply_changes
from sql.definitions.key_checks import check_new_keys
from sql.definitions.ttl_compiler import check_ttl_reads_columns
from sql.grammar.statements.alter_commands import (
    AlterCommand,
    DefinitionChange,
    MaterializeTtl,
    ModifyColumn,
    ModifyOrderBy,
    ModifyQuery,
    ModifyTtl,
    MutationCommand,
    PartitionCommand,
)
from sql.grammar.statements.statement import AlterTable, CreateTable


def alter_table(statement: AlterTable, context: OwnerContext) -> QueryResult:
    """Executes the commands of an ALTER TABLE.

    Commands of one kind run together, the kinds in the order of the text. Errors in changes of the definition are found
    before anything is done. Raises 60 (UNKNOWN_TABLE), 164 (READONLY), 48 (NOT_IMPLEMENTED), and the commands' errors.
    """
    database = context.database(statement.table.database)
    refuse_system_database(database)
    table = context.server.catalog.table(database, statement.table.table)
    if any(isinstance(command, ModifyQuery) for command in statement.commands):
        return modify_view_query(table, statement.commands, context)
    if not any(isinstance(command, DefinitionChange) for command in statement.commands):
        table = resolve_stored_table(table, context.server.catalog)
    refuse_drop_of_view_columns(table, statement.commands, context)
    commands, are_inserts_refused = split_refuse_inserts(statement.commands)
    commands, tracker = split_tracker_settings(commands)
    commands, command_source = split_commands_from(commands)
    runs = [(kind, list(run)) for kind, run in groupby(commands, partial(_get_kind, table=table))]
    for kind, require in (("partitioning", require_partitions), ("mutations", require_mutations)):
        if any(kind == other for other, _ in runs):
            require(table)
    changes = [command for command in commands if isinstance(command, DefinitionChange)]
    sets_ttl = any(_sets_ttl(change, table.definition.create) for change in changes)
    sorts_anew = any(isinstance(change, ModifyOrderBy | ModifyColumn) for change in changes)
    if changes and (len(runs) > 1 or sets_ttl or sorts_anew):
        definition = table.definition
        new = context.server.catalog.define(database, apply_changes(definition.create, definition.description, changes))
        if sorts_anew:
            check_new_keys(new, definition, may_aggregate=context.settings.allow_suspicious_primary_key)
        if sets_ttl and not context.settings.allow_suspicious_ttl_expressions:
            check_ttl_reads_columns(new.description.ttl)
    result = QueryResult()
    for kind, run in runs:
        result = _RUNS[kind](table, run, context)
    if are_inserts_refused is not None:
        refuse_inserts(table, are_inserts_refused)
    if tracker:
        change_tracker_options(table, tracker)
    if command_source is not None:
        change_commands_from(table, command_source)
    if context.settings.materialize_ttl_after_modify and sets_ttl:
        with report_as_unfinished("The table is altered"):
            return _alter_rows(table, [MaterializeTtl()], context)
    return result


def _sets_ttl(change: DefinitionChange, former: CreateTable) -> bool:
    """Returns whether the change sets a TTL that differs from the present one."""
    if isinstance(change, ModifyColumn):
        known = {column.name: column.ttl for column in former.columns}
        return change.column.ttl not in ("", known.get(change.column.name))
    return isinstance(change, ModifyTtl) and change.ttl not in ("", former.ttl)


def _get_kind(command: AlterCommand, table: OwnedTable) -> str:
    if isinstance(command, PartitionCommand):
        return "partitioning"
    if isinstance(command, MutationCommand):
        return "mutations"
    return "shared" if table.replication is not None and not isinstance(command, LOCAL_CHANGE_TYPES) else "local"


def _alter_partitions(table: OwnedTable, commands: Sequence[Any], context: OwnerContext) -> QueryResult:
    result = run_partition_commands(table, commands, context)
    wait_for_replicas(table, context)
    return result


def _alter_rows(table: OwnedTable, commands: Sequence[Any], context: OwnerContext) -> QueryResult:
    return add_mutation(table, commands, context, sync=context.settings.mutations_sync)


def _alter_locally(table: OwnedTable, commands: Sequence[Any], context: OwnerContext) -> QueryResult:
    definition = table.definition
    context.server.catalog.alter_table(definition.database, definition.name, partial(_apply_changes, changes=commands))
    return QueryResult()


def _alter_replicas(table: OwnedTable, commands: Sequence[Any], context: OwnerContext) -> QueryResult:
    assert table.replication is not None
    settings = context.settings
    options = AlterOptions(settings.alter_sync > 1, settings.receive_timeout, context.status)
    table.replication.alter(partial(_apply_changes, changes=commands), options)
    return QueryResult()


def _apply_changes(old: TableDefinition, changes: Sequence[DefinitionChange]) -> CreateTable:
    return apply_changes(old.create, old.description, changes)


_RUNS: dict[str, Callable[[OwnedTable, Sequence[Any], OwnerContext], QueryResult]] = {
    "partitioning": _alter_partitions,
    "mutations": _alter_rows,
    "local": _alter_locally,
    "shared": _alter_replicas,
}


STATEMENTS = (define_owner_statement(AlterTable, alter_table),)
