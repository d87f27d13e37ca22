"""Flattens Nested columns: ``n Nested(a T, b U)`` becomes ``n.a Array(T)`` and ``n.b Array(U)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import ArrayType, TupleType, parse_type
from sql.grammar.clause_types import ColumnClause
from sql.grammar.statements.alter_commands import AddColumn, ColumnPlace, DefinitionChange, RenameColumn
from sql.grammar.tokens import not_implemented

_FAMILY = "NESTED"


def flatten_columns(columns: Iterable[ColumnClause]) -> tuple[ColumnClause, ...]:
    """Returns the columns, with each Nested column replaced by its flat columns."""
    return tuple(flat for column in columns for flat in _flatten_column(column))


def _flatten_column(column: ColumnClause) -> Iterator[ColumnClause]:
    family = column.type.partition("(")[0].strip()
    if family.upper() != _FAMILY:
        yield column
        return
    if column.default_kind:
        raise not_implemented(f"{column.default_kind} of the Nested column {column.name!r}")
    type_ = parse_type(column.type)
    assert isinstance(type_, ArrayType)
    assert isinstance(type_.inner, TupleType)
    for name, inner in type_.inner.elements:
        yield replace(column, name=f"{column.name}.{name}", type=ArrayType(inner).name)


def flatten_added_columns(changes: Iterable[DefinitionChange], names: Iterable[str]) -> Iterator[DefinitionChange]:
    """Replaces ADD COLUMN of a Nested column by ADD COLUMN of its flat columns.

    ``names`` are the table's columns. Raises 15 when they have such a structure.
    """
    taken = {name.partition(".")[0] for name in names}
    for change in changes:
        if not isinstance(change, AddColumn):
            yield change
            continue
        flat = flatten_columns([change.column])
        if flat != (change.column,) and change.column.name in taken:
            if change.if_not_exists:
                continue
            raise UserError(
                "DUPLICATE_COLUMN", f"Cannot add column `{change.column.name}`: column with this name already exists"
            )
        place = change.place
        for column in flat:
            yield replace(change, column=column, place=place)
            place = ColumnPlace(column.name) if place is not None else None


def check_nested_rename(change: RenameColumn, names: Iterable[str]) -> None:
    """Refuses a RENAME that moves a column out of its Nested structure. Raises 36 and 48."""
    old, new = (name.rpartition(".")[0] for name in (change.old, change.new))
    if change.old not in names and any(name.startswith(f"{change.old}.") for name in names):
        raise not_implemented("RENAME COLUMN of a whole Nested structure")
    if old != new:
        kind = "one nested name to another" if old and new else "a nested structure to a normal column or back"
        raise UserError("BAD_ARGUMENTS", f"Cannot rename column `{change.old}` to `{change.new}`: from {kind}")
