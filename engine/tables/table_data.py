"""A table's data, as those see it who write and merge its parts."""

from __future__ import annotations

from typing import Protocol

from engine.tables.services import TableServices
from engine.tables.table_definition import TableDefinition
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription


class TableData(Protocol):
    definition: TableDefinition
    services: TableServices
    store: PartStore

    @property
    def description(self) -> TableDescription: ...

    def is_cancelled(self) -> bool:
        """Whether what runs in the background should end."""
