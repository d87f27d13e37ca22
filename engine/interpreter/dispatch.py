"""Which handler runs which statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.distributed_ddl.initiator import execute_on_cluster
from engine.interpreter import (
    alter,
    check_table,
    data_definition,
    insert_statement,
    mutation_statements,
    optimize,
    select,
    show,
    system_statements,
    transaction_statements,
)
from engine.queries.context import Context
from engine.queries.session import QueryResult
from parts.common.errors import UserError
from sql.grammar.statements import statement as statements
from sql.grammar.statements.statement import ParsedStatement

_HANDLERS: dict[type, Callable[[Any, Context], QueryResult]] = {
    statements.CreateTable: data_definition.create_table,
    statements.CreateDatabase: data_definition.create_database,
    statements.DropDatabase: data_definition.drop_database,
    statements.DropTable: data_definition.drop_table,
    statements.AttachTable: data_definition.attach_table,
    statements.RenameTables: data_definition.rename_tables,
    statements.ExchangeTables: data_definition.exchange_tables,
    statements.TruncateTable: data_definition.truncate_table,
    statements.AlterTable: alter.alter_table,
    statements.MutateTable: mutation_statements.mutate_table,
    statements.KillMutation: mutation_statements.kill_mutation,
    statements.Use: data_definition.use,
    statements.SetSettings: data_definition.set_settings,
    statements.ShowDatabases: show.show_databases,
    statements.ShowTables: show.show_tables,
    statements.ShowCreateTable: show.show_create_table,
    statements.ShowCreateDatabase: show.show_create_database,
    statements.ShowProcesslist: show.show_processlist,
    statements.DescribeTable: show.describe_table,
    statements.DescribeQuery: show.describe_query,
    statements.ExistsTable: show.exists_table,
    statements.ExistsDatabase: show.exists_database,
    statements.CheckTable: check_table.check_table,
    statements.OptimizeTable: optimize.optimize_table,
    statements.SystemCommand: system_statements.run_system_command,
    statements.DropReplica: system_statements.drop_replica,
    statements.Insert: insert_statement.insert,
    statements.SelectQuery: select.select,
    statements.Explain: select.explain,
    statements.KillQuery: select.kill_query,
    statements.CommitTransaction: transaction_statements.commit_transaction,
    statements.RollbackTransaction: transaction_statements.rollback_transaction,
}
_READ_ONLY = (
    statements.SelectQuery, statements.Explain, statements.ShowDatabases, statements.ShowTables,
    statements.ShowCreateTable, statements.ShowCreateDatabase, statements.ShowProcesslist, statements.DescribeTable,
    statements.DescribeQuery, statements.ExistsTable, statements.ExistsDatabase, statements.Use, statements.SetSettings,
    statements.KillQuery,
)  # fmt: skip


def execute_statement(parsed: ParsedStatement, context: Context) -> QueryResult:
    """Raises 164 (READONLY) for a change in a read-only session, and whatever the statement raises."""
    statement = parsed.statement
    is_reading = isinstance(statement, _READ_ONLY) and parsed.on_cluster is None
    if (context.session.readonly or context.settings.readonly) and not is_reading:
        raise UserError("READONLY", f"Cannot execute {type(statement).__name__} in readonly mode")
    if parsed.on_cluster is not None:
        result = execute_on_cluster(parsed, context)
    else:
        result = _HANDLERS[type(statement)](statement, context)
    return replace(
        result,
        format=parsed.format,
        outfile=parsed.outfile,
        statistics=result.statistics if result.batches is not None and result.columns else context.statistics,
        query_id=context.query_id,
    )
