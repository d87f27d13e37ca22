"""Puts default values where a column has nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def fill_where(given: pa.ChunkedArray, mask: pa.ChunkedArray, defaults: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces the rows of ``mask`` by ``defaults``; other nulls stay."""
    both = pa.concat_arrays([combine_chunks(given), combine_chunks(defaults)])
    places = np.arange(len(given))
    places[np.asarray(combine_chunks(mask))] += len(given)
    return pa.chunked_array([both.take(pa.array(places))])
