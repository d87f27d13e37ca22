"""Converts DuckDB's Arrow output to the storage types of ``parts.types``, without needless copies."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parts.format.flat_arrays import build_struct_array
from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, TupleType


def to_storage(array: pa.Array, type_: DataType) -> pa.Array:
    """Returns the array in the storage type of ``type_``."""
    target = type_.arrow
    if array.type.equals(target):
        return array
    if isinstance(type_, NullableType):
        return to_storage(array, type_.inner)
    if isinstance(type_, LowCardinalityType):
        values = array if not pa.types.is_dictionary(array.type) else array.dictionary_decode()
        return to_storage(values, type_.inner).dictionary_encode().cast(target)
    if isinstance(type_, ArrayType):
        return pa.ListArray.from_arrays(array.offsets, to_storage(array.values, type_.inner), type=target)
    if isinstance(type_, MapType):
        keys, items = array.values.flatten()
        keys, items = to_storage(keys, type_.key), to_storage(items, type_.value)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target)
    if isinstance(type_, TupleType):
        parts = [to_storage(part, inner) for part, (_, inner) in zip(array.flatten(), type_.elements, strict=False)]
        return build_struct_array(parts, target, len(array))
    if pa.types.is_null(target):
        return pa.nulls(len(array))
    return array.cast(target)


def storage_batch(batch: pa.RecordBatch, columns: Sequence[tuple[str, DataType]]) -> pa.RecordBatch:
    """Returns a batch of a result with its columns' names and storage types."""
    arrays = [to_storage(array, type_) for array, (_, type_) in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=storage_schema(columns))


def storage_table(table: pa.Table, columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """Returns a whole result with its columns' names and storage types."""
    batches = [storage_batch(batch, columns) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, storage_schema(columns))


def storage_schema(columns: Sequence[tuple[str, DataType]]) -> pa.Schema:
    """Returns the Arrow schema of a result."""
    return pa.schema(
        [
            pa.field(name, type_.arrow, nullable=type_.is_nullable or pa.types.is_null(type_.arrow))
            for name, type_ in columns
        ]
    )
