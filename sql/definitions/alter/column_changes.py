"""Compares the columns of two definitions, and refuses changes that an unfinished mutation forbids."""

from __future__ import annotations

from collections.abc import Iterable

from parts.common.errors import UserError
from parts.table.table_description import TableSchema
from parts.types import parse_type
from sql.grammar.clause_types import ColumnClause
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Identifier, walk
from sql.mutations.mutation import Mutation


def find_retyped_columns(old: TableSchema, new: TableSchema) -> dict[str, str]:
    """Returns former name → new name of the columns whose type changed."""
    found = {}
    for column in new.columns:
        former = new.history.get_name_in_part(old.history.version, column.name)
        if former is not None and former in old and old.column(former).type != column.type:
            found[former] = column.name
    return found


def find_changed_columns(old: TableSchema, new: TableSchema) -> frozenset[str]:
    """Returns the former columns that were dropped, cleared, renamed or given another type.

    A column of a table that was never altered has its name in every version.
    """
    same = {
        column.name
        for column in new.columns
        if new.history.get_name_in_part(old.history.version, column.name) == column.name
    }
    retyped = find_retyped_columns(old, new)
    return frozenset(name for name in old.names if name not in same or name in retyped)


def refuse_conflicting_mutations(unfinished: Iterable[tuple[str, Mutation]], touched: frozenset[str]) -> None:
    """Raises ``UserError`` 36 if an unfinished mutation names a touched column.

    A mutation runs under the definition of its time, so the columns it names must stay until it is done.
    """
    for id_, mutation in unfinished:
        for name in sorted(touched & mutation.names):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Cannot change column `{name}` because it's affected by mutation with ID '{id_}' which is not "
                "finished yet. Wait this mutation, or KILL it with command "
                f"\"KILL MUTATION WHERE mutation_id = '{id_}'\"",
            )


def find_null_replacement(old: ColumnClause, new: ColumnClause) -> str:
    """Returns the expression for NULL where a Nullable type becomes one without NULL, else ``""``.

    It reads no columns, so that its value never changes. Raises 36 where MODIFY COLUMN gives no such DEFAULT.
    """
    if not parse_type(old.type).is_nullable or parse_type(new.type).is_nullable:
        return ""
    if not new.default_expression:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Cannot convert column `{old.name}` from nullable type {old.type} to non-nullable type {new.type}: say in "
            "MODIFY COLUMN by a DEFAULT what NULL becomes",
        )
    if any(isinstance(node, Identifier) for node in walk(parse_expression(new.default_expression))):
        raise UserError(
            "BAD_ARGUMENTS",
            f"NULL of column `{old.name}` cannot become what depends on other columns, {new.default_expression}: "
            "UPDATE it first, give a DEFAULT of no columns, and change that afterwards",
        )
    return new.default_expression
