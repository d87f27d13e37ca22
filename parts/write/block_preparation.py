"""Prepare blocks for parts: check them against the schema, split them by partition, sort them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.partition_ids import compute_partition_id, group_rows_by_key
from parts.blocks.sort_order import compute_sort_permutation
from parts.common.errors import UserError
from parts.common.thread_pool import map_parallel
from parts.format.array_file import to_plain_array
from parts.table.table_description import Key, TableDescription, TableSchema

_PARALLEL_ROWS = 20_000
_EVEN_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class PartitionBlock:
    """The rows of a block that belong to one partition, and its partition key's values as Arrow scalars."""

    partition_id: str
    values: tuple[pa.Scalar, ...]
    block: pa.Table


def conform_block(block: pa.Table, schema: TableSchema) -> pa.Table:
    """Returns the stored columns in the schema's order. Raises ``UserError`` 10 or 53 for a misfit."""
    stored = schema.stored
    columns = []
    for column in stored.columns:
        position = block.schema.get_field_index(column.name)
        if position < 0:
            raise UserError(
                "NOT_FOUND_COLUMN_IN_BLOCK", f"Column {column.name!r} is not in the block of {block.column_names}"
            )
        values = block.column(position)
        if values.type != column.type.arrow:
            raise UserError(
                "TYPE_MISMATCH",
                f"Column {column.name!r} of type {column.type} is stored as {column.type.arrow}, given {values.type}",
            )
        if values.null_count and not column.type.is_nullable:
            raise UserError("TYPE_MISMATCH", f"Column {column.name!r} of type {column.type} cannot hold NULL")
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=stored.arrow)


def split_by_partition(block: pa.Table, description: TableDescription) -> list[PartitionBlock]:
    """Returns a block for each partition, in order of first appearance; rows keep their order."""
    if not block.num_rows:
        return []
    key = description.partition_key
    if not key:
        return [PartitionBlock("all", (), block)]
    arrays = key.evaluate(block)
    groups = group_rows_by_key(arrays, block.num_rows)
    if groups is None:
        return [_partition(block, arrays, 0, key)]
    return [_partition(take_rows(block, rows), arrays, int(rows[0]), key) for rows in groups]


def get_partition_values(arrays: list[pa.ChunkedArray], row: int, key: Key) -> tuple[pa.Scalar, ...]:
    """Returns the plain scalars of the partition key at one row."""
    return tuple(to_plain_array(array.slice(row, 1), type_)[0] for array, type_ in zip(arrays, key.types, strict=True))


def _partition(block: pa.Table, arrays: list[pa.ChunkedArray], row: int, key: Key) -> PartitionBlock:
    values = get_partition_values(arrays, row, key)
    return PartitionBlock(compute_partition_id(values, key.types), values, block)


def sort_block(block: pa.Table, description: TableDescription) -> pa.Table:
    """Returns the block in sorting-key order (stable); the same object when it is in order already."""
    return sort_block_by_key(block, description.sorting_key)


def sort_block_by_key(block: pa.Table, key: Key) -> pa.Table:
    """Returns the block in the order of ``key`` (stable)."""
    if not key or block.num_rows < 2:
        return block
    order = compute_sort_permutation(key.evaluate(block), block.num_rows)
    return block if order is None else take_rows(block, order)


def take_rows(block: pa.Table, rows: np.ndarray) -> pa.Table:
    """Returns ``block.take(rows)``, computed with one job per column. Row numbers are not checked."""
    indices = pa.array(rows.astype(np.uint32) if block.num_rows < 1 << 32 else rows)
    if len(rows) < _PARALLEL_ROWS:
        return block.take(indices)

    def take(column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Takes the rows of one column."""
        if column.num_chunks > 1 and pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        if column.num_chunks > 1:  # one gather is faster than one a chunk
            column = column.combine_chunks()
        array = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else column
        taken = _take_even_texts(array, rows)
        return pc.take(array, indices, boundscheck=False) if taken is None else taken

    columns = map_parallel(take, block.columns)
    columns = [c if isinstance(c, pa.ChunkedArray) else pa.chunked_array([c]) for c in columns]
    return pa.Table.from_arrays(columns, schema=block.schema)


def _take_even_texts(array: pa.Array | pa.ChunkedArray, rows: np.ndarray) -> pa.Array | None:
    """Takes short strings of equal length as fixed-width values, which is faster; ``None`` for others."""
    if not isinstance(array, pa.StringArray) or array.null_count:
        return None
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    width = int(offsets[1]) - int(offsets[0])
    dtype = _EVEN_WIDTHS.get(width)
    if dtype is None or int(offsets[-1]) - int(offsets[0]) != width * len(array) or (np.diff(offsets) != width).any():
        return None
    texts = np.frombuffer(array.buffers()[2], dtype, len(array), int(offsets[0]))
    taken = pa.py_buffer(np.take(texts, rows))
    even = pa.py_buffer(np.arange(0, width * len(rows) + 1, width, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(rows), [None, even, taken])
