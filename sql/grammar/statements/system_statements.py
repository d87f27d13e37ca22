"""Parses SYSTEM and OPTIMIZE."""

from __future__ import annotations

from sql.grammar.clause_types import ColumnMatcher
from sql.grammar.common_clauses import on_cluster, parse_identifier_list, parse_table_name
from sql.grammar.statements.replication_links import parse_system_link
from sql.grammar.statements.statement import DropReplica, OptimizeTable, Statement, SystemCommand
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream, not_implemented

STOPPABLE_ACTIONS = (
    "MERGES", "TTL MERGES", "FETCHES", "REPLICATED SENDS", "REPLICATION QUEUES", "PULLING REPLICATION LOG", "CLEANUP",
    "MOVES", "DISTRIBUTED SENDS",
)  # fmt: skip
"""Actions that SYSTEM STOP and START name, for one table or for all."""
_TABLE_COMMANDS = ("SYNC REPLICA", "RESTART REPLICA", "RESTORE REPLICA", "WAIT LOADING PARTS", "FLUSH DISTRIBUTED")
_PLAIN_COMMANDS = ("RESTART REPLICAS", "RELOAD CONFIG")
_SYNC_MODES = ("STRICT", "LIGHTWEIGHT", "PULL")


def parse_system(stream: TokenStream) -> Statement:
    """Parses SYSTEM."""
    stream.next()
    if (statement := parse_system_link(stream)) is not None:
        return statement
    if stream.accept("DROP", "REPLICA"):
        return _parse_drop_replica(stream)
    if stream.accept("FLUSH", "LOGS"):
        on_cluster(stream)
        names = () if stream.is_at_end() or stream.at(";") else parse_identifier_list(stream)
        return SystemCommand("FLUSH LOGS", argument=",".join(names))
    if stream.accept("UNFREEZE"):
        on_cluster(stream)
        stream.expect("WITH", "NAME")
        return SystemCommand("UNFREEZE", argument=stream.string("backup name"))
    for verb in ("STOP", "START"):
        for action in STOPPABLE_ACTIONS:
            if stream.accept(verb, *action.split()):
                return _parse_stop_or_start(stream, f"{verb} {action}")
    for command in (*_TABLE_COMMANDS, *_PLAIN_COMMANDS):
        if stream.accept(*command.split()):
            on_cluster(stream)
            return SystemCommand(command) if command in _PLAIN_COMMANDS else _parse_table_command(stream, command)
    if stream.peek().kind == "word":
        words: list[str] = []
        while stream.peek().kind == "word" and len(words) < 3:
            words.append(stream.next().upper)
        raise not_implemented(f"SYSTEM {' '.join(words)}")
    return stream.fail("STOP", "START", *_TABLE_COMMANDS, *_PLAIN_COMMANDS)


def _parse_stop_or_start(stream: TokenStream, command: str) -> SystemCommand:
    on_cluster(stream)
    if stream.at("ON", "VOLUME"):
        raise not_implemented(f"SYSTEM {command} ON VOLUME")
    if stream.is_at_end() or not stream.peek().is_identifier:
        return SystemCommand(command)
    table = parse_table_name(stream)
    on_cluster(stream)
    return SystemCommand(command, table)


def _parse_table_command(stream: TokenStream, command: str) -> SystemCommand:
    may_be_missing = command == "SYNC REPLICA" and stream.accept("IF", "EXISTS")
    table = parse_table_name(stream)
    on_cluster(stream)
    may_be_missing |= command == "SYNC REPLICA" and stream.accept("IF", "EXISTS")
    argument = ""
    if command == "SYNC REPLICA" and stream.peek().kind == "word" and stream.peek().upper in _SYNC_MODES:
        argument = stream.next().upper
        if argument == "LIGHTWEIGHT" and stream.at("FROM"):
            raise not_implemented("SYSTEM SYNC REPLICA … LIGHTWEIGHT FROM")
    return SystemCommand(command, table, argument, may_be_missing)


def _parse_drop_replica(stream: TokenStream) -> Statement:
    on_cluster(stream)
    replica = stream.string("replica name")
    if stream.accept("FROM", "TABLE"):
        return DropReplica(replica, table=parse_table_name(stream))
    if stream.accept("FROM", "DATABASE"):
        return DropReplica(replica, database=stream.identifier("database name"))
    if stream.accept("FROM", "ZKPATH"):
        return DropReplica(replica, zookeeper_path=stream.string("path of the table in ZooKeeper"))
    return DropReplica(replica)


def parse_optimize(stream: TokenStream) -> Statement:
    """Parses OPTIMIZE TABLE."""
    stream.next()
    stream.expect("TABLE")
    table = parse_table_name(stream)
    on_cluster(stream)
    partition, partition_id = parse_partition_clause(stream)
    if stream.at("DRY", "RUN"):
        raise not_implemented("OPTIMIZE … DRY RUN")
    final = stream.accept("FINAL") or stream.accept("FORCE")
    deduplicate = stream.accept("DEDUPLICATE")
    by: tuple[ColumnMatcher, ...] = ()
    if deduplicate and stream.accept("BY"):
        matchers = [_parse_column_matcher(stream)]
        while stream.accept(","):
            matchers.append(_parse_column_matcher(stream))
        by = tuple(matchers)
    cleanup = stream.accept("CLEANUP")
    return OptimizeTable(table, partition, partition_id, final, deduplicate, by, cleanup)


def parse_partition_clause(stream: TokenStream) -> tuple[str | None, str | None]:
    """Parses ``PARTITION value`` or ``PARTITION ID '…'``; returns the value's SQL text and the id.

    At most one of the two is not ``None``.
    """
    if not stream.accept("PARTITION"):
        return None, None
    if stream.at("ID") and stream.peek(1).kind == "string":
        stream.next()
        return None, stream.string()
    return stream.slice_until(_partition_ends, "partition value"), None


def _partition_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind == "word" and token.upper in ("FINAL", "FORCE", "DEDUPLICATE", "CLEANUP", "SETTINGS", "FORMAT")


def _parse_column_matcher(stream: TokenStream) -> ColumnMatcher:
    names: tuple[str, ...] = ()
    pattern = None
    if stream.accept("COLUMNS", "("):
        if stream.peek().kind == "string":
            pattern = stream.string("a regular expression of column names")
        else:
            names = parse_identifier_list(stream)
        stream.expect(")")
    elif not stream.accept("*"):
        return ColumnMatcher((stream.identifier("column name"),))
    excluded: tuple[str, ...] = ()
    if stream.accept("EXCEPT"):
        if stream.accept("("):
            excluded = parse_identifier_list(stream)
            stream.expect(")")
        else:
            excluded = (stream.identifier("column name"),)
    return ColumnMatcher(names, pattern, excluded)


SYNTAX = (
    StatementSyntax(("SYSTEM",), parse_system),
    StatementSyntax(("OPTIMIZE",), parse_optimize),
)
