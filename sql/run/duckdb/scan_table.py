"""What DuckDB takes for an Arrow table: a scan that has not been read, of which it says the columns it wants.

Of a table DuckDB asks the number of rows when it orders joins, and selects columns before it reads them; of a stream it
asks neither, so that a statement reads what it names (``EXISTS (SELECT *)`` is all columns) and the larger side of a
join may be hashed. Only an instance of ``pyarrow.Table`` is asked; its filters DuckDB applies itself.

Invariant: of what a table has, only the methods here are ever called: there is no table behind them. Whatever DuckDB
does not ask for, it gets: without ``select`` all columns come, without ``len`` it orders joins as it likes.
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
        """About so many come."""

    def stream(self, columns: Sequence[int]) -> pa.RecordBatchReader:
        """All rows anew; ``columns`` are positions in the schema."""


class ScanTable(pa.Table):
    """Stands for the scan of whichever query runs (``scanned``). Its schema never changes."""

    def __init__(self, schema: pa.Schema) -> None:  # no base: a table cannot be made so
        self._schema = schema
        self.scanned: ScanSource | None = None

    def __len__(self) -> int:
        return 0 if self.scanned is None else self.scanned.expected_rows

    def select(self, columns: Sequence[int]) -> _Selected:
        return _Selected(self, columns)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _Selected(self, range(len(self._schema))).__arrow_c_stream__()


class _Selected:
    def __init__(self, table: ScanTable, columns: Sequence[int]) -> None:
        self._table = table
        self._columns = columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self._table.scanned is not None
        return self._table.scanned.stream(self._columns).__arrow_c_stream__()
