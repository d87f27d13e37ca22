"""Strings that repeat from row to row, as dictionaries of their runs: DuckDB groups, counts, compares and matches a
value of a dictionary once a batch.

Columns of the table's key, and what follows from them, come in long runs. That they do shows in their size on disk.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sql.pruning.pruned_part import PrunedPart

RUNS = pa.dictionary(pa.int32(), pa.string())
_ROWS_PER_BYTE = 8
"""A column of which a byte on disk holds so many rows is of long runs."""
_MOST_LENGTHS = 256
"""Of neighbouring runs in a batch."""
_FEW_RUNS = 200


def is_in_runs(name: str, parts: Sequence[PrunedPart]) -> bool:
    """Whether the parts to read say so of a column of strings."""
    sizes = [pruned.part.column_sizes().get(name) for pruned in parts]
    stored_bytes = sum(size[0] for size in sizes if size is not None)
    rows = sum(pruned.part.rows for pruned in parts)
    return bool(sizes) and None not in sizes and stored_bytes * _ROWS_PER_BYTE < rows


def dictionary_of_runs(array: pa.Array) -> pa.DictionaryArray:
    """The same strings, as :data:`RUNS`. A value of several runs is in the dictionary as often."""
    starts = None if array.null_count else _starts(array)
    if starts is None:
        return array.dictionary_encode()
    lengths = np.diff(starts, append=len(array))
    indices = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(indices), array.take(pa.array(starts)), safe=False)


def _starts(array: pa.Array) -> np.ndarray | None:
    """The first row of every run; ``None`` when it would take long to find them."""
    rows = len(array)
    if not rows:
        return None
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, rows + 1, array.offset * 4)
    lengths = np.diff(offsets)
    cuts = [0, *(np.flatnonzero(lengths[1:] != lengths[:-1]) + 1).tolist(), rows]
    if len(cuts) > _MOST_LENGTHS:
        return None
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    is_start = np.zeros(rows, bool)
    is_start[cuts[:-1]] = True
    for begin, end in itertools.pairwise(cuts):
        length = int(lengths[begin])
        if length and end - begin > 1:  # strings of one length: each beside the one before
            some = text[offsets[begin] : offsets[end]]
            _mark_starts(some[length:] != some[:-length], length, is_start[begin + 1 : end])
    return np.flatnonzero(is_start)


def _mark_starts(differs: np.ndarray, length: int, is_start: np.ndarray) -> None:
    """``differs`` tells of every byte of the rows whether it is not that of the row before."""
    position = 0
    for _ in range(_FEW_RUNS):
        position += int(differs[position:].argmax()) if position < len(differs) else 0  # several times a search of all
        if position >= len(differs) or not differs[position]:
            return
        is_start[position // length] = True
        position += length - position % length
    is_start[np.flatnonzero(differs) // length] = True
