"""Dropping rows that repeat an earlier row, vectorised.

Every column becomes one or two uint64 words that are equal when the values are (bits, not numbers: 0.0 and -0.0
differ, NaN equals itself); rows are then grouped on all words at once. Scalars are exact codes. Arrays and maps
become 128 bits of hash over element codes and positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.types as pt

from parts.pool import map_parallel

_PRIMES = (np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F))


def drop_duplicates(block: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The block without rows that equal an earlier one in all ``columns``; the first of each stays in its place."""
    if block.num_rows < 2:
        return block
    arrays = [block.column(name).combine_chunks() for name in columns]
    arrays = [a if isinstance(a, pa.Array) else pa.concat_arrays(a.chunks) for a in arrays]
    words = [word for group in map_parallel(_words, arrays) for word in group]
    frame = pl.DataFrame({str(i): word for i, word in enumerate(words)})
    first = frame.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    if first.all():
        return block
    return block.filter(pa.array(first.to_numpy()))


def _words(array: pa.Array) -> list[np.ndarray]:
    type_ = array.type
    if pt.is_dictionary(type_):
        array = array.cast(type_.value_type)
        type_ = array.type
    if pt.is_struct(type_):
        return [word for i in range(type_.num_fields) for word in _words(array.field(i))]
    if pt.is_list(type_) or pt.is_map(type_):
        return _list_words(array)
    if pt.is_floating(type_):
        bits = pa.int64() if type_.bit_width == 64 else pa.int32()
        array = array.view(bits)
    return [array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.uint64)]


def _list_words(array: pa.Array) -> list[np.ndarray]:
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    children = [array.keys, array.items] if pt.is_map(array.type) else [array.values]
    children = [child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) for child in children]
    offsets -= offsets[0]
    lengths = np.diff(offsets).astype(np.uint64)
    words = [word for child in children for word in _words(child)]
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
