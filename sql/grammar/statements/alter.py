"""Parses ALTER TABLE: one or more commands, each perhaps in brackets.

The commands are classes of :mod:`sql.grammar.statements.alter_commands`.
"""

from __future__ import annotations

from collections.abc import Callable

from sql.grammar.clause_types import ColumnClause
from sql.grammar.common_clauses import (
    accept_if_exists,
    accept_if_not_exists,
    on_cluster,
    parse_settings_clause,
    parse_table_name,
    slice_query,
)
from sql.grammar.statements.alter_commands import (
    AddColumn,
    AddConstraint,
    AddIndex,
    AlterCommand,
    AttachPartition,
    ClearColumnData,
    ColumnPlace,
    CommentColumn,
    DropColumn,
    DropConstraint,
    DropDetached,
    DropIndex,
    DropPartition,
    FetchPartition,
    ForgetPartition,
    Freeze,
    ModifyColumn,
    ModifyComment,
    ModifyOrderBy,
    ModifyQuery,
    ModifySampleBy,
    ModifySettings,
    ModifyTtl,
    MovePartition,
    PartitionRef,
    RenameColumn,
    ResetSettings,
    Unfreeze,
)
from sql.grammar.statements.mutate_table import parse_in_partition, parse_mutation_command
from sql.grammar.statements.replication_links import at_link, parse_alter_link
from sql.grammar.statements.statement import AlterTable, Statement
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.table_elements.columns import parse_column, parse_column_name, parse_column_properties
from sql.grammar.table_elements.constraints import parse_constraint
from sql.grammar.table_elements.indexes import parse_index
from sql.grammar.table_elements.ttl import read_table_ttl_text
from sql.grammar.tokens import TokenStream, not_implemented

_REMOVABLE = ("DEFAULT", "MATERIALIZED", "ALIAS", "CODEC", "COMMENT", "TTL")


def parse_alter(stream: TokenStream) -> Statement:
    """Parses ALTER TABLE and its commands."""
    stream.next()
    if at_link(stream):
        return parse_alter_link(stream)
    if not stream.accept("TABLE"):
        if stream.accept("TEMPORARY", "TABLE") or stream.peek().kind == "word":
            raise not_implemented(f"ALTER {stream.peek().upper}")
        stream.fail("TABLE")
    table = parse_table_name(stream)
    on_cluster(stream)
    commands = [_parse_command(stream)]
    while stream.accept(","):
        commands.append(_parse_command(stream))
    return AlterTable(table, tuple(commands))


def _parse_command(stream: TokenStream) -> AlterCommand:
    stream.guard.count(1)
    if stream.accept("("):
        command = _parse_command(stream)
        stream.expect(")")
        return command
    for words, parse in _COMMANDS.items():
        if stream.accept(*words.split()):
            return parse(stream)
    mutation = parse_mutation_command(stream)
    if mutation is not None:
        return mutation
    if stream.peek().kind == "word":
        raise not_implemented(f"ALTER TABLE … {stream.peek().upper} {stream.peek(1).upper}".rstrip())
    return stream.fail(*_COMMANDS)


# Columns --------------------------------------------------------------------------------------------------------------


def _add_column(stream: TokenStream) -> AlterCommand:
    exists = accept_if_not_exists(stream)
    return AddColumn(parse_column(stream), _parse_place(stream), exists)


def _parse_place(stream: TokenStream) -> ColumnPlace | None:
    if stream.accept("FIRST"):
        return ColumnPlace(None)
    return ColumnPlace(parse_column_name(stream)) if stream.accept("AFTER") else None


