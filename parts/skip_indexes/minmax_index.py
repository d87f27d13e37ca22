"""minmax: the least and the greatest value of every key in a run of granules.

NULL is left out; a run of only NULLs has no extremes. If a value is NaN both are NaN, and the run is never skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.format.array_file import to_plain_array
from parts.format.primary_index import get_plain_integers
from parts.table.table_description import SkipIndex
from parts.types import DataType, strip_low_cardinality

NamedArrays = Sequence[tuple[str, DataType, pa.Array]]


class MinMaxIndex:
    """Summaries of type minmax. Implements ``parts.skip_indexes.index_builder.RunIndexKind``."""

    def __init__(self, index: SkipIndex) -> None:
        self._types = index.key.types

    def summarize(self, arrays: list[pa.Array], cuts: np.ndarray) -> pa.Table:
        columns = {}
        for number, (array, type_) in enumerate(zip(arrays, self._types, strict=True)):
            low, high = _extremes(to_plain_array(array, type_), cuts)
            columns[f"{number}.low"], columns[f"{number}.high"] = low, high
        return pa.table(columns)

    def merge_runs(self, runs: pa.Table) -> pa.Table:
        columns = {}
        for name in runs.column_names:
            array = runs[name].combine_chunks()
            array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
            low, high = _extremes(array, np.array([0, len(array)]))
            columns[name] = low if name.endswith("low") else high
        return pa.table(columns)

    def finish_runs(self, runs: pa.Table) -> pa.Table:
        return runs

    def to_named_arrays(self, runs: pa.Table) -> NamedArrays:
        types = [type_ for type_ in self._types for _ in range(2)]
        return [
            (name, type_, to_plain_array(runs[name], type_))
            for name, type_ in zip(runs.column_names, types, strict=True)
        ]


def get_key_extremes(entries: NamedArrays, number: int) -> tuple[pa.Array, pa.Array]:
    """Returns the least and the greatest values of key ``number`` in every run."""
    return entries[2 * number][2], entries[2 * number + 1][2]


def _extremes(array: pa.Array, cuts: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """Returns the least and greatest value of each run. ``cuts``: where the runs begin and end."""
    numbers = get_plain_integers(array)
    if numbers is not None:
        ends = [reduce.reduceat(numbers, cuts[:-1]) for reduce in (np.minimum, np.maximum)]
        return tuple(pa.Array.from_buffers(array.type, len(end), [None, pa.py_buffer(end)]) for end in ends)
    if pa.types.is_floating(array.type) and not array.null_count:  # NumPy's extremes of NaN are NaN
        values = array.to_numpy()
        return pa.array(np.minimum.reduceat(values, cuts[:-1])), pa.array(np.maximum.reduceat(values, cuts[:-1]))
    runs = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    is_fixed = pa.types.is_fixed_size_binary(array.type)
    table = pa.table({"run": runs, "value": array.cast(pa.binary()) if is_fixed else array})
    found = table.group_by("run", use_threads=False).aggregate([("value", "min"), ("value", "max")])
    low, high = (to_single_array(found[name]).cast(array.type) for name in ("value_min", "value_max"))
    if pa.types.is_floating(array.type):
        has_nan = pc.is_nan(array).fill_null(False).to_numpy(zero_copy_only=False)
        unknown = pa.array(np.logical_or.reduceat(has_nan, cuts[:-1]))
        low, high = (pc.if_else(unknown, pa.scalar(float("nan"), array.type), end) for end in (low, high))
    return low, high


def to_single_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array, even without chunks."""
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def get_plain_types(index: SkipIndex) -> list[DataType]:
    """Returns the types of the keys in the file, without LowCardinality."""
    return [strip_low_cardinality(type_) for type_ in index.key.types]
