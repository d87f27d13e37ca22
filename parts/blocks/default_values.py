"""Columns of default values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, TupleType


def type_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """Returns ``rows`` times the default value of the type."""
    return pa.chunked_array([_defaults(type_, rows, is_omitted=False)])


def column_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """Returns ``rows`` times the value of a column that has no DEFAULT.

    It is the value where an INSERT or a part does not have the column.

    For Date32 it is its first day, as in ClickHouse, not the epoch.
    """
    return pa.chunked_array([_defaults(type_, rows, is_omitted=True)])


def _defaults(type_: DataType, rows: int, *, is_omitted: bool) -> pa.Array:
    match type_:
        case LowCardinalityType(inner) if not inner.is_nullable:
            places = pa.array(np.zeros(rows, np.int32))
            return pa.DictionaryArray.from_arrays(places, _defaults(inner, 1, is_omitted=is_omitted))
        case MapType(key, value):
            places, none = pa.array(np.zeros(rows + 1, np.int32)), (pa.nulls(0, key.arrow), pa.nulls(0, value.arrow))
            return pa.MapArray.from_arrays(places, *none, type=type_.arrow)
        case ArrayType(inner):
            places = pa.array(np.zeros(rows + 1, np.int32))
            return pa.ListArray.from_arrays(places, pa.nulls(0, inner.arrow), type=type_.arrow)
        case TupleType(elements):
            children = [_defaults(inner, rows, is_omitted=is_omitted) for _, inner in elements]
            return pa.StructArray.from_arrays(children, fields=list(type_.arrow))
    if type_.is_nullable:
        return pa.nulls(rows, type_.arrow)
    default = type_.omitted_value if is_omitted else type_.default
    return pa.array([default], type_.arrow).take(pa.array(np.zeros(rows, np.int64)))
