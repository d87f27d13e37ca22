"""``Null``, which takes rows and keeps none."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.tables.insert_sink import InsertOutcome, InsertSink, Piece
from engine.tables.small.table_without_parts import TableWithoutParts
from engine.tables.statement_options import InsertOptions
from engine.tables.table import Table
from parts.format.hashed_file import make_directories
from parts.write.block_preparation import PartitionBlock
from parts.write.constraint_checks import check_constraints

_CLEANUP_SECONDS = 60.0


class NullTable(TableWithoutParts):
    """A ``Null`` table. Scans may read it, and leave records in its directory."""

    def start(self) -> None:
        """Makes the directory, and begins to remove old records."""
        make_directories(self.definition.data_path)
        self.run_in_background(
            self.services.housekeeping, self.make_task("clean up", self._clean_up_step), _CLEANUP_SECONDS
        )

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        """Starts one INSERT, whose rows are only counted."""
        return NullInsert(self)

    def _clean_up_step(self) -> float:
        self._scan_records.clean_up(self.services.monotonic())
        return _CLEANUP_SECONDS


class NullInsert(InsertSink):
    """Counts the rows, in whichever process."""

    def __init__(self, table: Table) -> None:
        self.description = table.description
        self._name = table.definition.full_name
        self._outcome = InsertOutcome()

    def write(self, block: pa.Table, token: str = "") -> None:
        """Checks and counts the rows."""
        check_constraints(block, self.description, self._name)
        self.write_pieces(block, ())

    def identified(self, block: pa.Table, token: str = "") -> list[Piece]:
        """Returns the whole block as one piece."""
        check_constraints(block, self.description, self._name)
        return [Piece(PartitionBlock("all", (), block), "")]

    def write_pieces(self, block: pa.Table, pieces: Sequence[Piece]) -> None:
        """Counts the rows."""
        self._outcome.written_rows += block.num_rows
        self._outcome.written_bytes += block.nbytes

    def commit(self) -> InsertOutcome:
        """Returns the counts."""
        return self._outcome

    def abort(self) -> None:
        """There is nothing to remove."""
