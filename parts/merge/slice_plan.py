"""Cut a merge into key ranges.

A *cut* is a row number in every source such that the rows before it, over all sources, have smaller keys than the rows
after it. Cuts lie before the first row with a pivot key, so rows with equal keys are never apart. Pivots come from the
sparse indexes, spaced by about ``target_rows``; the exact row is then searched in the one granule of each source that
can hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.blocks.sort_order import KeyCodes, encode_keys, less_than, pack_key_codes
from parts.format.array_file import to_plain_array
from parts.merge.source_reader import CHUNK_ROWS, SourceReader
from parts.read.key_mapping import map_primary_index
from parts.read.part_reader import Part
from parts.table.table_description import Key


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows ``begins[i]`` to ``ends[i] - 1`` of source i. With ``is_one_key`` all have the same key."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    is_one_key: bool = False

    @property
    def rows(self) -> int:
        """The rows of all sources."""
        return sum(self.ends) - sum(self.begins)


def plan_slices(sources: Sequence[Part], key: Key, target_rows: int) -> list[Slice]:
    """Returns slices in key order that together have every row once.

    A slice exceeds about ``target_rows`` only if a single key does; then it has no other key. Without a sorting key all
    rows have the same, empty one.
    """
    totals = tuple(source.rows for source in sources)
    start = tuple(0 for _ in sources)
    if not key or sum(totals) <= target_rows:
        return [Slice(start, totals, is_one_key=not key)] if any(totals) else []
    search = _CutSearch(sources, key, target_rows)
    slices: list[Slice] = []
    pivot: int | None = None
    for next_pivot in [*search.pivots(target_rows), None]:
        end = totals if next_pivot is None else search.cut(next_pivot, after=False)
        piece = Slice(start, end)
        if pivot is not None and piece.rows > 2 * target_rows:
            middle = search.cut(pivot, after=True)
            slices.append(Slice(start, middle, is_one_key=True))
            piece = Slice(middle, end)
        slices.append(piece)
        start, pivot = end, next_pivot
    return [piece for piece in slices if piece.rows]


class _CutSearch:
    """Finds cuts by the indexes of all sources, which are coded together once."""

    def __init__(self, sources: Sequence[Part], key: Key, target_rows: int) -> None:
        self._sources = sources
        self._key = key
        columns = list(dict.fromkeys(key.columns))
        # If a frame is cut only once, only one of its granules is read.
        chunk_rows = CHUNK_ROWS if target_rows * 2 < CHUNK_ROWS * len(sources) else 0
        self._rows = [  # with deleted rows, because cuts are positions in the part
            SourceReader(source, columns, len(sources), chunk_rows=chunk_rows, with_deleted=True) for source in sources
        ]
        self._filled = [i for i, source in enumerate(sources) if source.rows]
        indexes = [map_primary_index(sources[i], key) for i in self._filled]
        counts = [len(index.keys[0]) for index in indexes]
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._keys = [pa.chunked_array([index.keys[k] for index in indexes]) for k in range(len(key.types))]
        self._words = _packed(self._keys, sum(counts))

    def pivots(self, target_rows: int) -> list[int]:
        """Returns positions of index entries with different keys, in key order, about ``target_rows`` apart."""
        order = np.lexsort([word.codes for word in reversed(self._words)])
        weights = _weights(self._sources, self._filled)[order]
        before = np.cumsum(weights) - weights
        steps = np.arange(target_rows, int(weights.sum()), target_rows)
        pivots: list[int] = []
        for i in np.unique(np.searchsorted(before, steps)):
            if i < len(order) and (not pivots or self._codes(int(order[i])) != self._codes(pivots[-1])):
                pivots.append(int(order[i]))
        return pivots

    def cut(self, pivot: int, *, after: bool) -> tuple[int, ...]:
        """Returns for each source the first row whose key is not below the pivot, or (``after``) above it."""
        cut = [0] * len(self._sources)
        pivot_words = self._codes(pivot)
        pivot_key = [column.slice(pivot, 1) for column in self._keys]
        for position, source in enumerate(self._filled):
            part = slice(int(self._starts[position]), int(self._starts[position + 1]))
            before = _count_before([word.codes[part] for word in self._words], pivot_words, after)
            cut[source] = self._row_of(source, before, pivot_key, after)
        return tuple(cut)

    def _row_of(self, number: int, before: int, pivot: Sequence[pa.ChunkedArray], after: bool) -> int:
        """Returns the row of the cut in a source. ``before``: entries of its index before the cut."""
        source = self._sources[number]
        if before == 0:
            return 0
        if before > source.marks:
            return source.rows
        begin = (before - 1) * source.granularity  # before the cut; the next granule (or the end) is not
        block = self._rows[number].read(begin, min(begin + source.granularity, source.rows))
        rows, key = block.num_rows, self._key
        arrays = [to_plain_array(array, type_) for array, type_ in zip(key.evaluate(block), key.types, strict=True)]
        joined = [pa.chunked_array([array, *p.chunks]) for array, p in zip(arrays, pivot, strict=True)]
        words = _packed(joined, rows + 1)
        codes = [word.codes[:rows] for word in words]
        return begin + _count_before(codes, [word.codes[rows] for word in words], after)

    def _codes(self, entry: int) -> list[np.uint64]:
        return [word.codes[entry] for word in self._words]


def _count_before(words: Sequence[np.ndarray], pivot: Sequence[np.uint64], after: bool) -> int:
    """Returns the number of rows below the pivot, or (``after``) not above it."""
    if after:
        return len(words[0]) - int(np.count_nonzero(less_than(pivot, words)))
    return int(np.count_nonzero(less_than(words, pivot)))


def _packed(keys: Sequence[pa.ChunkedArray], rows: int) -> list[KeyCodes]:
    return pack_key_codes(encode_keys(keys, rows), rows)


def _weights(sources: Sequence[Part], filled: list[int]) -> np.ndarray:
    """Returns the rows that each index entry begins (the last entry of a source begins none)."""
    weights = []
    for i in filled:
        index = sources[i].primary_index
        rows = np.full(index.marks + 1, index.granularity)
        rows[-2] = index.granule_rows(index.marks - 1)
        rows[-1] = 0
        weights.append(rows)
    return np.concatenate(weights)
