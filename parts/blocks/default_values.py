"""Columns of default values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.types import ArrayType, DataType, Date32Type, LowCardinalityType, MapType, TupleType

_EPOCH, _FIRST_DAY = 0, -25_567
"""1970-01-01 and 1900-01-01 as a Date32."""


def type_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """Returns ``rows`` times the default value of the type."""
    return pa.chunked_array([_defaults(type_, rows, _EPOCH)])


def column_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """Returns ``rows`` times the value of a column without DEFAULT where an INSERT or a part does not have it.

    For Date32 it is its first day, as in ClickHouse, not the epoch.
    """
    return pa.chunked_array([_defaults(type_, rows, _FIRST_DAY)])


def _defaults(type_: DataType, rows: int, date32: int) -> pa.Array:
    match type_:
        case LowCardinalityType(inner) if not inner.is_nullable:
            places = pa.array(np.zeros(rows, np.int32))
            return pa.DictionaryArray.from_arrays(places, _defaults(inner, 1, date32))
        case MapType(key, value):
            places, none = pa.array(np.zeros(rows + 1, np.int32)), (pa.nulls(0, key.arrow), pa.nulls(0, value.arrow))
            return pa.MapArray.from_arrays(places, *none, type=type_.arrow)
        case ArrayType(inner):
            places = pa.array(np.zeros(rows + 1, np.int32))
            return pa.ListArray.from_arrays(places, pa.nulls(0, inner.arrow), type=type_.arrow)
        case TupleType(elements):
            children = [_defaults(inner, rows, date32) for _, inner in elements]
            return pa.StructArray.from_arrays(children, fields=list(type_.arrow))
    if type_.is_nullable:
        return pa.nulls(rows, type_.arrow)
    default = date32 if isinstance(type_, Date32Type) else type_.default
    return pa.array([default], type_.arrow).take(pa.array(np.zeros(rows, np.int64)))
