"""Turns Spark's Arrow batches into blocks to insert: cut at fixed rows, cast to the columns' types.

Where blocks are cut depends on the rows and the batches alone, never on time, so that a second attempt of a task cuts
the same blocks. A value that the column's type would change is an error with the column's name. Numbers are cast here.
The server, which knows the type, converts strings, times and composite values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import DataType, DecimalType, FloatType, IntegerType, strip_nullable
from spark_connector.python_source.lossless_values import check_lossless, is_number
from spark_connector.shared.type_mapping import TableColumn, has_nanoseconds


def cut_blocks(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """Yields tables of ``max_rows`` rows, the last one shorter.

    A batch that makes a table ``max_bytes`` ends it too.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, max_rows - rows)
            held.append(piece)
            rows, size, start = rows + piece.num_rows, size + piece.nbytes, start + piece.num_rows
            if rows == max_rows or size >= max_bytes:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def cast_to_table_types(block: pa.Table, columns: Sequence[TableColumn], *, allows_null: bool) -> pa.Table:
    """Returns the block with the columns' names and types.

    Raises ``UserError`` 53 for a NULL that the column cannot hold, 321 for a value that it would change.
    """
    arrays = []
    for array, column in zip(block.columns, columns, strict=True):
        if array.null_count and not column.type.is_nullable and not allows_null:
            raise UserError(
                "TYPE_MISMATCH",
                f"Column {column.name!r} of type {column.type} cannot hold NULL, and the data has {array.null_count}; "
                "fill them, or set 'setting.input_format_null_as_default' to 1 to write the column's default",
            )
        check_lossless(array, column.name, column.type)
        arrays.append(_cast_column(array, column))
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def encode_block(block: pa.Table) -> bytes:
    """Encodes the body of an INSERT … FORMAT ArrowStream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(block)
    return sink.getvalue().to_pybytes()


def _cast_column(array: pa.ChunkedArray, column: TableColumn) -> pa.ChunkedArray:
    if has_nanoseconds(column.type) and pa.types.is_integer(array.type):
        return array.cast(pa.timestamp("ns"))
    target = _find_target_type(column.type)
    if target is None or array.type == target or not is_number(array.type):
        return array
    return pc.cast(array, target)


def _find_target_type(type_: DataType) -> pa.DataType | None:
    type_ = strip_nullable(type_)
    return type_.arrow if isinstance(type_, (IntegerType, FloatType, DecimalType)) else None
