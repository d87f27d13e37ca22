"""ALTER TABLE: changes of the definition, and commands on partitions."""

from __future__ import annotations

from engine.context import Context
from engine.interpreter.partition_commands import carry_out
from engine.interpreter.refusals import check_alter_sync, refuse_system
from engine.session import QueryResult
from sql.definitions.alter import LOCAL_CHANGES, altered
from sql.grammar.alterations import DefinitionChange, PartitionCommand
from sql.grammar.statements import AlterTable
from sql.grammar.tokens import not_implemented


def alter_table(statement: AlterTable, context: Context) -> QueryResult:
    """Raises 60, 164, 48, and what the commands raise; then nothing has changed."""
    database = context.database(statement.table.database)
    refuse_system(database)
    catalog = context.server.catalog
    table = catalog.table(database, statement.table.table)
    check_alter_sync(table, context)
    on_partitions = [command for command in statement.commands if isinstance(command, PartitionCommand)]
    changes = [command for command in statement.commands if isinstance(command, DefinitionChange)]
    if on_partitions and changes:
        raise not_implemented("ALTER TABLE with commands on columns and on partitions together")
    if on_partitions:
        return carry_out(table, on_partitions, context)
    if table.definition.is_replicated and not all(isinstance(change, LOCAL_CHANGES) for change in changes):
        raise not_implemented("ALTER of the columns of a replicated table")
    catalog.alter_table(database, statement.table.table, lambda old: altered(old.create, old.description, changes))
    return QueryResult()
