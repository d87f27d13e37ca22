"""OPTIMIZE and SYSTEM."""

from __future__ import annotations

from coordination.paths import TablePaths
from coordination.table_nodes import drop_dead_replica
from engine.context import Context
from engine.interpreter.partition_values import partition_id
from engine.interpreter.refusals import check_alter_sync
from engine.session import QueryResult
from engine.tables.options import OptimizeOptions
from engine.tables.replica import Replica
from engine.tables.table import Table
from parts.errors import UserError
from parts.schema import TableDescription
from sql.grammar.statements import DropReplica, OptimizeTable, SystemCommand, TableRef


def optimize(statement: OptimizeTable, context: Context) -> QueryResult:
    table = _table(statement.table, context)
    check_alter_sync(table, context)
    partition = statement.partition_id
    if statement.partition is not None:
        partition = partition_id(table, statement.partition, context)
    table.optimize(
        OptimizeOptions(
            partition_id=partition,
            final=statement.final,
            deduplicate=statement.deduplicate,
            deduplicate_by=_deduplicate_by(statement.deduplicate_by, table.description),
            throw_if_noop=context.settings.optimize_throw_if_noop,
            status=context.status,
        )
    )
    return QueryResult()


def _deduplicate_by(names: tuple[str, ...], description: TableDescription) -> tuple[str, ...]:
    """The columns. Raises 16 for one that is not stored, 8 if one of a key is missing: rows that differ in it lie apart
    in the merge and are other rows to the user."""
    for name in names:
        description.schema.stored.column(name)
    needed = (*description.sorting_key.columns, *description.primary_key.columns, *description.partition_key.columns)
    missing = [name for name in needed if name not in names]
    if names and missing:
        raise UserError(
            "THERE_IS_NO_COLUMN",
            "DEDUPLICATE BY must name all columns of the table's ORDER BY, PRIMARY KEY and PARTITION BY, but "
            f"{missing[0]!r} is missing in {', '.join(names)}",
        )
    return names


def system_command(statement: SystemCommand, context: Context) -> QueryResult:
    timeout = context.settings.receive_timeout
    if statement.command == "SYNC REPLICA":
        _replicated(statement.table, context).sync(timeout, context.status)
    elif statement.command == "RESTART REPLICA":
        _replicated(statement.table, context).restart()
    elif statement.command == "RESTART REPLICAS":
        for table in context.server.catalog.tables():
            if table.replication is not None:
                table.replication.restart()
    elif statement.command in ("STOP MERGES", "START MERGES", "STOP FETCHES", "START FETCHES"):
        verb, _, action = statement.command.partition(" ")
        tables = [_table(statement.table, context)] if statement.table else context.server.catalog.tables()
        for table in tables:
            table.allow(action.lower(), verb == "START")
    else:
        raise UserError("NOT_IMPLEMENTED", f"SYSTEM {statement.command} is not supported")
    return QueryResult()


def drop_replica(statement: DropReplica, context: Context) -> QueryResult:
    """SYSTEM DROP REPLICA: takes a replica whose server is gone for good out of ZooKeeper.

    Raises ``UserError`` 305 (TABLE_WAS_NOT_DROPPED) for a replica that is active, of this server, or unknown. Without a
    single table named, tables that have no such replica are passed over.
    """
    keeper = context.server.replication.require_keeper()
    catalog = context.server.catalog
    if statement.table is not None:
        paths = [_replicated(statement.table, context).paths]
    elif statement.zookeeper_path is not None:
        paths = [TablePaths(statement.zookeeper_path.rstrip("/"))]
    else:
        found = [table.replication.paths for table in catalog.tables(statement.database) if table.replication]
        paths = [path for path in found if keeper.exists(path.replica(statement.replica).root)]
    roots = {path.root for path in paths}
    for table in catalog.tables():
        own = table.replication
        if own is not None and own.paths.root in roots and own.replica.name == statement.replica:
            raise UserError(
                "TABLE_WAS_NOT_DROPPED",
                f"Replica {statement.replica!r} of {table.definition.full_name} is this server's own: use DROP TABLE",
            )
    for path in paths:
        drop_dead_replica(keeper, path, statement.replica)
    return QueryResult()


def _table(ref: TableRef, context: Context) -> Table:
    return context.server.catalog.table(context.database(ref.database), ref.table)


def _replicated(ref: TableRef | None, context: Context) -> Replica:
    if ref is None:
        raise UserError("SYNTAX_ERROR", "This SYSTEM command needs a table")
    table = _table(ref, context)
    if table.replication is None:
        raise UserError("BAD_ARGUMENTS", f"Table {table.definition.full_name} is not replicated")
    return table.replication
