"""Mutations: ALTER TABLE … UPDATE and the like, DELETE FROM, UPDATE … SET, KILL MUTATION.

All errors that can be known are found before anything is stored: columns are checked, and the expressions are compiled
as the query that will run on each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.interpreter.insert_statement import insert_row_change
from engine.interpreter.partition_values import evaluate_partition_id
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.select import make_relations, run_query
from engine.interpreter.session_relations import TableRelation
from engine.interpreter.shared_steps import refuse_system_database
from engine.interpreter.statement_kind import define_owner_statement
from engine.links.sync.mutation_wait import wait_for_sync_targets
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.capabilities.table_mutations import MutationOptions
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_mutations
from engine.tables.statement_options import SyncMode
from parts.common.errors import UserError
from sql.grammar.statements.alter_commands import (
    ClearColumnData,
    DeleteRows,
    MaterializeTtl,
    MutationCommand,
    PartitionRef,
    UpdateRows,
)
from sql.grammar.statements.statement import KillMutation, MutateTable
from sql.mutations.mutation import Mutation, substitute_parameters
from sql.mutations.mutation_queries import check_step
from sql.mutations.row_changes import plan_row_change

_SYNC_TARGETS = 3
"""The value of ``mutations_sync`` that waits for the targets of synchronous links, too."""


def add_mutation(
    table: OwnedTable, commands: Sequence[MutationCommand], context: OwnerContext, *, sync: int
) -> QueryResult:
    """Checks a mutation and adds it to the table. Nothing has changed if it raises."""
    mutations = require_mutations(table)
    description = table.description
    wanted = [
        command
        for command in commands
        if not isinstance(command, ClearColumnData) or not command.if_exists or command.name in description.schema
    ]
    if not wanted:
        return QueryResult()
    resolved = tuple(_resolve_command(table, command, context) for command in wanted)
    mutation = Mutation(resolved, context.session.database, context.settings.timezone)
    mutation.check(description)
    if description.merge_mode.has_row_versions:
        return _insert_row_changes(table, resolved, context)
    relation = TableRelation.of(table, False)
    for command in resolved:
        check_step(
            context.server.query_engine,
            mutation.make_step(command),
            relation,
            table.definition.name,
            make_relations(context),
            context.status,
        )
    settings = context.settings
    sync = sync if table.description.has_parts else max(1, sync)  # a table without parts mutates at once
    options = MutationOptions(sync, settings.allow_nondeterministic_mutations, settings.receive_timeout, context.status)
    mutations.add(mutation, options)
    if sync >= _SYNC_TARGETS:
        wait_for_sync_targets(context.server, table, settings.receive_timeout, context.status)
    return QueryResult()


def _insert_row_changes(table: OwnedTable, commands: Sequence[MutationCommand], context: OwnerContext) -> QueryResult:
    """Inserts new versions of the rows that the commands find, one command after the other."""
    definition = table.definition
    changes = [
        plan_row_change(command, definition.database, definition.name, table.description) for command in commands
    ]
    for change in changes:
        if table.replication is not None:  # what was acknowledged before, on whichever replica, is found too
            table.replication.sync(context.settings.receive_timeout, context.status, SyncMode.LIGHTWEIGHT)
        insert_row_change(table, change, context)
    return QueryResult()


def mutate_table(statement: MutateTable, context: OwnerContext) -> QueryResult:
    """Executes DELETE FROM or UPDATE … SET.

    Raises 60 (UNKNOWN_TABLE), 164 (READONLY), 344 (SUPPORT_IS_DISABLED), and the command's errors.
    """
    database = context.database(statement.table.database)
    refuse_system_database(database)
    table = context.server.catalog.table(database, statement.table.table)
    settings = context.settings
    if not table.description.has_parts:
        raise UserError("BAD_ARGUMENTS", f"DELETE and UPDATE are not supported for table {table.definition.full_name}")
    if statement.is_delete and not settings.enable_lightweight_delete:
        raise UserError("SUPPORT_IS_DISABLED", "Lightweight delete is disabled: set enable_lightweight_delete = 1")
    if not statement.is_delete and not settings.enable_lightweight_update:
        raise UserError("SUPPORT_IS_DISABLED", "Lightweight updates are disabled: set enable_lightweight_update = 1")
    sync = settings.lightweight_deletes_sync if statement.is_delete else max(1, settings.mutations_sync)
    return add_mutation(table, [statement.command], context, sync=sync)


def kill_mutation(statement: KillMutation, context: OwnerContext) -> QueryResult:
    """Kills the unfinished mutations for which the condition holds."""
    query = (
        f"SELECT database, table, mutation_id, command FROM system.mutations WHERE ({statement.condition}\n) "
        "AND NOT is_done"
    )
    batches = list(run_query(query, context).batches)
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    status = "" if statement.is_test else "waiting"
    for database, name, id_ in dict.fromkeys(row[:3] for row in found if not statement.is_test):
        require_mutations(context.server.catalog.table(database, name)).kill(id_)
    columns = ("kill_status", "database", "table", "mutation_id", "command")
    return make_result([(name, STRING) for name in columns], [(status, *row) for row in found])


def _resolve_command(table: OwnedTable, command: MutationCommand, context: OwnerContext) -> MutationCommand:
    """Returns the command with the partition's id and the values of query parameters."""
    partition = command.partition
    if partition is not None and partition.value is not None:
        partition = PartitionRef(id=evaluate_partition_id(table, partition.value, context))
    command = replace(command, partition=partition)
    if isinstance(command, MaterializeTtl):
        return replace(command, at=int(context.server.services.clock()))
    given = context.parameters
    if isinstance(command, UpdateRows):
        pairs = tuple((name, substitute_parameters(text, given)) for name, text in command.assignments)
        return replace(command, assignments=pairs, condition=substitute_parameters(command.condition, given))
    if isinstance(command, DeleteRows):
        return replace(command, condition=substitute_parameters(command.condition, given))
    return command


STATEMENTS = (
    define_owner_statement(MutateTable, mutate_table),
    define_owner_statement(KillMutation, kill_mutation),
)
