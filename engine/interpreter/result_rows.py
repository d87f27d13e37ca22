"""Makes small results from rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.queries.session import QueryResult
from parts.types import DataType, IntegerType, StringType

STRING = StringType()
UINT8 = IntegerType(8, signed=False)


def make_result(columns: list[tuple[str, DataType]], rows: list[tuple[object, ...]]) -> QueryResult:
    """Returns a result of these rows."""
    return QueryResult(columns=tuple(columns), batches=iter([make_batch(columns, rows)] if rows else []))


def make_batch(columns: Sequence[tuple[str, DataType]], rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    """Returns a batch of these rows."""
    arrays = [pa.array([row[index] for row in rows], type_.arrow) for index, (_, type_) in enumerate(columns)]
    schema = pa.schema([pa.field(name, type_.arrow, type_.is_nullable) for name, type_ in columns])
    return pa.record_batch(arrays, schema=schema)
