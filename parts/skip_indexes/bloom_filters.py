"""bloom_filter, ngrambf_v1 and tokenbf_v1: bits that show which values a run cannot contain.

The size of a filter in bits depends on the number of distinct values in the run (bloom_filter), or is given by the
index. Value ``h`` sets the bits ``(s >> 32) · bits >> 32`` of the sums ``s = a + i · b`` modulo 2⁶⁴. Here i counts the
hashes from 0, and ``a`` and ``b`` are computed from ``h``.

``bits`` are the sizes of the filters, ``words`` their bits, as 64-bit numbers one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.skip_indexes.byte_ngrams import hash_byte_ngrams, hash_words
from parts.skip_indexes.minmax_index import NamedArrays, to_single_array
from parts.skip_indexes.value_hashes import RowHashes, get_row_texts, hash_values, mix_bits
from parts.table.table_description import SkipIndex
from parts.types import IntegerType

_NUMBER = IntegerType(64, False)
_WORD_BITS = 64
_RUN_BITS = 20
_HASH_BITS = 64 - _RUN_BITS
_KEPT = np.uint64((1 << _HASH_BITS) - 1)
_BITS_AT_ONCE = 1 << 26
_STEP = np.uint64(0xD1B54A32D192ED03)


def hash_for_index(index: SkipIndex, array: pa.Array) -> RowHashes:
    """Returns the hashes to look up in the index's filters for these values of a key."""
    if index.kind == "bloom_filter":
        return hash_values(array)
    texts = get_row_texts(array)
    if index.kind == "tokenbf_v1":
        return hash_words(texts)
    return hash_byte_ngrams(texts, int(index.arguments[0]))


