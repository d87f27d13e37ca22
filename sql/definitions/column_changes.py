"""What a change of the definition does to the columns that were there, and which mutations stand in its way."""

from __future__ import annotations

from collections.abc import Iterable

from parts.errors import UserError
from parts.schema import TableSchema
from sql.definitions.mutations import Mutation


def retyped_columns(old: TableSchema, new: TableSchema) -> dict[str, str]:
    """Former name → name of the columns that have another type."""
    found = {}
    for column in new.columns:
        former = new.history.name_in(old.history.version, column.name)
        if former is not None and former in old and old.column(former).type != column.type:
            found[former] = column.name
    return found


def touched_columns(old: TableSchema, new: TableSchema) -> frozenset[str]:
    """Those that are dropped, cleared, renamed, or of another type. (A column of a table that was never altered has its
    name in every version.)"""
    same = {
        column.name for column in new.columns if new.history.name_in(old.history.version, column.name) == column.name
    }
    retyped = retyped_columns(old, new)
    return frozenset(name for name in old.names if name not in same or name in retyped)


def refuse_beside(unfinished: Iterable[tuple[str, Mutation]], touched: frozenset[str]) -> None:
    """A mutation is carried out under the definition of the time, so what it names must stay until it is done. Raises
    ``UserError`` 36 naming the mutation."""
    for id_, mutation in unfinished:
        for name in sorted(touched & mutation.names):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Cannot change column `{name}` because it's affected by mutation with ID '{id_}' which is not "
                "finished yet. Wait this mutation, or KILL it with command "
                f"\"KILL MUTATION WHERE mutation_id = '{id_}'\"",
            )
