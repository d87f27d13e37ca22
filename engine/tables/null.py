"""``Null``: takes any rows and has none."""

from __future__ import annotations

import pyarrow as pa

from engine.tables.insert_sink import InsertOutcome, InsertSink, TemporaryPart
from engine.tables.options import InsertOptions
from engine.tables.small_table import SmallTable
from engine.tables.table_data import TableData


class NullTable(SmallTable):
    lacks = frozenset({"partitioning", "mutations", "optimize", "truncate", "check"})

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        return NullInsert(self, options)


class NullInsert(InsertSink):
    """Counts the rows, in whichever process."""

    def __init__(self, table: TableData, options: InsertOptions) -> None:
        super().__init__(table, options)
        self._outcome = InsertOutcome()

    def write(self, block: pa.Table) -> None:
        self._outcome.written_rows += block.num_rows
        self._outcome.written_bytes += block.nbytes

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        return self._outcome
