"""Finds the commands that repeat an ALTER of a link's source at its target.

The target's table may be another one than the source's: it may have more columns, wider types, other defaults. So the
commands are the difference between the source's definition before and after the ALTER, as far as the target does not
have it already. They are made of parsed definitions, never of text of the source's statements. Repeating them does
nothing.

Without the definition before, columns are added, renamed and widened, and none is dropped: a column that the source
lacks may be one that only the target ever had. TTL, codecs and constraints are each cluster's own matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.tables.replicated.life.shared_definition import AlteredColumns
from engine.tables.replicated.links.widened_types import goes_into
from parts.types import parse_type
from sql.grammar.clause_types import ColumnClause, IndexClause
from sql.grammar.statements.alter_commands import (
    AddColumn,
    AddIndex,
    ColumnPlace,
    DefinitionChange,
    DropColumn,
    DropIndex,
    ModifyColumn,
    RenameColumn,
)
from sql.grammar.statements.statement import CreateTable


@dataclass(frozen=True, slots=True)
class FormerDefinition:
    """The columns and indexes of the source before an ALTER."""

    columns: tuple[ColumnClause, ...]
    indexes: tuple[IndexClause, ...]


def list_definition_changes(
    own: CreateTable, former: FormerDefinition | None, new: AlteredColumns
) -> Sequence[DefinitionChange]:
    """Returns the commands that the target lacks. ``own`` is its definition."""
    return [*_Difference(own, former, new).find()]


class _Difference:
    """The difference of one ALTER. ``_own`` follows the commands found so far."""

    def __init__(self, own: CreateTable, former: FormerDefinition | None, new: AlteredColumns) -> None:
        self._own = {column.name: column for column in own.columns}
        self._indexes = {index.name for index in own.indexes}
        self._former = former
        self._before = {column.name: column for column in former.columns} if former is not None else None
        self._new = new
        self._after = {column.name: column for column in new.columns}

    def find(self) -> Iterator[DefinitionChange]:
        """Yields the commands in an order in which they can be carried out."""
        yield from self._drop_indexes()
        yield from self._rename()
        yield from self._drop()
        yield from self._add_and_modify()
        yield from self._add_indexes()

    def _renames(self) -> Mapping[str, str]:
        """Returns former name → name of the columns that this ALTER renamed."""
        version = self._new.history.version
        return {
            former: name
            for name, changes in self._new.history.renamed.items()
            for at, former in changes
            if at == version
        }

    def _rename(self) -> Iterator[DefinitionChange]:
        for former, name in self._renames().items():
            if former in self._own and name not in self._own:
                yield RenameColumn(former, name)
                self._own[name] = self._own.pop(former)

    def _drop(self) -> Iterator[DefinitionChange]:
        renamed = self._renames()
        for name in self._before or ():
            if name in self._own and name not in self._after and name not in renamed:
                yield DropColumn(name, if_exists=True)
                del self._own[name]

    def _add_and_modify(self) -> Iterator[DefinitionChange]:
        previous: str | None = None
        for column in self._new.columns:
            if column.name not in self._own:
                yield AddColumn(column, ColumnPlace(previous), if_not_exists=True)
                self._own[column.name] = column
            else:
                yield from self._modify(column)
            previous = column.name

    def _modify(self, column: ColumnClause) -> Iterator[DefinitionChange]:
        own = self._own[column.name]
        before = self._before.get(column.name) if self._before is not None else None
        has_default = column.default_kind, column.default_expression
        if column.default_kind != "ALIAS" and not goes_into(parse_type(column.type), parse_type(own.type)):
            default = has_default if column.default_kind else ("", "")
            yield ModifyColumn(ColumnClause(column.name, column.type, *default))
        elif before is not None and has_default != (before.default_kind, before.default_expression):
            if column.default_kind:
                yield ModifyColumn(ColumnClause(column.name, "", *has_default))
            elif own.default_kind:
                yield ModifyColumn(ColumnClause(column.name, ""), remove=own.default_kind)

    def _drop_indexes(self) -> Iterator[DefinitionChange]:
        kept = {index.name for index in self._new.indexes}
        for index in self._former.indexes if self._former is not None else ():
            if index.name in self._indexes and index.name not in kept:
                yield DropIndex(index.name, if_exists=True)

    def _add_indexes(self) -> Iterator[DefinitionChange]:
        if self._former is None:
            return
        known = {index.name for index in self._former.indexes}
        for index in self._new.indexes:
            if index.name not in known and index.name not in self._indexes:
                yield AddIndex(index, if_not_exists=True)
