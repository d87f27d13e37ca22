"""Validates Arrow data from outside before any kernel sees it.

pyarrow trusts its arrays: an offset behind the end of the data makes a kernel read foreign memory or end the process.
So every batch from a client passes :func:`check_batch` first, which checks all offsets, lengths, dictionary indices and
strings, also nested ones. Types that nobody needs and that may grow without data (run-end encoding) are refused.
:mod:`ipc_messages` bounds what a compressed batch becomes before it is decompressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.common.thread_pool import map_parallel

MAX_BATCH_BYTES = 1 << 30
"""Bytes that one batch may have when its dictionaries are resolved."""
MAX_DEPTH = 64
_ROWS_FOR_THREADS = 50_000
_FREE_ROWS = 1 << 20
"""Rows that a batch may have without a byte of data (a column of nulls has none)."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_batch(batch: pa.RecordBatch, names: Sequence[str], format_name: str, first_row: int) -> pa.RecordBatch:
    """Returns the batch with only the columns of ``names``, all of them safe to use. Raises 117."""
    _check_row_count(batch, format_name)

    def checked(name: str) -> pa.Array:
        array = batch.column(name)
        _check_type(array.type, format_name, name)
        try:
            _without_encoding(array).validate(full=True)
        except pa.ArrowException as error:
            raise UserError(
                "INCORRECT_DATA",
                f"Malformed {format_name} data in column {name!r} behind row {first_row - 1}: {error}",
            ) from None
        return array

    return pa.RecordBatch.from_arrays(map_columns(checked, names, batch.num_rows), names=list(names))


def map_columns(work: Callable[[Item], Result], columns: Sequence[Item], rows: int) -> list[Result]:
    """Applies ``work`` to each column, on several threads where there are many rows."""
    return map_parallel(work, columns) if rows > _ROWS_FOR_THREADS else [work(column) for column in columns]


def _check_row_count(batch: pa.RecordBatch, format_name: str) -> None:
    """Raises 117 if the batch has too few bytes for its rows.

    Every row takes at least a bit in some column, unless there are only nulls.
    """
    if batch.num_rows > _FREE_ROWS and batch.num_rows > 8 * _held_bytes(batch) + _FREE_ROWS:
        raise UserError(
            "INCORRECT_DATA", f"Malformed {format_name} data: a batch says it has {batch.num_rows} rows but holds none"
        )


def _held_bytes(batch: pa.RecordBatch) -> int:
    return sum(buffer.size for array in batch.columns for buffer in array.buffers() if buffer is not None)


def check_schema(schema: pa.Schema, names: Sequence[str], format_name: str) -> None:
    """Raises 53 for a type that is not supported, 117 for too deep nesting."""
    for name in names:
        _check_type(schema.field(name).type, format_name, name)


def _check_type(type_: pa.DataType, format_name: str, column: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise UserError("INCORRECT_DATA", f"{format_name} column {column!r} is nested more than {MAX_DEPTH} deep")
    if pa.types.is_run_end_encoded(type_) or pa.types.is_union(type_):
        raise UserError("TYPE_MISMATCH", f"Cannot read Arrow type {type_} of {format_name} column {column!r}")
    if pa.types.is_decimal(type_) and not (0 < type_.precision <= 76 and abs(type_.scale) <= 76):
        raise UserError("INCORRECT_DATA", f"Malformed {format_name} data: column {column!r} is of type {type_}")
    if (pa.types.is_fixed_size_list(type_) and type_.list_size < 1) or (
        pa.types.is_fixed_size_binary(type_) and type_.byte_width < 1
    ):
        raise UserError("TYPE_MISMATCH", f"Cannot read Arrow type {type_} of {format_name} column {column!r}")
    if pa.types.is_dictionary(type_):
        _check_type(type_.value_type, format_name, column, depth + 1)
    for index in range(type_.num_fields):
        _check_type(type_.field(index).type, format_name, column, depth + 1)


def _without_encoding(array: pa.Array) -> pa.Array:
    """Returns strings as bytes; the reader checks UTF-8 later, and names the row."""
    if pa.types.is_string(array.type):
        kind = pa.binary()
    elif pa.types.is_large_string(array.type):
        kind = pa.large_binary()
    else:
        return array
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)


def split_by_bytes(batch: pa.RecordBatch, format_name: str) -> Iterator[pa.RecordBatch]:
    """Splits the rows into pieces below :data:`MAX_BATCH_BYTES` with resolved dictionaries.

    Raises 131 when a single value is larger.
    """
    step = batch.num_rows
    for array in batch.columns:
        if pa.types.is_dictionary(array.type) and len(array) and len(array.dictionary):
            step = min(step, MAX_BATCH_BYTES // max(_largest_bytes(array.dictionary, format_name), 1))
    for start in range(0, batch.num_rows, max(step, 1)):
        yield batch.slice(start, max(step, 1))
    if not batch.num_rows:
        yield batch


def _largest_bytes(values: pa.Array, format_name: str) -> int:
    """Returns the approximate size of the largest value."""
    if pa.types.is_nested(values.type) or pa.types.is_dictionary(values.type):
        return values.nbytes
    if values.type.num_buffers < 3 and not pa.types.is_string_view(values.type):
        return 16 if not pa.types.is_fixed_size_binary(values.type) else int(values.type.byte_width)
    largest = int(pc.max(pc.binary_length(values)).as_py() or 0)
    if largest > MAX_BATCH_BYTES:
        raise UserError("TOO_LARGE_STRING_SIZE", f"A value of {largest} bytes in {format_name} data is too large")
    return largest


def largest_dictionary_value_bytes(array: pa.Array, format_name: str) -> int:
    """Returns the size of the largest value in the column's dictionaries.

    Nested dictionaries count too; without any it is 0.
    """
    if pa.types.is_dictionary(array.type):
        return _largest_bytes(array.dictionary, format_name) if len(array.dictionary) else 0
    if pa.types.is_struct(array.type):
        children = [array.field(index) for index in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        children = [array.values]
    else:
        return 0
    return max((largest_dictionary_value_bytes(child, format_name) for child in children), default=0)
