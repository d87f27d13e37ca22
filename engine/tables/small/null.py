"""``Null``, which takes rows and keeps none, and tables that read and write other tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.tables.insert_sink import InsertOutcome, InsertSink, Piece, TemporaryPart
from engine.tables.small.small_table import SmallTable
from engine.tables.statement_options import InsertOptions
from engine.tables.table_data import TableData
from parts.common.errors import UserError
from parts.write.block_preparation import PartitionBlock
from parts.write.constraint_checks import check_constraints


class NullTable(SmallTable):
    lacks = frozenset({"partitioning", "mutations", "optimize", "truncate", "check"})

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        return NullInsert(self, options)


class ProxyTable(NullTable):
    """Statements that read and write it go to the other tables (``engine.interpreter.shards``)."""

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        raise UserError("NOT_IMPLEMENTED", f"Method write is not supported by storage {self.definition.engine_name}")


class NullInsert(InsertSink):
    """Counts the rows, in whichever process."""

    def __init__(self, table: TableData, options: InsertOptions) -> None:
        super().__init__(table, options)
        self._outcome = InsertOutcome()

    def write(self, block: pa.Table, token: str = "") -> None:
        check_constraints(block, self.description, self.table.definition.full_name)
        self.write_pieces(block, ())

    def identified(self, block: pa.Table, token: str = "") -> list[Piece]:
        check_constraints(block, self.description, self.table.definition.full_name)
        return [Piece(PartitionBlock("all", (), block), "")]

    def write_pieces(self, block: pa.Table, pieces: Sequence[Piece]) -> None:
        self._outcome.written_rows += block.num_rows
        self._outcome.written_bytes += block.nbytes

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        return self._outcome
