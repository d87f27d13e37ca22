"""Interface of a listener that is told of every change of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.catalog.database_tables import NotLoaded
from engine.tables.owned_table import OwnedTable
from engine.tables.table_definition import TableDefinition


class CatalogListener(Protocol):
    """A listener that passes changes of the catalog on to other processes. Its methods must be quick."""

    def on_database_created(self, name: str) -> None:
        """Called after a database was created or loaded."""

    def on_database_dropped(self, name: str) -> None:
        """Called after a database was dropped or detached."""

    def on_table_started(self, table: OwnedTable) -> None:
        """Called when a table has started and can be found."""

    def on_table_altered(self, table: OwnedTable, definition: TableDefinition) -> None:
        """Called before the table adopts ``definition``; no part has it yet.

        Not called for tables that are not started.
        """

    def on_tables_renamed(self, renamed: Sequence[tuple[OwnedTable, TableDefinition]]) -> None:
        """Called with the definitions that the tables are about to adopt; they differ in names only."""

    def on_tables_not_loaded(self, database: str, failed: Mapping[str, NotLoaded]) -> None:
        """Called with all tables of the database that could not be loaded, by name."""

    def on_table_removed(self, table: OwnedTable) -> None:
        """Called before the table's files are removed. Not called for tables that were not started."""
