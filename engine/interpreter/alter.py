"""ALTER TABLE: changes of the definition, and commands on partitions."""

from __future__ import annotations

from engine.context import Context
from engine.interpreter.partition_commands import carry_out
from engine.interpreter.refusals import check_alter_sync, refuse_system
from engine.session import QueryResult
from sql.grammar.alterations import PartitionCommand
from sql.grammar.statements import AlterTable
from sql.grammar.tokens import not_implemented


def alter_table(statement: AlterTable, context: Context) -> QueryResult:
    """Raises 60, 164, 48, and what the commands raise; then nothing has changed."""
    database = context.database(statement.table.database)
    refuse_system(database)
    table = context.server.catalog.table(database, statement.table.table)
    check_alter_sync(table, context)
    on_partitions = [command for command in statement.commands if isinstance(command, PartitionCommand)]
    if on_partitions:
        if len(on_partitions) < len(statement.commands):
            raise not_implemented("ALTER TABLE with commands on columns and on partitions together")
        return carry_out(table, on_partitions, context)
    raise not_implemented(f"ALTER TABLE of {table.definition.full_name}")
