"""Interface of a table's data, as writers and merges of its parts see it."""

from __future__ import annotations

from typing import Protocol

from engine.tables.services import TableServices
from engine.tables.table_definition import TableDefinition
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription


class TableData(Protocol):
    """A table's definition, services and parts."""

    definition: TableDefinition
    services: TableServices
    store: PartStore

    @property
    def description(self) -> TableDescription:
        """The compiled definition."""

    def is_cancelled(self) -> bool:
        """Tells whether background work should end."""
