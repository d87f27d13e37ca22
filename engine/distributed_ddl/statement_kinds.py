"""What a statement's kind decides: how many replicas of a shard carry it out, and what is done with one whose server
ended while it carried it out. Pure.

Source: ClickHouse documentation, "Distributed DDL Queries (ON CLUSTER Clause)".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Protocol

from parts.common.errors import PandoError, UnavailableError, UserError
from sql.definitions.alter.definition_changes import LOCAL_CHANGE_TYPES
from sql.definitions.engines.replica_location import has_replica_location
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements import statement as statements
from sql.grammar.statements.alter_commands import (
    AddColumn,
    AddConstraint,
    AddIndex,
    CommentColumn,
    DropDetached,
    Freeze,
    MaterializeColumn,
    MaterializeIndex,
    MaterializeTtl,
    ModifyColumn,
    ModifyTtl,
    Unfreeze,
)
from sql.grammar.statements.statement import (
    Statement,
)

_OF_ONE_SERVER = (*LOCAL_CHANGE_TYPES, Freeze, Unfreeze, DropDetached)
"""Commands of ALTER about what each replica has for itself."""
_SAME_WHEN_REPEATED = (
    *LOCAL_CHANGE_TYPES, AddColumn, AddConstraint, AddIndex, CommentColumn, ModifyColumn, ModifyTtl, MaterializeColumn,
    MaterializeIndex, MaterializeTtl,
)  # fmt: skip
_OWN_MACROS = ("{database}", "{table}", "{uuid}")
"""They have the same value on all servers."""


_PASSING = ("TABLE_IS_READ_ONLY", "KEEPER_EXCEPTION")
"""Refusals for as long as there is no session; what comes behind the effect of a statement is 341."""


class KnownTables(Protocol):
    """The tables of this server, after its start."""

    def exists(self, table: TableRef) -> bool: ...

    def has_database(self, database: str) -> bool: ...

    def is_from_start(self, table: TableRef) -> bool:
        """Whether the table is the one that was there when the server started."""

    def all_from_start(self, database: str) -> bool:
        """The same for a database and all of its tables."""


class AfterCrash(Enum):
    REPEAT = "it was not carried out, or does nothing when it is repeated"
    DONE = "it was carried out"
    UNKNOWN = "it may have been carried out, and must not be repeated"


def is_for_one_replica(statement: Statement) -> bool:
    """Whether one replica of a replicated table carries it out, and the others get its effect by replication."""
    if isinstance(statement, statements.AlterTable):
        return not all(isinstance(command, _OF_ONE_SERVER) for command in statement.commands)
    return isinstance(statement, statements.MutateTable | statements.TruncateTable | statements.OptimizeTable)


def refuse_on_cluster(statement: Statement, shards: Sequence[int]) -> None:
    """Raises 36, 48 for what no cluster can carry out. ``shards`` are the numbers of replicas of each shard."""
    if isinstance(statement, statements.AlterTable):
        own = [isinstance(command, _OF_ONE_SERVER) for command in statement.commands]
        if any(own) and not all(own):
            raise UserError(
                "BAD_ARGUMENTS",
                "ALTER … ON CLUSTER with commands for one replica of a shard and commands for each server (comments, "
                "settings, FREEZE, DROP DETACHED): write two statements",
            )
    if getattr(statement, "is_temporary", False):
        raise UserError("INCORRECT_QUERY", "Temporary tables are of one session: they cannot be used ON CLUSTER")
    if isinstance(statement, statements.CreateTable):
        _refuse_create(statement, shards)


def _refuse_create(create: statements.CreateTable, shards: Sequence[int]) -> None:
    view = create.view
    if view is not None and view.is_populated:
        raise UserError("NOT_IMPLEMENTED", "POPULATE ON CLUSTER: every replica would insert the same rows")
    if view is None and create.as_select and not create.is_empty:
        raise UserError(
            "NOT_IMPLEMENTED",
            "CREATE TABLE … AS SELECT ON CLUSTER: every replica would insert the same rows; write EMPTY AS SELECT, and "
            "INSERT SELECT after it",
        )
    if (
        create.engine is None
        or not create.engine.name.startswith("Replicated")
        or not has_replica_location(create.engine)
    ):
        return  # without arguments the place has the macros of the configuration
    path, name = create.engine.arguments[:2]
    if sum(shards) > 1 and "{" not in name:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The replica name {name} would be the same on every server of the cluster: write a macro, such as "
            "'{replica}', or CREATE the table on each server",
        )
    for macro in _OWN_MACROS:
        path = path.replace(macro, "")
    if len(shards) > 1 and "{" not in path:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The path in ZooKeeper {create.engine.arguments[0]} would be the same in every shard of the cluster: "
            "write a macro, such as {shard}",
        )


def after_crash(statement: Statement, tables: KnownTables) -> AfterCrash:
    """What is known of a statement that another process of this server, or another replica, has begun."""
    match statement:
        case statements.CreateTable(replaces=True) | statements.AttachTable(as_replicated=bool()):
            return AfterCrash.UNKNOWN
        case statements.CreateTable() | statements.AttachTable():
            return AfterCrash.DONE if tables.exists(statement.table) else AfterCrash.REPEAT
        case statements.CreateDatabase():
            return AfterCrash.DONE if tables.has_database(statement.name) else AfterCrash.REPEAT
        case statements.DropTable():
            left = [table for table in (statement.table, *statement.others) if tables.exists(table)]
            return _dropped(bool(left), all(map(tables.is_from_start, left)))
        case statements.DropDatabase():
            return _dropped(tables.has_database(statement.name), tables.all_from_start(statement.name))
        case statements.RenameTables():
            return _renamed(statement.pairs, tables)
        case statements.AlterTable():
            is_same = all(isinstance(command, _SAME_WHEN_REPEATED) for command in statement.commands)
            return AfterCrash.REPEAT if is_same else AfterCrash.UNKNOWN
        case statements.OptimizeTable() | statements.SystemCommand() | statements.DropReplica():
            return AfterCrash.REPEAT
        case statements.KillQuery() | statements.KillMutation():
            return AfterCrash.REPEAT
    return AfterCrash.UNKNOWN


def _dropped(is_left: bool, is_from_start: bool) -> AfterCrash:
    """What came after the start under the same name must stay."""
    if not is_left:
        return AfterCrash.DONE
    return AfterCrash.REPEAT if is_from_start else AfterCrash.UNKNOWN


def _renamed(pairs: Sequence[tuple[TableRef, TableRef]], tables: KnownTables) -> AfterCrash:
    if all(not tables.exists(old) and tables.exists(new) for old, new in pairs):
        return AfterCrash.DONE
    if all(tables.is_from_start(old) and not tables.exists(new) for old, new in pairs):
        return AfterCrash.REPEAT
    return AfterCrash.UNKNOWN


def may_be_retried(statement: Statement, error: PandoError) -> bool:
    """Whether the statement was refused before it did anything, for a reason that passes: its table, or ZooKeeper, is
    not there for a while. Of several commands one may have been carried out."""
    parts: Sequence[object] = getattr(statement, "commands", None) or getattr(statement, "pairs", None) or ()
    is_one = len(parts) < 2 and not getattr(statement, "others", ())
    return is_one and isinstance(error, UnavailableError) and error.name in _PASSING


def to_repeat(statement: Statement) -> Statement:
    """The statement that does what may be left of this one, and takes what is done for done."""
    match statement:
        case statements.DropTable() | statements.DropDatabase():
            return replace(statement, if_exists=True)
        case statements.CreateTable() | statements.CreateDatabase() | statements.AttachTable():
            return replace(statement, if_not_exists=True)
        case statements.AlterTable():
            commands = tuple(
                replace(command, if_not_exists=True)
                if isinstance(command, AddColumn | AddIndex | AddConstraint)
                else command
                for command in statement.commands
            )
            return replace(statement, commands=commands)
    return statement
