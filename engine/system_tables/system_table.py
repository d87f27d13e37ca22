"""A ``system`` table: named columns and a function that lists its rows now."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from engine.queries.context import Context, Row, Server
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type


@dataclass(frozen=True)
class SystemTable:
    """``rows(context, columns)`` yields one tuple a row, of the named columns in their order."""

    name: str
    schema: TableSchema
    rows: Callable[[Context, Sequence[str]], Iterable[Row]]

    def block(self, rows: Iterable[Row], columns: Sequence[str]) -> pa.Table:
        """``rows`` of just these columns."""
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        arrays = [
            pa.array(found, self.schema.column(column).type.arrow)
            for column, found in zip(columns, values, strict=True)
        ]
        fields = [self.schema.arrow.field(column) for column in columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def define_server_table(name: str, columns: str, rows: Callable[[Server], Iterable[Row]]) -> SystemTable:
    """What a server shows to everybody. ``columns`` is one ``name Type`` a line; behind those that ``rows`` gives, with
    ``ALIAS other`` others' second names, which ``*`` does not show. Some thousand rows at the most."""
    return define_session_table(name, columns, lambda context: rows(context.server))


def define_session_table(name: str, columns: str, rows: Callable[[Context], Iterable[Row]]) -> SystemTable:
    """What depends on the session or the statement that asks."""
    schema = _schema(columns)
    return SystemTable(name, schema, lambda context, names: chosen(schema, rows(context), names))


def grouped_table(
    name: str, groups: Sequence[Group], aliases: str, items: Callable[[Server], Iterable[tuple[Any, ...]]]
) -> SystemTable:
    """As :func:`define_server_table`, of many rows: one for each item, of which only the groups that are asked for are
    made. The columns are those of all groups, one after the other."""
    schema = _schema("\n".join([*(group.columns.strip() for group in groups), aliases.strip()]))

    def rows(context: Context, names: Sequence[str]) -> Iterator[Row]:
        wanted = [group for group in groups if not set(group.names).isdisjoint(names)]
        columns = [column for group in wanted for column in group.names]
        places = [columns.index(column) for column in names]
        found = items(context.server)
        made: Iterable[Sequence[object]]
        if len(wanted) == 1:
            made = itertools.starmap(wanted[0].values, found)
        else:
            made = ([value for group in wanted for value in group.values(*item)] for item in found)
        for row in made:
            yield tuple([row[place] for place in places])

    return SystemTable(name, schema, rows)


@dataclass(frozen=True)
class Group:
    """Columns whose values are made together: ``values`` gets the fields of an item."""

    columns: str
    """One ``name Type`` a line."""
    values: Callable[..., Row]

    @cached_property
    def names(self) -> Sequence[str]:
        return [line.split()[0] for line in self.columns.strip().splitlines()]


def chosen(schema: TableSchema, rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Row]:
    """The named columns of whole rows."""
    names = schema.stored.names
    places = [names.index(column) for column in columns]
    return (tuple([row[place] for place in places]) for row in rows)


def _schema(columns: str) -> TableSchema:
    return TableSchema(tuple(_column(line.strip()) for line in columns.strip().splitlines()))


def _column(line: str) -> Column:
    name, definition = line.split(" ", 1)
    type_, _, other = definition.partition(" ALIAS ")
    return Column(name, parse_type(type_), default_kind="ALIAS" if other else "", default_expression=other)


@dataclass(frozen=True)
class SystemRelation:
    """A system table bound to a statement: what ``sql`` reads."""

    table: SystemTable
    context: Context

    @property
    def schema(self) -> TableSchema:
        return self.table.schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        return self.table.block(self.context.server.system_rows(self.table, self.context, columns), columns)
