"""Turn DELETE and UPDATE of a ``last_writer_wins`` table into queries for the new versions of rows.

Such a table has no mutations, which know the blocks of one cluster only. DELETE inserts the rows that it found as
tombstones, UPDATE inserts them with the new values. Both are later than every row that they found, so they replace it
wherever it is, and lose to what is inserted later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parts.common.errors import UserError
from parts.table.row_exists_column import ROW_EXISTS
from parts.table.table_description import Column, TableDescription
from sql.grammar.statements.alter_commands import DeleteRows, MutationCommand, UpdateRows
from sql.grammar.tokens import quote_identifier, quote_string


@dataclass(frozen=True)
class RowChange:
    """The query for the new versions of the rows that a command finds.

    Its columns are assigned to ``columns`` by position. With ``are_deleted`` the rows are tombstones.
    """

    query: str
    columns: tuple[Column, ...]
    are_deleted: bool


def plan_row_change(command: MutationCommand, database: str, table: str, description: TableDescription) -> RowChange:
    """Plans a command whose partition is an id, and whose query parameters are filled in.

    Raises 48 (NOT_IMPLEMENTED) for a command that changes no rows.
    """
    values = _find_new_values(command)
    if values is None or not isinstance(command, DeleteRows | UpdateRows):
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Table {database}.{table} has last_writer_wins = 1: of the commands that change stored rows it takes "
            "DELETE and UPDATE only. OPTIMIZE TABLE … FINAL writes its parts anew",
        )
    columns = tuple(column for column in description.schema.stored.columns if not _follows(column, values))
    selected = ", ".join(_select(column, values) for column in columns)
    conditions = [f"({command.condition}\n)"]
    if command.partition is not None and command.partition.id is not None:
        conditions.append(f"_partition_id = {quote_string(command.partition.id)}")
    source = f"{quote_identifier(database)}.{quote_identifier(table)}"
    query = f"SELECT {selected} FROM {source} FINAL WHERE {' AND '.join(conditions)}"
    return RowChange(query, columns, are_deleted=not values)


def _find_new_values(command: MutationCommand) -> dict[str, str] | None:
    """Returns the expressions for changed columns, none for deleted rows; ``None`` for another command."""
    if isinstance(command, DeleteRows):
        return {}
    if not isinstance(command, UpdateRows):
        return None
    values = dict(command.assignments)
    if ROW_EXISTS not in values:
        return values
    return {} if values == {ROW_EXISTS: "0"} else None


def _follows(column: Column, changed: Mapping[str, str]) -> bool:
    """Tells whether the column is computed from changed ones, and so is computed anew."""
    if column.default_kind != "MATERIALIZED" or column.default is None:
        return False
    return not changed.keys().isdisjoint(column.default.columns)


def _select(column: Column, values: Mapping[str, str]) -> str:
    name = quote_identifier(column.name)
    if column.name not in values:
        return name
    return f"CAST(({values[column.name]}\n) AS {column.type}) AS {quote_identifier(f'new {column.name}')}"
