"""OPTIMIZE … DEDUPLICATE: of equal rows only the first stays, on top of another mode.

Source: ClickHouse documentation, "OPTIMIZE Statement".

Values are compared bit by bit: 0.0 and -0.0 differ, NaN equals itself. Every column becomes one or two uint64 words
that are equal when the values are, and rows are grouped on all words at once. Inside a slice the words of scalars are
exact codes, those of arrays and maps 128-bit hashes of element codes and positions. Over the blocks of one key a row is
represented by a 128-bit hash. 16 bytes are kept for each distinct row, as in ClickHouse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from parts.common.thread_pool import map_parallel
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.merge_mode import MergeMode, SortedRows

_PRIMES = (np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F))
_ScalarWords = Callable[[pa.Array], list[np.ndarray]]


@dataclass(frozen=True)
class Deduplicating(MergeMode):
    """Applies ``mode``, and removes rows that equal an earlier one in the columns ``by`` (empty: all).

    ``by`` contains the key.
    """

    mode: MergeMode
    by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.mode.name

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.mode.columns, *self.by)

    @property
    def slice_mode(self) -> MergeMode:
        return Deduplicating(self.mode.slice_mode, self.by)

    def reduce_across_slices(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        return self.mode.reduce_across_slices(blocks)

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Reduces by the other mode, and removes duplicates from its result."""
        block = self.mode.reduce(rows)
        return drop_duplicates(block, self._compared(block))

    def reduce_one_key(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Reduces by the other mode, and removes rows whose hash was seen before."""
        seen = _SeenRows()
        for block in self.mode.reduce_one_key(blocks):
            hashes = _row_hashes(block, self._compared(block))
            is_new = _first_of_each(hashes)
            is_new[is_new] = seen.add(*(half[is_new] for half in hashes))
            yield block.filter(pa.array(is_new))

    def _compared(self, block: pa.Table) -> Sequence[str]:
        return self.by or [name for name in block.column_names if name != BLOCK_NUMBER]


def drop_duplicates(block: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns the block without rows that equal an earlier one in all ``columns``, in order."""
    if block.num_rows < 2:
        return block
    first = _first_of_each(_column_words(block, columns, _codes))
    return block if first.all() else block.filter(pa.array(first))


def _first_of_each(words: Sequence[np.ndarray]) -> np.ndarray:
    """Returns a mask of the rows whose words differ from those of every earlier row."""
    import polars as pl  # takes 0.1 s

    frame = pl.DataFrame({str(i): word for i, word in enumerate(words)})
    return np.array(frame.select(pl.struct(pl.all()).is_first_distinct()).to_series())


class _SeenRows:
    """A growing set of 128-bit hashes, sorted by their first half."""

    def __init__(self) -> None:
        self._first = np.empty(0, np.uint64)
        self._second = np.empty(0, np.uint64)

    def add(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Adds distinct hashes. Returns a mask of those that were not in the set before."""
        place = np.searchsorted(self._first, first)
        is_new = np.ones(len(first), np.bool_)
        inside = np.flatnonzero(place < len(self._first))
        found = place[inside]
        is_new[inside] = (self._first[found] != first[inside]) | (self._second[found] != second[inside])
        order = np.argsort(first[is_new])
        place = place[is_new][order]
        self._first = np.insert(self._first, place, first[is_new][order])
        self._second = np.insert(self._second, place, second[is_new][order])
        return is_new


def _row_hashes(block: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns 128 bits for every row, the same in every block."""
    words = _column_words(block, columns, _value_hashes)
    halves = []
    for seed, prime in enumerate(_PRIMES):
        mixed = np.full(block.num_rows, seed + 1, np.uint64)
        for number, word in enumerate(words):
            mixed = _mix(mixed ^ (word + np.uint64(number)), prime)
        halves.append(mixed)
    return halves[0], halves[1]


def _column_words(block: pa.Table, columns: Sequence[str], scalar_words: _ScalarWords) -> list[np.ndarray]:
    arrays = [block.column(name).combine_chunks() for name in columns]
    arrays = [a if isinstance(a, pa.Array) else pa.concat_arrays(a.chunks) for a in arrays]
    return [word for group in map_parallel(lambda a: _words(a, scalar_words), arrays) for word in group]


def _codes(array: pa.Array) -> list[np.ndarray]:
    """Returns exact codes, comparable only within this array."""
    return [array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.uint64)]


def _value_hashes(array: pa.Array) -> list[np.ndarray]:
    """Returns two hashes of 64 bits, comparable everywhere in this process."""
    import polars as pl

    values = pl.Series(values=pl.from_arrow(array))
    return [values.hash(seed).to_numpy() for seed in (1, 2)]


def _words(array: pa.Array, scalar_words: _ScalarWords) -> list[np.ndarray]:
    type_ = array.type
    if pt.is_dictionary(type_):
        array = array.cast(type_.value_type)
        type_ = array.type
    if pt.is_struct(type_):
        return [word for i in range(type_.num_fields) for word in _words(array.field(i), scalar_words)]
    if pt.is_list(type_) or pt.is_map(type_):
        return _list_words(array, scalar_words)
    if pt.is_floating(type_):
        bits = pa.int64() if type_.bit_width == 64 else pa.int32()
        array = array.view(bits)
    return scalar_words(array)


def _list_words(array: pa.Array, scalar_words: _ScalarWords) -> list[np.ndarray]:
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    children = [array.keys, array.items] if pt.is_map(array.type) else [array.values]
    children = [child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) for child in children]
    offsets -= offsets[0]
    lengths = np.diff(offsets).astype(np.uint64)
    words = [word for child in children for word in _words(child, scalar_words)]
    position = np.arange(int(offsets[-1]), dtype=np.uint64) - np.repeat(offsets[:-1], np.diff(offsets)).astype(
        np.uint64
    )
    result = [lengths]
    for seed, prime in enumerate(_PRIMES):
        mixed = _mix(position + np.uint64(seed + 1), prime)
        for number, word in enumerate(words):
            mixed = _mix(mixed ^ (word + np.uint64(number)), prime)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])
        result.append(sums[offsets[1:]] - sums[offsets[:-1]])
    return result


def _mix(values: np.ndarray, prime: np.uint64) -> np.ndarray:
    values = (values ^ (values >> np.uint64(33))) * prime
    values = (values ^ (values >> np.uint64(29))) * _PRIMES[1]
    return values ^ (values >> np.uint64(32))
