"""Which handler runs which statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.context import Context
from engine.distributed_ddl.initiator import execute_on_cluster
from engine.interpreter import (
    alter,
    checks,
    definitions,
    inserts,
    mutations,
    optimize,
    queries,
    shows,
    system_commands,
    transactions,
)
from engine.session import QueryResult
from parts.errors import UserError
from sql.grammar import statements
from sql.grammar.statements import ParsedStatement

_HANDLERS: dict[type, Callable[[Any, Context], QueryResult]] = {
    statements.CreateTable: definitions.create_table,
    statements.CreateDatabase: definitions.create_database,
    statements.DropDatabase: definitions.drop_database,
    statements.DropTable: definitions.drop_table,
    statements.AttachTable: definitions.attach_table,
    statements.RenameTables: definitions.rename_tables,
    statements.ExchangeTables: definitions.exchange_tables,
    statements.TruncateTable: definitions.truncate_table,
    statements.AlterTable: alter.alter_table,
    statements.MutateTable: mutations.mutate_table,
    statements.KillMutation: mutations.kill_mutation,
    statements.Use: definitions.use,
    statements.SetSettings: definitions.set_settings,
    statements.ShowDatabases: shows.show_databases,
    statements.ShowTables: shows.show_tables,
    statements.ShowCreateTable: shows.show_create_table,
    statements.ShowCreateDatabase: shows.show_create_database,
    statements.ShowProcesslist: shows.show_processlist,
    statements.DescribeTable: shows.describe_table,
    statements.DescribeQuery: shows.describe_query,
    statements.ExistsTable: shows.exists_table,
    statements.ExistsDatabase: shows.exists_database,
    statements.CheckTable: checks.check_table,
    statements.OptimizeTable: optimize.optimize,
    statements.SystemCommand: system_commands.system_command,
    statements.DropReplica: system_commands.drop_replica,
    statements.Insert: inserts.insert,
    statements.SelectQuery: queries.select,
    statements.Explain: queries.explain,
    statements.KillQuery: queries.kill_query,
    statements.CommitTransaction: transactions.commit_transaction,
    statements.RollbackTransaction: transactions.rollback_transaction,
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
