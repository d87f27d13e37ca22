"""OPTIMIZE and SYSTEM."""

from __future__ import annotations

from engine.interpreter.context import Context
from engine.session import QueryResult
from engine.tables.replicated.table import ReplicatedTable
from engine.tables.table import OptimizeOptions, Table
from parts.errors import UserError
from sql.statements import OptimizeTable, SystemCommand, TableRef


def optimize(statement: OptimizeTable, context: Context) -> QueryResult:
    table = _table(statement.table, context)
    partition_id = statement.partition_id
    if statement.partition is not None:
        partition_id = context.engine.partition_id(table, statement.partition, context)
    table.optimize(
        OptimizeOptions(
            partition_id=partition_id,
            final=statement.final,
            deduplicate=statement.deduplicate,
            deduplicate_by=statement.deduplicate_by,
            throw_if_noop=bool(context.settings["optimize_throw_if_noop"]),
        )
    )
    return QueryResult()


def system_command(statement: SystemCommand, context: Context) -> QueryResult:
    timeout = float(str(context.settings["receive_timeout"]))
    if statement.command == "SYNC REPLICA":
        _replicated(statement, context).sync(timeout)
    elif statement.command == "RESTART REPLICA":
        _replicated(statement, context).restart()
    elif statement.command == "RESTART REPLICAS":
        for table in context.engine.catalog.tables():
            if isinstance(table, ReplicatedTable):
                table.restart()
    elif statement.command in ("STOP MERGES", "START MERGES", "STOP FETCHES", "START FETCHES"):
        verb, _, action = statement.command.partition(" ")
        tables = [_table(statement.table, context)] if statement.table else context.engine.catalog.tables()
        for table in tables:
            table.allow(action.lower(), verb == "START")
    else:
        raise UserError("NOT_IMPLEMENTED", f"SYSTEM {statement.command} is not supported")
    return QueryResult()


def _table(ref: TableRef, context: Context) -> Table:
    return context.engine.catalog.table(context.database(ref.database), ref.table)


def _replicated(statement: SystemCommand, context: Context) -> ReplicatedTable:
    if statement.table is None:
        raise UserError("SYNTAX_ERROR", f"SYSTEM {statement.command} needs a table")
    table = _table(statement.table, context)
    if not isinstance(table, ReplicatedTable):
        raise UserError("BAD_ARGUMENTS", f"Table {table.definition.full_name} is not replicated")
    return table
