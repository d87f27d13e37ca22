"""The interface of a table in every process of a server: what queries and INSERTs need.

What only the process that owns the files can do is in ``engine.tables.owned_table``. A table may be used from any
thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.insert_sink import InsertSink
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import ConflictError, CorruptionError, UnavailableError
from parts.common.part_name import PartName
from parts.table.table_description import TableDescription
from sql.relations import PartsSnapshot

_REMEMBERED_CHANGES = 16


class Table(ABC):
    """One table on this server."""

    def __init__(self, definition: TableDefinition, services: TableServices) -> None:
        self.definition = definition
        self.services = services
        self._former: dict[int, TableDescription] = {}

    @property
    def link_group(self) -> str:
        """The transactional group of links that the table is in; "" for none."""
        return ""

    @property
    def description(self) -> TableDescription:
        """The compiled definition."""
        return self.definition.description

    def description_of(self, version: int) -> TableDescription:
        """Returns the description that the table had at a metadata version.

        The server remembers the last changes. Raises 517 for an older version, 369 for one that is still to come.
        """
        now = self.description
        if version > now.metadata_version:
            name = self.definition.full_name
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE", f"The last ALTER of {name} is not done here yet: try again"
            )
        found = now if version == now.metadata_version else self._former.get(version)
        if found is None:
            raise ConflictError(
                "CANNOT_ASSIGN_ALTER",
                f"Table {self.definition.full_name} was altered since the query began, and this server does not know "
                "any more how it was: run the query again, with the names that the columns have now",
            )
        return found

    def set_definition(self, definition: TableDefinition) -> None:
        """Takes the definition that an ALTER made, and remembers the former description."""
        self._former[self.description.metadata_version] = self.description
        while len(self._former) > _REMEMBERED_CHANGES:
            del self._former[min(self._former)]
        self.definition = definition

    def take_name(self, definition: TableDefinition) -> None:
        """Takes the definition under another name.

        Nothing else of it differs, and the data stay where they are.
        """
        self.definition = definition

    @abstractmethod
    def begin_insert(self, options: InsertOptions) -> InsertSink:
        """Starts one INSERT. Raises 252 (TOO_MANY_PARTS) and whatever forbids writing now."""

    @property
    def block_memory(self) -> BlockMemory | None:
        """The memory of a table that remembers the blocks of its INSERTs."""
        return None

    @abstractmethod
    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Returns the active parts, held until released.

        ``sequential_consistency`` matters to replicated tables alone.
        """

    @abstractmethod
    def pin(self, names: Sequence[PartName]) -> PartsSnapshot:
        """Returns the named parts in whatever state, held until released. Raises 232 (NO_SUCH_DATA_PART)."""

    @abstractmethod
    def report_corruption(self, error: CorruptionError) -> None:
        """Takes note of corruption that a read met."""
