"""Scan kernels that find the position of a text in texts, in characters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.functions.strings.string_kernels import text_buffers
from sql.typing.column_kernels.kernels import find_needle, validity_buffer
from sql.typing.column_kernels.scannable import Compute

_SAMPLE_BYTES = 4096
_SPARSE_FACTOR = 32
_FIRST_START = -64
"""UTF-8 continuation bytes are below this as signed bytes."""


def find_character_position(needle: str, start: int | None, *, folds_case: bool) -> Compute:
    """Returns a kernel that finds the needle's first position in characters, from 1, or 0.

    The search begins at character ``start``, or at the one given by a second column if that is ``None``. With
    ``folds_case`` the texts are lowered first; the needle must be in lower case.
    """
    find = partial(_find_from if needle else _find_empty_from, needle)
    if folds_case and needle:
        return lambda texts, *starts: find(pc.utf8_lower(texts), *(starts or (start,)))
    return find if start is None else partial(find, start=start)


def _find_from(needle: str, texts: pa.Array, start: pa.Array | int) -> pa.Array:
    """Finds a needle that is not empty, as :func:`find_character_position` says."""
    own = needle.encode()
    offsets, data = text_buffers(texts)
    places = find_needle(data, own, np.bincount(data[:_SAMPLE_BYTES], minlength=256))
    rows = np.repeat(np.arange(len(texts)), np.diff(_count_before(places, offsets, len(data))))
    inside = places + len(own) <= offsets[rows + 1]
    places, rows = places[inside], rows[inside]
    numbers = places - offsets[rows]
    rest = np.flatnonzero(data.view(np.int8) < _FIRST_START)
    if len(rest):
        numbers -= _count_before(rest, places, len(data)) - _count_before(rest, offsets, len(data))[rows]
    numbers += 1
    if not isinstance(start, int) or start > 1:
        late = numbers >= (start if isinstance(start, int) else np.asarray(start.fill_null(0))[rows])
        numbers, rows = numbers[late], rows[late]
    found = np.zeros(len(texts), np.uint64)
    found[rows[::-1]] = numbers[::-1]  # the first one of a row stays
    return _build_column(found, texts, start)


def _count_before(marks: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Counts the marks before each place. Both are sorted, and the marks are below ``size``."""
    if len(marks) * _SPARSE_FACTOR < size:
        return np.searchsorted(marks, places)
    counted = np.zeros(size + 1, np.int32)
    counted[marks + 1] = 1
    np.cumsum(counted, out=counted)
    return counted[places]


def _find_empty_from(needle: str, texts: pa.Array, start: pa.Array | int) -> pa.Array:
    """Returns the positions of the empty needle, which is found everywhere, also at the end."""
    first = np.maximum(start if isinstance(start, int) else np.asarray(start.fill_null(0)).astype(np.int64), 1)
    if isinstance(start, int) and start <= 1:
        return _build_column(np.ones(len(texts), np.uint64), texts, start)
    lengths = np.asarray(pc.utf8_length(texts).fill_null(0))
    return _build_column(np.where(lengths + 1 >= first, first, 0).astype(np.uint64), texts, start)


def _build_column(values: np.ndarray, texts: pa.Array, start: pa.Array | int) -> pa.Array:
    """Builds a UInt64 column that is NULL where the texts or the starts are NULL."""
    given = [texts] if isinstance(start, int) else [texts, start]
    known = [np.asarray(pc.is_valid(array)) for array in given if array.null_count]
    nulls = validity_buffer(np.logical_and.reduce(known)) if known else None
    return pa.Array.from_buffers(pa.uint64(), len(values), [nulls, pa.py_buffer(values)])
