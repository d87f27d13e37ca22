"""Converts scanned Arrow batches to the types that Spark expects.

Columns that keep their type are not copied.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError

ConvertArray = Callable[[pa.Array, pa.DataType, bool], pa.Array]


def to_spark_batch(batch: pa.RecordBatch, schema: pa.Schema, *, truncates: bool = False) -> pa.RecordBatch:
    """Returns the batch's columns, in order, in the types of ``schema`` (Spark's Arrow schema).

    Raises ``UserError`` 70 for what would lose something; unless it ``truncates``, also nanoseconds.
    """
    return pa.RecordBatch.from_arrays(convert_columns(batch, schema, to_spark_array, truncates), schema=schema)


def convert_columns(batch: pa.RecordBatch, schema: pa.Schema, convert: ConvertArray, truncates: bool) -> list[pa.Array]:
    """Converts each column for the type that ``schema`` has for it. Raises as :func:`to_spark_batch`."""
    arrays = []
    for array, field in zip(batch.columns, schema, strict=True):
        try:
            arrays.append(convert(array, field.type, truncates))
        except pa.ArrowInvalid as error:
            advice = _advice(field.type) if "timestamp[us] would lose data" in str(error) else ""
            raise UserError(
                "CANNOT_CONVERT_TYPE", f"Column {field.name!r} cannot be read as {field.type}: {error}{advice}"
            ) from None
    return arrays


def to_spark_array(array: pa.Array, target: pa.DataType, truncates: bool = False) -> pa.Array:
    """Converts a column to a type of Spark's Arrow schema. Raises ``ArrowInvalid``."""
    source = array.type
    if source == target:
        return array
    if pa.types.is_dictionary(source):
        return to_spark_array(array.dictionary, target, truncates).take(array.indices)
    if pa.types.is_list(source):
        offsets, mask = _offsets(array)
        values = to_spark_array(array.flatten(), target.value_type, truncates)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    if pa.types.is_map(source):
        return _map(array, target, truncates)
    if pa.types.is_struct(source):
        children = [
            to_spark_array(child, target.field(index).type, truncates) for index, child in enumerate(array.flatten())
        ]
        return pa.StructArray.from_arrays(children, fields=list(target))
    if pa.types.is_fixed_size_binary(source) and pa.types.is_string(target):
        return pc.ascii_rtrim(pc.cast(pc.cast(array, pa.binary()), pa.string()), "\0")
    if pa.types.is_timestamp(source):
        return _instants(array, target, truncates)
    return pc.cast(array, target)


def _map(array: pa.Array, target: pa.DataType, truncates: bool) -> pa.Array:
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys = to_spark_array(array.keys.slice(start, end - start), target.key_type, truncates)
    values = to_spark_array(array.items.slice(start, end - start), target.item_type, truncates)
    return pa.MapArray.from_arrays(_offsets(array)[0], keys, values, type=target)


def _offsets(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Returns offsets from 0, and which lists are null (never, in ClickHouse's types)."""
    offsets = array.offsets
    return pc.subtract(offsets, offsets[0]), pc.is_null(array) if array.null_count else None


def _instants(array: pa.Array, target: pa.DataType, truncates: bool) -> pa.Array:
    """Converts UTC instants of any unit to microseconds, nanoseconds also to numbers or strings.

    Truncation rounds down, also before 1970.
    """
    if pa.types.is_integer(target):
        return array.cast(target)
    if pa.types.is_string(target):
        return pc.strftime(array, "%Y-%m-%d %H:%M:%SZ")
    if array.type.unit == "ns" and truncates:
        array = pc.floor_temporal(array, unit="microsecond")
    return pc.cast(array, pa.timestamp("us")).view(target)


def _advice(target: pa.DataType) -> str:
    choices = "'long' (since 1970), 'string' (in UTC) or 'truncate'" if pa.types.is_timestamp(target) else "'truncate'"
    return f". Spark's timestamps have microseconds: read it with the option 'nanoseconds' set to {choices}"
