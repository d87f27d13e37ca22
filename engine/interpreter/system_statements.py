"""SYSTEM statements: stop and start work; sync, restart, restore and drop replicas."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import TablePaths
from coordination.replicas.table_nodes import drop_dead_replica
from engine.interpreter.statement_kind import define_owner_statement
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.capabilities.replica import Replica
from engine.tables.owned_table import OwnedTable
from engine.tables.statement_options import SyncMode
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import UserError
from parts.common.safe_names import check_file_name, encode_file_name
from parts.store.frozen_parts import SHADOW, unfreeze_backup
from sql.definitions.engines.replica_location import split_zookeeper
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    DropReplica,
    SystemCommand,
)

_LOGS = frozenset({"part_log", "query_log", "system.part_log", "system.query_log"})


def run_system_command(statement: SystemCommand, context: OwnerContext) -> QueryResult:
    """Executes a SYSTEM command."""
    command, settings = statement.command, context.settings
    verb, _, action = command.partition(" ")
    if verb in ("STOP", "START"):
        tables = [_find_table(statement.table, context)] if statement.table else context.server.catalog.tables()
        for table in tables:
            table.allow(StoppableAction(action), verb == "START")
    elif command == "SYNC REPLICA":
        if statement.table is None or not (statement.may_be_missing and _is_missing(statement.table, context)):
            mode = SyncMode[statement.argument or "DEFAULT"]
            _require_replica(statement.table, context).sync(settings.receive_timeout, context.status, mode)
    elif command == "RESTART REPLICA":
        _require_replica(statement.table, context).restart()
    elif command == "RESTORE REPLICA":
        _require_replica(statement.table, context).restore(settings.receive_timeout, context.status)
    elif command == "RESTART REPLICAS":
        for table in context.server.catalog.tables():
            if table.replication is not None:
                table.replication.restart()
    elif command == "RELOAD CONFIG":
        context.server.linked_clusters.reload()
    elif command == "WAIT LOADING PARTS":
        if statement.table is not None:
            _find_table(statement.table, context)  # only checks that it exists: its parts are loaded before it appears
    elif command == "FLUSH DISTRIBUTED":
        definition = _require_table(statement.table, context).definition
        if definition.engine_name != "Distributed":  # a Distributed table has nothing to flush
            raise UserError("BAD_ARGUMENTS", f"Table {definition.full_name} is not distributed")
    elif command == "UNFREEZE":  # also for dropped tables
        check_file_name("backup", statement.argument)
        unfreeze_backup(context.server.path / SHADOW, encode_file_name(statement.argument))
    elif command == "FLUSH LOGS":
        _flush_logs([name for name in statement.argument.split(",") if name])
    else:
        raise UserError("NOT_IMPLEMENTED", f"SYSTEM {command} is not supported")
    return QueryResult()


def _flush_logs(names: Sequence[str]) -> None:
    """Checks the names of logs; there is nothing to flush, because logged rows are visible at once."""
    for name in names:
        if name not in _LOGS:
            raise UserError("BAD_ARGUMENTS", f"Log name {name!r} does not exist; there are: {', '.join(sorted(_LOGS))}")


def drop_replica(statement: DropReplica, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM DROP REPLICA: removes a dead replica from ZooKeeper.

    Raises 305 (TABLE_WAS_NOT_DROPPED) for a replica that is active, of this server, or unknown. Unless a single table
    is named, tables without such a replica are skipped.
    """
    catalog, replication = context.server.catalog, context.server.replication
    if statement.zookeeper_path is not None:
        zookeeper, path = split_zookeeper(statement.zookeeper_path)
        places = [(replication.connect_to(zookeeper).require_keeper(), zookeeper, TablePaths(path))]
    elif statement.table is not None:
        places = [_locate_replica(_require_replica(statement.table, context))]
    else:
        found = [
            _locate_replica(table.replication) for table in catalog.tables(statement.database) if table.replication
        ]
        places = [place for place in found if place[0].exists(place[2].replica(statement.replica).root)]
    roots = {(zookeeper, path.root) for _, zookeeper, path in places}
    for table in catalog.tables():
        own = table.replication
        if own is None or own.replica.name != statement.replica:
            continue
        if (own.zookeeper_name, own.paths.root) in roots:
            raise UserError(
                "TABLE_WAS_NOT_DROPPED",
                f"Replica {statement.replica!r} of {table.definition.full_name} is this server's own: use DROP TABLE",
            )
    for keeper, _, table_paths in places:
        drop_dead_replica(keeper, table_paths, statement.replica)
    return QueryResult()


def _locate_replica(replica: Replica) -> tuple[Keeper, str, TablePaths]:
    return replica.require_keeper(), replica.zookeeper_name, replica.paths


def _is_missing(ref: TableRef, context: OwnerContext) -> bool:
    return context.server.catalog.find(context.database(ref.database), ref.table) is None


def _find_table(ref: TableRef, context: OwnerContext) -> OwnedTable:
    return context.server.catalog.table(context.database(ref.database), ref.table)


def _require_table(ref: TableRef | None, context: OwnerContext) -> OwnedTable:
    if ref is None:
        raise UserError("SYNTAX_ERROR", "This SYSTEM command needs a table")
    return _find_table(ref, context)


def _require_replica(ref: TableRef | None, context: OwnerContext) -> Replica:
    table = _require_table(ref, context)
    if table.replication is None:
        raise UserError("BAD_ARGUMENTS", f"Table {table.definition.full_name} is not replicated")
    return table.replication


STATEMENTS = (
    define_owner_statement(SystemCommand, run_system_command),
    define_owner_statement(DropReplica, drop_replica),
)
