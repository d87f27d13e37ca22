"""ALTER TABLE: changes of the definition, commands on partitions, and mutations."""

from __future__ import annotations

from engine.context import Context
from engine.interpreter.mutations import mutate
from engine.interpreter.partition_commands import carry_out
from engine.interpreter.refusals import refuse_system, wait_for_replicas
from engine.session import QueryResult
from engine.tables.definition import TableDefinition
from engine.tables.options import AlterOptions
from sql.definitions.alter import LOCAL_CHANGES, altered
from sql.grammar.alterations import (
    DefinitionChange,
    MaterializeTtl,
    ModifyColumn,
    ModifyTtl,
    MutationCommand,
    PartitionCommand,
)
from sql.grammar.statements import AlterTable, CreateTable
from sql.grammar.tokens import not_implemented


def alter_table(statement: AlterTable, context: Context) -> QueryResult:
    """Raises 60, 164, 48, and what the commands raise; then nothing has changed."""
    database = context.database(statement.table.database)
    refuse_system(database)
    catalog = context.server.catalog
    table = catalog.table(database, statement.table.table)
    on_partitions = [command for command in statement.commands if isinstance(command, PartitionCommand)]
    changes = [command for command in statement.commands if isinstance(command, DefinitionChange)]
    mutations = [command for command in statement.commands if isinstance(command, MutationCommand)]
    if sum(map(bool, (on_partitions, changes, mutations))) > 1:
        raise not_implemented("ALTER TABLE with commands on the definition, on partitions and on rows together")
    if mutations:
        return mutate(table, mutations, context, sync=context.settings.mutations_sync)
    if on_partitions:
        table.require("partitioning")
        result = carry_out(table, on_partitions, context)
        wait_for_replicas(table, context)
        return result

    def change(old: TableDefinition) -> CreateTable:
        return altered(old.create, old.description, changes)

    are_local = [isinstance(command, LOCAL_CHANGES) for command in changes]
    if table.replication is None or all(are_local):
        catalog.alter_table(database, statement.table.table, change)
    elif any(are_local):
        raise not_implemented(
            "ALTER of columns, which is of all replicas, and of settings or comments of this one together"
        )
    else:
        settings = context.settings
        table.replication.alter(change, AlterOptions(settings.alter_sync > 1, settings.receive_timeout, context.status))
    if context.settings.materialize_ttl_after_modify and any(map(_sets_ttl, changes)):
        return mutate(table, [MaterializeTtl()], context, sync=context.settings.mutations_sync)
    return QueryResult()


def _sets_ttl(change: DefinitionChange) -> bool:
    return (isinstance(change, ModifyTtl) and bool(change.ttl)) or (
        isinstance(change, ModifyColumn) and bool(change.column.ttl)
    )
