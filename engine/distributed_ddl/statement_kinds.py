"""Rules by a statement's kind: on how many replicas it runs, and what to do after a crash. Pure.

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

_LOCAL_COMMANDS = (*LOCAL_CHANGE_TYPES, Freeze, Unfreeze, DropDetached)
"""Commands of ALTER that change only the replica they run on."""
_SAME_WHEN_REPEATED = (
    *LOCAL_CHANGE_TYPES, AddColumn, AddConstraint, AddIndex, CommentColumn, ModifyColumn, ModifyTtl, MaterializeColumn,
    MaterializeIndex, MaterializeTtl,
)  # fmt: skip
_SHARED_MACROS = ("{database}", "{table}", "{uuid}")
"""Macros that have the same value on all servers."""


_TEMPORARY_ERRORS = ("TABLE_IS_READ_ONLY", "KEEPER_EXCEPTION")
"""Errors of a server without a ZooKeeper session; a failure after the statement's effect is 341 instead."""


class KnownTables(Protocol):
    """The tables of this server, compared with those at its start."""

    def exists(self, table: TableRef) -> bool:
        """Returns whether the table exists now."""

    def has_database(self, database: str) -> bool:
        """Returns whether the database exists now."""

    def is_from_start(self, table: TableRef) -> bool:
        """Returns whether the table is the same one as when the server started."""

    def are_all_from_start(self, database: str) -> bool:
        """Returns whether the database's tables are all the same ones as when the server started."""


class AfterCrash(Enum):
    """The judgement about a statement that a crash interrupted."""

    REPEAT = "it was not carried out, or does nothing when it is repeated"
    DONE = "it was carried out"
    UNKNOWN = "it may have been carried out, and must not be repeated"


def is_for_one_replica(statement: Statement) -> bool:
    """Returns whether one replica of a replicated table executes it and the others get its effect."""
    if isinstance(statement, statements.AlterTable):
        return not all(isinstance(command, _LOCAL_COMMANDS) for command in statement.commands)
    return isinstance(statement, statements.MutateTable | statements.TruncateTable | statements.OptimizeTable)


def refuse_on_cluster(statement: Statement, shards: Sequence[int]) -> None:
    """Raises 36 (BAD_ARGUMENTS), 48 (NOT_IMPLEMENTED) or 80 for statements that cannot run ON CLUSTER.

    ``shards`` are the numbers of replicas of each shard.
    """
    if isinstance(statement, statements.AlterTable):
        own = [isinstance(command, _LOCAL_COMMANDS) for command in statement.commands]
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
        return  # the default path and name contain macros
    path, name = create.engine.arguments[:2]
    if sum(shards) > 1 and "{" not in name:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The replica name {name} would be the same on every server of the cluster: write a macro, such as "
            "'{replica}', or CREATE the table on each server",
        )
    for macro in _SHARED_MACROS:
        path = path.replace(macro, "")
    if len(shards) > 1 and "{" not in path:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The path in ZooKeeper {create.engine.arguments[0]} would be the same in every shard of the cluster: "
            "write a macro, such as {shard}",
        )


def judge_after_crash(statement: Statement, tables: KnownTables) -> AfterCrash:
    """Judges a statement that a former process of this server, or another replica, began."""
    match statement:
        case statements.CreateTable(replaces=True) | statements.AttachTable(as_replicated=bool()):
            return AfterCrash.UNKNOWN
        case statements.CreateTable() | statements.AttachTable():
            return AfterCrash.DONE if tables.exists(statement.table) else AfterCrash.REPEAT
        case statements.CreateDatabase():
            return AfterCrash.DONE if tables.has_database(statement.name) else AfterCrash.REPEAT
        case statements.DropTable():
            left = [table for table in (statement.table, *statement.others) if tables.exists(table)]
            return _judge_drop(bool(left), all(map(tables.is_from_start, left)))
        case statements.DropDatabase():
            return _judge_drop(tables.has_database(statement.name), tables.are_all_from_start(statement.name))
        case statements.RenameTables():
            return _judge_rename(statement.pairs, tables)
        case statements.AlterTable():
            is_same = all(isinstance(command, _SAME_WHEN_REPEATED) for command in statement.commands)
            return AfterCrash.REPEAT if is_same else AfterCrash.UNKNOWN
        case statements.OptimizeTable() | statements.SystemCommand() | statements.DropReplica():
            return AfterCrash.REPEAT
        case statements.KillQuery() | statements.KillMutation():
            return AfterCrash.REPEAT
    return AfterCrash.UNKNOWN


def _judge_drop(is_left: bool, is_from_start: bool) -> AfterCrash:
    """Judges a DROP; objects created after the start under the same name must stay."""
    if not is_left:
        return AfterCrash.DONE
    return AfterCrash.REPEAT if is_from_start else AfterCrash.UNKNOWN


def _judge_rename(pairs: Sequence[tuple[TableRef, TableRef]], tables: KnownTables) -> AfterCrash:
    if all(not tables.exists(old) and tables.exists(new) for old, new in pairs):
        return AfterCrash.DONE
    if all(tables.is_from_start(old) and not tables.exists(new) for old, new in pairs):
        return AfterCrash.REPEAT
    return AfterCrash.UNKNOWN


def may_be_retried(statement: Statement, error: PandoError) -> bool:
    """Returns whether the statement was refused before it did anything, for a temporary reason.

    Such reasons are a table or ZooKeeper that is unavailable for a while. A statement of several commands is never
    retried, because one of them may have been executed.
    """
    parts: Sequence[object] = getattr(statement, "commands", None) or getattr(statement, "pairs", None) or ()
    is_one = len(parts) < 2 and not getattr(statement, "others", ())
    return is_one and isinstance(error, UnavailableError) and error.name in _TEMPORARY_ERRORS


def make_repeatable(statement: Statement) -> Statement:
    """Returns the statement in a form that ignores what is already done."""
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
