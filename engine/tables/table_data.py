"""A table's data, as those see it who write and merge its parts."""

from __future__ import annotations

from typing import Protocol

from engine.tables.definition import TableDefinition
from engine.tables.services import TableServices
from parts.schema import TableDescription
from parts.store import PartStore


class TableData(Protocol):
    definition: TableDefinition
    services: TableServices
    store: PartStore

    @property
    def description(self) -> TableDescription: ...

    def is_cancelled(self) -> bool:
        """Whether what runs in the background should end."""