def _drop_column(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    return DropColumn(parse_column_name(stream), exists)


def _clear_column(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    name = parse_column_name(stream)
    partition = parse_in_partition(stream)
    return DropColumn(name, exists, clear=True) if partition is None else ClearColumnData(name, partition, exists)


def _rename_column(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    old = parse_column_name(stream)
    stream.expect("TO")
    return RenameColumn(old, parse_column_name(stream), exists)


def _modify_column(stream: TokenStream) -> AlterCommand:
    """Parses MODIFY COLUMN, and ``ALTER COLUMN c TYPE t``."""
    exists = accept_if_exists(stream)
    name = parse_column_name(stream)
    if stream.accept("REMOVE"):
        for property_name in _REMOVABLE:
            if stream.accept(property_name):
                return ModifyColumn(ColumnClause(name, ""), if_exists=exists, remove=property_name)
        stream.fail(*_REMOVABLE)
    if stream.at("MODIFY", "SETTING") or stream.at("RESET", "SETTING"):
        raise not_implemented("Settings of a column")
    stream.accept("TYPE")
    column = parse_column_properties(stream, name, is_change=True)
    return ModifyColumn(column, _parse_place(stream), exists)


def _comment_column(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    name = parse_column_name(stream)
    return CommentColumn(name, stream.string("comment"), exists)


# Indexes --------------------------------------------------------------------------------------------------------------


def _add_index(stream: TokenStream) -> AlterCommand:
    exists = accept_if_not_exists(stream)
    index = parse_index(stream)
    if stream.accept("FIRST"):
        return AddIndex(index, ColumnPlace(None), exists)
    after = ColumnPlace(stream.identifier("index name")) if stream.accept("AFTER") else None
    return AddIndex(index, after, exists)


def _drop_index(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    return DropIndex(stream.identifier("index name"), exists)


def _add_constraint(stream: TokenStream) -> AlterCommand:
    exists = accept_if_not_exists(stream)
    return AddConstraint(parse_constraint(stream), exists)


def _drop_constraint(stream: TokenStream) -> AlterCommand:
    exists = accept_if_exists(stream)
    return DropConstraint(stream.identifier("constraint name"), exists)


# The table ------------------------------------------------------------------------------------------------------------


def _modify_comment(stream: TokenStream) -> AlterCommand:
    return ModifyComment(stream.string("comment"))


def _modify_ttl(stream: TokenStream) -> AlterCommand:
    return ModifyTtl(read_table_ttl_text(stream))


def _read_key(stream: TokenStream) -> str:
    return stream.slice_until(_key_ends, "key expression")


def _key_ends(stream: TokenStream) -> bool:
    return stream.at(",") or stream.at("SETTINGS") or stream.at("FORMAT")


def _modify_setting(stream: TokenStream) -> AlterCommand:
    return ModifySettings(parse_settings_clause(stream))


def _reset_setting(stream: TokenStream) -> AlterCommand:
    names = [stream.identifier("setting name")]
    while stream.at(",") and stream.peek(1).is_identifier and stream.peek(2).text in (",", ";", ")", ""):
        stream.next()
        names.append(stream.identifier("setting name"))
    return ResetSettings(tuple(names))


# Partitions -----------------------------------------------------------------------------------------------------------


def _drop_partition(stream: TokenStream) -> AlterCommand:
    return DropPartition(_parse_partition(stream))


def _detach_partition(stream: TokenStream) -> AlterCommand:
    return DropPartition(_parse_partition(stream), detach=True)


def _drop_part(stream: TokenStream) -> AlterCommand:
    return DropPartition(PartitionRef(part=stream.string("part name")))


def _detach_part(stream: TokenStream) -> AlterCommand:
    return DropPartition(PartitionRef(part=stream.string("part name")), detach=True)


def _drop_detached_partition(stream: TokenStream) -> AlterCommand:
    return DropDetached(_parse_partition(stream))


def _drop_detached_part(stream: TokenStream) -> AlterCommand:
    return DropDetached(PartitionRef(part=stream.string("part name")))


def _attach_partition(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream)
    return AttachPartition(partition, parse_table_name(stream) if stream.accept("FROM") else None)


def _attach_part(stream: TokenStream) -> AlterCommand:
    return AttachPartition(PartitionRef(part=stream.string("part name")))


def _replace_partition(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream)
    stream.expect("FROM")
    return AttachPartition(partition, parse_table_name(stream), replace=True)


def _fetch_partition(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream)
    stream.expect("FROM")
    return FetchPartition(partition, stream.string("path in ZooKeeper"))


def _fetch_part(stream: TokenStream) -> AlterCommand:
    part = PartitionRef(part=stream.string("part name"))
    stream.expect("FROM")
    return FetchPartition(part, stream.string("path in ZooKeeper"))


def _move_partition(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream)
    stream.expect("TO")
    if stream.at("DISK") or stream.at("VOLUME"):
        raise not_implemented(f"MOVE PARTITION … TO {stream.peek().upper}")
    stream.expect("TABLE")
    return MovePartition(partition, parse_table_name(stream))


def _freeze(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream) if stream.accept("PARTITION") else None
    return Freeze(partition, stream.string("backup name") if stream.accept("WITH", "NAME") else None)


def _unfreeze(stream: TokenStream) -> AlterCommand:
    partition = _parse_partition(stream) if stream.accept("PARTITION") else None
    stream.expect("WITH", "NAME")
    return Unfreeze(partition, stream.string("backup name"))


def _parse_partition(stream: TokenStream) -> PartitionRef:
    if stream.at("ID") and stream.peek(1).kind == "string":
        stream.next()
        return PartitionRef(id=stream.string("partition id"))
    if stream.accept("ALL"):
        return PartitionRef(is_all=True)
    return PartitionRef(value=stream.slice_until(_partition_ends, "partition value"))


def _partition_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.text == "," or (token.kind == "word" and token.upper in ("FROM", "TO", "SETTINGS", "FORMAT", "WITH"))


_COMMANDS: dict[str, Callable[[TokenStream], AlterCommand]] = {
    "ADD COLUMN": _add_column,
    "DROP COLUMN": _drop_column,
    "CLEAR COLUMN": _clear_column,
    "RENAME COLUMN": _rename_column,
    "MODIFY COLUMN": _modify_column,
    "ALTER COLUMN": _modify_column,
    "COMMENT COLUMN": _comment_column,
    "ADD INDEX": _add_index,
    "DROP INDEX": _drop_index,
    "ADD CONSTRAINT": _add_constraint,
    "DROP CONSTRAINT": _drop_constraint,
    "MODIFY COMMENT": _modify_comment,
    "MODIFY QUERY": lambda stream: ModifyQuery(slice_query(stream)),
    "MODIFY TTL": _modify_ttl,
    "REMOVE TTL": lambda _: ModifyTtl(""),
    "MODIFY ORDER BY": lambda stream: ModifyOrderBy(_read_key(stream)),
    "MODIFY SAMPLE BY": lambda stream: ModifySampleBy(_read_key(stream)),
    "REMOVE SAMPLE BY": lambda _: ModifySampleBy(""),
    "MODIFY SETTING": _modify_setting,
    "RESET SETTING": _reset_setting,
    "DROP PARTITION": _drop_partition,
    "DETACH PARTITION": _detach_partition,
    "DROP PART": _drop_part,
    "DETACH PART": _detach_part,
    "DROP DETACHED PARTITION": _drop_detached_partition,
    "DROP DETACHED PART": _drop_detached_part,
    "ATTACH PARTITION": _attach_partition,
    "ATTACH PART": _attach_part,
    "REPLACE PARTITION": _replace_partition,
    "FETCH PARTITION": _fetch_partition,
    "FETCH PART": _fetch_part,
    "MOVE PARTITION": _move_partition,
    "FORGET PARTITION": lambda stream: ForgetPartition(_parse_partition(stream)),
    "FREEZE": _freeze,
    "UNFREEZE": _unfreeze,
}


SYNTAX = (StatementSyntax(("ALTER",), parse_alter),)
