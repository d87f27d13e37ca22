"""Who is told of everything that changes in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.tables.small.view import NotLoaded
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition


class CatalogListener(Protocol):
    """Somebody who tells other processes what there is. Must be quick."""

    def database_made(self, name: str) -> None: ...

    def database_gone(self, name: str) -> None: ...

    def table_started(self, table: Table) -> None: ...

    def table_altered(self, table: Table, definition: TableDefinition) -> None:
        """The definition that the table is about to take; no part of it is there yet. Nothing before its start."""

    def tables_renamed(self, renamed: Sequence[tuple[Table, TableDefinition]]) -> None:
        """The definitions, but for their names the tables' own, that they are about to take, all at once."""

    def tables_not_loaded(self, database: str, failed: Mapping[str, NotLoaded]) -> None:
        """All of the database that could not be loaded, by name."""

    def table_gone(self, table: Table) -> None:
        """Before its files go. Nothing when it was not started."""
