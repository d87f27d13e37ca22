"""A ``system`` table: named columns and a function that lists its rows now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.context import Context, Row, Server
from parts.schema import Column, TableSchema
from parts.types import parse_type


@dataclass(frozen=True)
class SystemTable:
    """``rows(context)`` yields one tuple a row, in the order of ``schema``. Some thousand rows at the most."""

    name: str
    schema: TableSchema
    rows: Callable[[Context], Iterable[Row]]

    def block(self, rows: Sequence[Row], columns: Sequence[str]) -> pa.Table:
        """The given columns of ``rows``."""
        names = self.schema.stored.names
        arrays = [
            pa.array([row[names.index(column)] for row in rows], self.schema.column(column).type.arrow)
            for column in columns
        ]
        fields = [self.schema.arrow.field(column) for column in columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def system_table(name: str, columns: str, rows: Callable[[Server], Iterable[Row]]) -> SystemTable:
    """What a server shows to everybody. ``columns`` is one ``name Type`` a line; behind those that ``rows`` gives, with
    ``ALIAS other`` others' second names, which ``*`` does not show."""
    return session_table(name, columns, lambda context: rows(context.server))


def session_table(name: str, columns: str, rows: Callable[[Context], Iterable[Row]]) -> SystemTable:
    """What depends on the session or the statement that asks."""
    schema = TableSchema(tuple(_column(line.strip()) for line in columns.strip().splitlines()))
    return SystemTable(name, schema, rows)


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
        return self.table.block(self.context.server.system_rows(self.table, self.context), columns)


__all__ = ["Row", "SystemRelation", "SystemTable", "session_table", "system_table"]
