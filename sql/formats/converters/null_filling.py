"""Makes default values of types, and puts them where a column has nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, TupleType

MISSING = "\0missing:"
"""Prefix of a block's helper column: true where a Nullable column was left out and takes its expression."""


def fill_nulls(given: pa.ChunkedArray | None, defaults: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces the nulls of ``given`` row by row by ``defaults``."""
    if given is None:
        return defaults
    if pa.types.is_dictionary(given.type):
        plain = pc.coalesce(given.cast(given.type.value_type), defaults.cast(defaults.type.value_type))
        return pc.dictionary_encode(plain)
    if not pa.types.is_nested(given.type):
        return pc.coalesce(given, defaults)
    both = pa.concat_arrays([combine_chunks(given), combine_chunks(defaults)])
    places = np.arange(len(given))
    holes = np.flatnonzero(np.asarray(pc.is_null(combine_chunks(given))))
    places[holes] += len(given)
    return pa.chunked_array([both.take(pa.array(places))])


def combine_chunks(values: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array."""
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)


def type_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """``rows`` times the default value of the type."""
    return pa.chunked_array([_defaults(type_, rows, is_omitted=False)])


def column_default(type_: DataType, rows: int) -> pa.ChunkedArray:
    """Returns ``rows`` times the value of a column without DEFAULT that an INSERT does not name.

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


def fill_where(given: pa.ChunkedArray, mask: pa.ChunkedArray, defaults: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces the rows of ``mask`` by ``defaults``; other nulls stay."""
    both = pa.concat_arrays([combine_chunks(given), combine_chunks(defaults)])
    places = np.arange(len(given))
    places[np.asarray(combine_chunks(mask))] += len(given)
    return pa.chunked_array([both.take(pa.array(places))])
