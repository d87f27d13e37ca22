"""Hashes of values and substrings, vectorised. Stored in files, so they never change.

A value of fixed width is hashed by mixing its 64-bit words. A string is hashed as a polynomial of its bytes, so that
with the running sums of a column's bytes the hash of any substring is one subtraction. A long substring is hashed alone
(XXH3-64).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from parts.format.flat_arrays import get_fixed_width_buffer

_FACTOR = 0x9E3779B97F4A7C15  # odd: it has an inverse
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LONG_BYTES = 1 << 16
_BYTES_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class RowHashes:
    """The hashes of all rows, one after the other. Those of row ``i`` end before ``ends[i + 1]``."""

    numbers: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class RowTexts:
    """The strings of all rows: bytes, begin and end of each.

    Those of row ``i`` end before ``ends[i + 1]``.
    """

    data: np.ndarray
    begins: np.ndarray
    stops: np.ndarray
    ends: np.ndarray


def mix_bits(numbers: np.ndarray) -> np.ndarray:
    """Mixes the bits of each number (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX_1
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX_2
    return numbers ^ (numbers >> np.uint64(31))


def hash_values(array: pa.Array) -> RowHashes:
    """Returns the hashes of values, or of arrays of values. NULL has none."""
    values, ends = _elements(array)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        begins, stops, data = _places(values)
        return RowHashes(hash_substrings(data, begins, stops), ends)
    return RowHashes(_hash_words(values), ends)


def get_row_texts(array: pa.Array) -> RowTexts:
    """Returns the strings of a column of strings, or of arrays of strings."""
    values, ends = _elements(array)
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    begins, stops, data = _places(values)
    return RowTexts(data, begins, stops, ends)


def hash_substrings(data: np.ndarray, begins: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Returns the hashes of substrings of ``data``, whose begins are sorted."""
    result = np.empty(len(begins), np.uint64)
    long = np.flatnonzero(stops - begins > _LONG_BYTES)
    first = 0
    for cut in [*long.tolist(), len(begins)]:
        _hash_short(data, begins, stops, first, cut, result)
        if cut < len(begins):
            result[cut] = xxhash.xxh3_64_intdigest(data[begins[cut] : stops[cut]].tobytes())
        first = cut + 1
    return result


def _hash_short(
    data: np.ndarray, begins: np.ndarray, stops: np.ndarray, first: int, last: int, result: np.ndarray
) -> None:
    """Hashes as many substrings at once as fit the processor's cache."""
    while first < last:
        origin = int(begins[first])
        until = max(first + 1, int(np.searchsorted(begins[first:last], origin + _BYTES_AT_ONCE)) + first)
        chosen = slice(first, until)
        end = int(stops[chosen].max())
        powers, inverses = _powers()
        piece = data[origin:end]
        sums = np.empty(len(piece) + 1, np.uint64)
        sums[0] = 0
        # One is added so that bytes of zero count.
        np.cumsum((piece.astype(np.uint64) + np.uint64(1)) * powers[: len(piece)], out=sums[1:])
        begin = begins[chosen] - origin
        polynomial = (sums[stops[chosen] - origin] - sums[begin]) * inverses[begin]
        result[chosen] = mix_bits(polynomial)
        first = until


@functools.cache
def _powers() -> tuple[np.ndarray, np.ndarray]:
    count = _BYTES_AT_ONCE + _LONG_BYTES + 1
    both = []
    for factor in (_FACTOR, _INVERSE):
        factors = np.full(count, factor, np.uint64)
        factors[0] = 1
        both.append(np.cumprod(factors, dtype=np.uint64))
    return both[0], both[1]


def _elements(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Returns the values that are not NULL, and the ends of each row's values among them, from 0 on."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_list(array.type):
        offsets = array.offsets.to_numpy()
        values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        ends = offsets.astype(np.int64) - int(offsets[0])
    else:
        values, ends = array, np.arange(len(array) + 1)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        counted = np.concatenate(([0], np.cumsum(values.is_valid().to_numpy(zero_copy_only=False))))
        values, ends = values.drop_null(), counted[ends]
    return values, ends


def _places(values: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns begins, ends and bytes of strings without NULL."""
    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
    return places[:-1], places[1:], np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _hash_words(values: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if not len(values):
        return np.zeros(0, np.uint64)
    width = values.type.bit_width // 8
    raw = np.frombuffer(get_fixed_width_buffer(values), np.uint8).reshape(len(values), width)
    if pa.types.is_floating(values.type):
        numbers = raw.view(f"<f{width}")[:, 0] + 0.0  # -0.0 equals 0.0
        raw = numbers.astype(f"<f{width}").view(np.uint8).reshape(len(values), width)
    if width in (1, 2, 4, 8):
        return mix_bits(raw.view(f"<u{width}")[:, 0].astype(np.uint64) + np.uint64(_FACTOR))
    words = -(-width // 8)
    padded = np.zeros((len(values), 8 * words), np.uint8)
    padded[:, :width] = raw
    columns = padded.view("<u8")
    result = mix_bits(columns[:, 0] + np.uint64(_FACTOR))
    for number in range(1, words):
        result = mix_bits(result ^ columns[:, number])
    return result
