"""Stands in for an Arrow table in DuckDB: a scan that is read only when DuckDB asks for columns.

Of a table DuckDB asks the number of rows when it orders joins, and selects columns before it reads them. Of a stream it
asks neither. So a statement would read all that it names (``EXISTS (SELECT *)`` is all columns), and the larger side of
a join might be hashed. DuckDB asks only instances of ``pyarrow.Table``. It applies filters itself.

Invariant: DuckDB calls only the methods defined here, since there is no table behind them. If it skips one the result
stays right: without ``select`` all columns come, without ``len`` it orders joins as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa


class ScanSource(Protocol):
    """Rows that a query may read."""

    schema: pa.Schema

    @property
    def expected_rows(self) -> int:
        """The approximate number of rows."""

    def stream(self, columns: Sequence[int]) -> pa.RecordBatchReader:
        """Returns a new stream of all rows; ``columns`` are positions in the schema."""


class ScanTable(pa.Table):
    """Stands for the scan of whichever query runs (``scanned``). Its schema never changes."""

    def __init__(self, schema: pa.Schema) -> None:  # no super().__init__: pyarrow forbids it
        self._schema = schema
        self.scanned: ScanSource | None = None

    def __len__(self) -> int:
        return 0 if self.scanned is None else self.scanned.expected_rows

    def select(self, columns: Sequence[int]) -> _SelectedColumns:
        """Returns these columns, to be read as a stream."""
        return _SelectedColumns(self, columns)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _SelectedColumns(self, range(len(self._schema))).__arrow_c_stream__()


class _SelectedColumns:
    def __init__(self, table: ScanTable, columns: Sequence[int]) -> None:
        self._table = table
        self._columns = columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self._table.scanned is not None
        return self._table.scanned.stream(self._columns).__arrow_c_stream__()
