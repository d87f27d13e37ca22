"""A table without parts: a view, or a table that reads and writes other tables.

Who reads a view gets its query (``engine.interpreter.session_relations``); who writes to the table that a materialized
one reads runs it (``engine.interpreter.materialized_views.view_inserts``). ``engine.distributed`` reads and writes the
tables behind Distributed and Merge tables.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from engine.tables.insert_sink import InsertSink
from engine.tables.owned_table import OwnedTable
from engine.tables.statement_options import InsertOptions
from parts.common.errors import CorruptionError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import Snapshot

logger = logging.getLogger(__name__)


class TableWithoutParts(OwnedTable):
    """A table whose rows, if any, are in other tables."""

    def start(self) -> None:
        """There is nothing to load."""

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"Method write is not supported by storage {self.definition.engine_name}")

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot:
        """Returns no parts."""
        return Snapshot((), lambda _: None)

    def pin(self, names: Sequence[PartName]) -> Snapshot:
        """Returns no parts. Raises 232 (NO_SUCH_DATA_PART) if any is named."""
        if names:
            raise UserError("NO_SUCH_DATA_PART", f"No part {names[0]} in table {self.definition.full_name}")
        return self.snapshot()

    def report_corruption(self, error: CorruptionError) -> None:
        """Logs the error."""
        logger.error("table %s: %s", self.definition.full_name, error)
