"""The definition of a ``system`` table: named columns, and a function that lists its present rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from engine.queries.context import Context, OwnerServer, Row, Server, require_owner
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type


@dataclass(frozen=True)
class SystemTable:
    """A system table. ``rows(context, columns)`` yields one tuple per row, of the named columns in order."""

    name: str
    schema: TableSchema
    rows: Callable[[Context, Sequence[str]], Iterable[Row]]

    def block(self, rows: Iterable[Row], columns: Sequence[str]) -> pa.Table:
        """Returns the rows, which have just these columns, as a block."""
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        arrays = [
            pa.array(found, self.schema.column(column).type.arrow)
            for column, found in zip(columns, values, strict=True)
        ]
        fields = [self.schema.arrow.field(column) for column in columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def define_server_table(name: str, columns: str, rows: Callable[[Server], Iterable[Row]]) -> SystemTable:
    """Defines a table that shows the same rows to everyone; for at most some thousand rows.

    ``columns`` has one ``name Type`` per line. The columns that ``rows`` yields come first; then ``name Type ALIAS
    other`` gives columns second names, which ``*`` does not select.
    """
    return define_session_table(name, columns, lambda context: rows(context.server))


def define_owner_table(name: str, columns: str, rows: Callable[[OwnerServer], Iterable[Row]]) -> SystemTable:
    """Defines a table whose rows only the process that owns the tables knows.

    See :func:`define_server_table`.
    """
    return define_session_table(name, columns, lambda context: rows(require_owner(context).server))


def define_session_table(name: str, columns: str, rows: Callable[[Context], Iterable[Row]]) -> SystemTable:
    """Defines a table whose rows depend on the session or the statement."""
    schema = _parse_schema(columns)
    return SystemTable(name, schema, lambda context, names: select_values(schema, rows(context), names))


def define_grouped_table(
    name: str, groups: Sequence[ColumnGroup], aliases: str, items: Callable[[OwnerServer], Iterable[tuple[Any, ...]]]
) -> SystemTable:
    """Defines a table of many rows: one per item, computing only the groups of columns that are selected.

    The columns are those of all groups, one after the other, then the aliases. See :func:`define_owner_table`.
    """
    schema = _parse_schema("\n".join([*(group.columns.strip() for group in groups), aliases.strip()]))

    def rows(context: Context, names: Sequence[str]) -> Iterator[Row]:
        wanted = [group for group in groups if not set(group.names).isdisjoint(names)]
        columns = [column for group in wanted for column in group.names]
        places = [columns.index(column) for column in names]
        found = items(require_owner(context).server)
        made: Iterable[Sequence[object]]
        if len(wanted) == 1:
            made = itertools.starmap(wanted[0].values, found)
        else:
            made = ([value for group in wanted for value in group.values(*item)] for item in found)
        for row in made:
            yield tuple([row[place] for place in places])

    return SystemTable(name, schema, rows)


@dataclass(frozen=True)
class ColumnGroup:
    """Columns whose values are computed together; ``values`` gets the fields of an item."""

    columns: str
    """One ``name Type`` per line."""
    values: Callable[..., Row]

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the columns."""
        return [line.split()[0] for line in self.columns.strip().splitlines()]


def select_values(schema: TableSchema, rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Selects the named columns of whole rows."""
    names = schema.stored.names
    places = [names.index(column) for column in columns]
    return (tuple([row[place] for place in places]) for row in rows)


def _parse_schema(columns: str) -> TableSchema:
    return TableSchema(tuple(_parse_column(line.strip()) for line in columns.strip().splitlines()))


def _parse_column(line: str) -> Column:
    name, definition = line.split(" ", 1)
    type_, _, other = definition.partition(" ALIAS ")
    return Column(name, parse_type(type_), default_kind="ALIAS" if other else "", default_expression=other)


@dataclass(frozen=True)
class SystemRelation:
    """A system table bound to a statement, as ``sql`` reads it."""

    table: SystemTable
    context: Context

    @property
    def schema(self) -> TableSchema:
        """The columns of the table."""
        return self.table.schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns all rows with these columns."""
        return self.table.block(self.context.server.system_rows(self.table, self.context, columns), columns)