@dataclass(frozen=True)
class FilterShape:
    """The parameters of a filter.

    ``bits_per_value`` is set if the size depends on the values, otherwise ``bits``.
    """

    hashes: int
    seed: int = 0
    bits: int = 0
    bits_per_value: float = 0.0

    @classmethod
    def from_index(cls, index: SkipIndex) -> FilterShape:
        """Returns the parameters of an index."""
        if index.kind == "bloom_filter":
            bits = -math.log(float(index.arguments[0])) / math.log(2) ** 2
            return cls(max(1, round(bits * math.log(2))), bits_per_value=bits)
        size, hashes, seed = map(int, index.arguments[-3:])
        return cls(hashes, seed, -(-8 * size // _WORD_BITS) * _WORD_BITS)

    def compute_bit_positions(self, numbers: np.ndarray, bits: np.ndarray | np.uint64) -> list[np.ndarray]:
        """Returns the bits of each number in a filter of this many bits."""
        numbers = (numbers >> np.uint64(_RUN_BITS)) ^ np.uint64(self.seed & (1 << 63) - 1)
        first, step = mix_bits(numbers), mix_bits(numbers ^ _STEP) | np.uint64(1)
        half = np.uint64(32)  # a product and a shift: a remainder takes several times as long
        return [(((first + np.uint64(turn) * step) >> half) * bits) >> half for turn in range(self.hashes)]


class BloomFilterIndex:
    """Summaries of type bloom_filter. Implements ``parts.skip_indexes.index_builder.RunIndexKind``.

    The distinct hashes of a run are kept until it ends.
    """

    def __init__(self, index: SkipIndex) -> None:
        self._shape = FilterShape.from_index(index)

    def summarize(self, arrays: list[pa.Array], cuts: np.ndarray) -> pa.Table:
        """Summarises the runs; one filter has the values of all keys."""
        runs = len(cuts) - 1
        assert runs < 1 << _RUN_BITS
        keyed = []
        for array in arrays:
            hashes = hash_values(array)
            owner = np.repeat(np.arange(runs, dtype=np.uint64), np.diff(hashes.ends[cuts]))
            keyed.append((owner << np.uint64(_HASH_BITS)) | (hashes.numbers >> np.uint64(_RUN_BITS)))
        different = _sort_distinct(keyed[0] if len(keyed) == 1 else np.concatenate(keyed))
        counts = np.bincount((different >> np.uint64(_HASH_BITS)).astype(np.int64), minlength=runs)
        return _lists(different & _KEPT, counts)

    def merge_runs(self, runs: pa.Table) -> pa.Table:
        different = _sort_distinct(to_single_array(runs["hashes"]).flatten().to_numpy())
        return _lists(different, np.array([len(different)]))

    def finish_runs(self, runs: pa.Table) -> pa.Table:
        lists = to_single_array(runs["hashes"])
        counts = np.diff(lists.offsets.to_numpy())
        bits = np.maximum(np.ceil(counts * self._shape.bits_per_value / _WORD_BITS), 1).astype(np.uint64) * np.uint64(
            _WORD_BITS
        )
        owner = np.repeat(np.arange(len(counts)), counts)
        base = np.concatenate(([0], np.cumsum(bits)[:-1])).astype(np.uint64)
        flags = np.zeros(int(bits.sum()), bool)
        for places in self._shape.compute_bit_positions(
            lists.flatten().to_numpy() << np.uint64(_RUN_BITS), bits[owner]
        ):
            flags[base[owner] + places] = True
        words = np.packbits(flags, bitorder="little").view("<u8")
        return pa.table({"bits": bits, "words": _listed(words, bits // np.uint64(_WORD_BITS))})

    def to_named_arrays(self, runs: pa.Table) -> NamedArrays:
        return _entries(runs)


class TextBloomFilterIndex:
    """Summaries of types ngrambf_v1 and tokenbf_v1. Implements ``RunIndexKind``."""

    def __init__(self, index: SkipIndex) -> None:
        self._index = index
        self._shape = FilterShape.from_index(index)

    def summarize(self, arrays: list[pa.Array], cuts: np.ndarray) -> pa.Table:
        runs, bits = len(cuts) - 1, self._shape.bits
        words = np.zeros((runs, bits // _WORD_BITS), "<u8")
        at_once = max(1, _BITS_AT_ONCE // bits)
        for array in arrays:
            for first in range(0, runs, at_once):
                last = min(runs, first + at_once)
                begin, end = int(cuts[first]), int(cuts[last])
                hashes = hash_for_index(self._index, array.slice(begin, end - begin))
                counts = np.diff(hashes.ends[cuts[first : last + 1] - begin])
                base = np.repeat(np.arange(last - first, dtype=np.uint64) * np.uint64(bits), counts)
                flags = np.zeros((last - first) * bits, bool)
                for places in self._shape.compute_bit_positions(hashes.numbers, np.uint64(bits)):
                    flags[base + places] = True
                words[first:last] |= np.packbits(flags, bitorder="little").view("<u8").reshape(last - first, -1)
        sizes = np.full(runs, bits, np.uint64)
        return pa.table({"bits": sizes, "words": _listed(words.reshape(-1), sizes // np.uint64(_WORD_BITS))})

    def merge_runs(self, runs: pa.Table) -> pa.Table:
        words = to_single_array(runs["words"]).flatten().to_numpy().reshape(runs.num_rows, -1)
        size = np.array([self._shape.bits], np.uint64)
        together = np.bitwise_or.reduce(words, axis=0)
        return pa.table({"bits": size, "words": _listed(together, size // np.uint64(_WORD_BITS))})

    def finish_runs(self, runs: pa.Table) -> pa.Table:
        return runs

    def to_named_arrays(self, runs: pa.Table) -> NamedArrays:
        return _entries(runs)


@dataclass(frozen=True)
class StoredFilters:
    """The filters of all runs of a part."""

    shape: FilterShape
    bits: np.ndarray
    bases: np.ndarray
    bytes: np.ndarray

    @classmethod
    def from_named_arrays(cls, index: SkipIndex, entries: NamedArrays) -> StoredFilters:
        """Decodes an index's entries."""
        (_, _, sizes), (_, _, words) = entries
        bits = sizes.to_numpy()
        bases = np.concatenate(([0], np.cumsum(bits)[:-1])).astype(np.uint64) if len(bits) else bits
        return cls(FilterShape.from_index(index), bits, bases, words.to_numpy().view(np.uint8))

    def may_contain(self, number: int) -> np.ndarray:
        """Returns for each run whether it may contain the value of this hash."""
        found = np.ones(len(self.bits), bool)
        for places in self.shape.compute_bit_positions(np.full(1, number, np.uint64), self.bits):
            flat = self.bases + places
            found &= (self.bytes[flat >> np.uint64(3)] >> (flat & np.uint64(7)).astype(np.uint8)) & 1 == 1
        return found


def _sort_distinct(numbers: np.ndarray) -> np.ndarray:
    """Returns the distinct numbers, sorted.

    NumPy's own ``unique`` of integers hashes them first, which takes several times as long.
    """
    numbers = np.sort(numbers)
    is_new = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]


def _lists(numbers: np.ndarray, counts: np.ndarray) -> pa.Table:
    return pa.table({"hashes": _listed(numbers, counts)})


def _listed(numbers: np.ndarray, counts: np.ndarray) -> pa.ListArray:
    offsets = np.concatenate(([0], np.cumsum(counts.astype(np.int64)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers))


def _entries(runs: pa.Table) -> NamedArrays:
    return [
        ("bits", _NUMBER, to_single_array(runs["bits"])),
        ("words", _NUMBER, to_single_array(runs["words"]).flatten()),
    ]
