"""Parses and writes mutations: commands of ALTER TABLE, and the statements DELETE FROM and UPDATE.

:func:`format_mutations` writes commands as they are stored, and :func:`parse_stored_mutations` reads that again.

Source: ClickHouse documentation, "ALTER TABLE … UPDATE | DELETE", "Lightweight DELETE", "Lightweight UPDATE".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parts.common.errors import UserError
from parts.table.row_exists_column import ROW_EXISTS
from sql.grammar.common_clauses import accept_if_exists, on_cluster, parse_table_name
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import (
    ApplyDeletedMask,
    ClearColumnData,
    ClearIndex,
    DeleteRows,
    MaterializeColumn,
    MaterializeIndex,
    MaterializeTtl,
    MutationCommand,
    PartitionRef,
    UpdateRows,
)
from sql.grammar.statements.statement import MutateTable
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.table_elements.columns import parse_column_name
from sql.grammar.tokens import TokenStream, quote_identifier_if_needed, quote_string

_ENDS = ("SETTINGS", "FORMAT", "INTO")


def parse_mutation_command(stream: TokenStream) -> MutationCommand | None:
    """Parses a mutation; returns ``None``, with nothing read, where none stands."""
    for words, parse in _COMMANDS.items():
        if stream.accept(*words.split()):
            return parse(stream)
    return None


def parse_delete(stream: TokenStream) -> MutateTable:
    """Parses ``DELETE FROM t [IN PARTITION p] WHERE condition``."""
    stream.next()
    stream.expect("FROM")
    table = parse_table_name(stream)
    on_cluster(stream)
    partition = parse_in_partition(stream)
    return MutateTable(table, UpdateRows(((ROW_EXISTS, "0"),), _parse_condition(stream), partition), is_delete=True)


def parse_update(stream: TokenStream) -> MutateTable:
    """Parses ``UPDATE t SET a = expression, … [IN PARTITION p] WHERE condition``."""
    stream.next()
    table = parse_table_name(stream)
    on_cluster(stream)
    stream.expect("SET")
    return MutateTable(table, _update(stream))


def parse_stored_mutations(text: str) -> tuple[MutationCommand, ...]:
    """Parses commands as :func:`format_mutations` wrote them. Raises ``UserError`` 62."""
    stream = TokenStream(text)
    found = []
    while True:
        command = parse_mutation_command(stream)
        if command is None:
            stream.fail(*_COMMANDS)
        found.append(command)
        if stream.at_end():
            return tuple(found)
        stream.expect(",")


def format_mutations(commands: Sequence[MutationCommand], *, is_kept: bool = False) -> str:
    """Writes commands as ALTER TABLE has them, with expressions as the user wrote them.

    With ``is_kept`` the text also holds the time of MATERIALIZE TTL.
    """
    return ", ".join(_format_command(command) + (_format_time(command) if is_kept else "") for command in commands)


# Reading --------------------------------------------------------------------------------------------------------------


def _delete(stream: TokenStream) -> MutationCommand:
    partition = parse_in_partition(stream)
    return DeleteRows(_parse_condition(stream), partition)


def _update(stream: TokenStream) -> UpdateRows:
    assignments: list[tuple[str, str]] = []
    while True:
        name = parse_column_name(stream)
        stream.expect("=")
        if name in dict(assignments):
            raise UserError(
                "MULTIPLE_ASSIGNMENTS_TO_COLUMN", f"Multiple assignments in the single statement to column `{name}`"
            )
        assignments.append((name, _read_expression(stream, _assignment_ends)))
        if not stream.accept(","):
            break
    partition = parse_in_partition(stream)
    return UpdateRows(tuple(assignments), _parse_condition(stream), partition)


def _materialize_column(stream: TokenStream) -> MutationCommand:
    return MaterializeColumn(parse_column_name(stream), parse_in_partition(stream))


def _clear_column(stream: TokenStream) -> MutationCommand:
    exists = accept_if_exists(stream)
    return ClearColumnData(parse_column_name(stream), parse_in_partition(stream), exists)


def _materialize_index(stream: TokenStream) -> MutationCommand:
    accept_if_exists(stream)
    return MaterializeIndex(stream.identifier("index name"), parse_in_partition(stream))


def _clear_index(stream: TokenStream) -> MutationCommand:
    accept_if_exists(stream)
    return ClearIndex(stream.identifier("index name"), parse_in_partition(stream))


def _materialize_ttl(stream: TokenStream) -> MutationCommand:
    partition = parse_in_partition(stream)
    at = int(stream.next().text) if stream.accept("AT") and stream.peek().text.isdigit() else 0
    return MaterializeTtl(partition, at)


def _apply_deleted_mask(stream: TokenStream) -> MutationCommand:
    return ApplyDeletedMask(parse_in_partition(stream))


_COMMANDS: dict[str, Callable[[TokenStream], MutationCommand]] = {
    "UPDATE": _update,
    "DELETE": _delete,
    "MATERIALIZE COLUMN": _materialize_column,
    "MATERIALIZE TTL": _materialize_ttl,
    "CLEAR COLUMN": _clear_column,
    "MATERIALIZE INDEX": _materialize_index,
    "CLEAR INDEX": _clear_index,
    "APPLY DELETED MASK": _apply_deleted_mask,
}


def parse_in_partition(stream: TokenStream) -> PartitionRef | None:
    """Parses ``[IN PARTITION p]``."""
    if not stream.accept("IN", "PARTITION"):
        return None
    if stream.at("ID") and stream.peek(1).kind == "string":
        stream.next()
        return PartitionRef(id=stream.string("partition id"))
    return PartitionRef(value=stream.slice_until(_partition_ends, "partition value"))


def _parse_condition(stream: TokenStream) -> str:
    stream.expect("WHERE")
    return _read_expression(stream, _command_ends)


def _read_expression(stream: TokenStream, ends: Callable[[TokenStream], bool]) -> str:
    text = stream.slice_until(ends)
    parse_expression(text)
    return text


def _command_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.text == "," or (token.kind == "word" and token.upper in _ENDS)


def _partition_ends(stream: TokenStream) -> bool:
    return _command_ends(stream) or stream.at("WHERE")


def _assignment_ends(stream: TokenStream) -> bool:
    return _partition_ends(stream) or stream.at("IN", "PARTITION")


# Writing --------------------------------------------------------------------------------------------------------------


def _format_command(command: MutationCommand) -> str:
    where = _format_partition(command.partition)
    match command:
        case UpdateRows(assignments, condition, _):
            pairs = ", ".join(f"{quote_identifier_if_needed(name)} = {value}" for name, value in assignments)
            return f"UPDATE {pairs}{where} WHERE {condition}"
        case DeleteRows(condition, _):
            return f"DELETE{where} WHERE {condition}"
        case MaterializeColumn(name, _):
            return f"MATERIALIZE COLUMN {quote_identifier_if_needed(name)}{where}"
        case ClearColumnData(name, _):
            return f"CLEAR COLUMN {quote_identifier_if_needed(name)}{where}"
        case MaterializeIndex(name, _):
            return f"MATERIALIZE INDEX {quote_identifier_if_needed(name)}{where}"
        case ClearIndex(name, _):
            return f"CLEAR INDEX {quote_identifier_if_needed(name)}{where}"
        case ApplyDeletedMask(_):
            return f"APPLY DELETED MASK{where}"
        case MaterializeTtl():
            return f"MATERIALIZE TTL{where}"


def _format_time(command: MutationCommand) -> str:
    return f" AT {command.at}" if isinstance(command, MaterializeTtl) and command.at else ""


def _format_partition(partition: PartitionRef | None) -> str:
    if partition is None:
        return ""
    value = f"ID {quote_string(partition.id)}" if partition.id is not None else partition.value
    return f" IN PARTITION {value}"


SYNTAX = (
    StatementSyntax(("DELETE",), parse_delete),
    StatementSyntax(("UPDATE",), parse_update),
)
