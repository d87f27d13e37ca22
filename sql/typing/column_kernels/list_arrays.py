"""Arrow lists as one array of all values with offsets, and operations on all lists at once.

Questions about each list's values (how many, which first, in what order) are answered for all values at once, which lie
list by list. Equal values of a batch have equal *codes*, small integers. A list's number followed by the code makes a
*key*, so sorting or counting keys keeps the lists apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import text_offsets, validity_buffer

MAX_FLAGS = 64
_MAX_BITS = 63
_MAX_SPAN = 1 << 34
_DENSE_FACTOR = 8
"""Up to this many possible keys per actual key, an array of flags costs less than sorting."""


@dataclass(frozen=True)
class ListValues:
    """The ``values`` of all lists of ``given``; list ``i`` begins at ``offsets[i]``."""

    given: pa.Array
    values: pa.Array
    offsets: np.ndarray

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> np.ndarray:
        """The number of each value's list."""
        return repeat_positions(self.lengths).astype(np.int64)

    @cached_property
    def places(self) -> np.ndarray:
        """The position of each value in its list, from 0."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def counts(self, found: np.ndarray) -> np.ndarray:
        """Returns how many values of each list are ``found``."""
        counted = np.zeros(len(found) + 1, np.int32)
        np.cumsum(found, out=counted[1:])
        return counted[self.offsets[1:]] - counted[self.offsets[:-1]]

    def where(self, kept: np.ndarray) -> pa.Array:
        """Returns lists of the values that are kept."""
        if kept.all():
            return self.like(self.values)
        return self.like(self.values.filter(pa.array(kept)), self.counts(kept))

    def between(self, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Returns lists of the values between two positions of each list."""
        lengths = np.maximum(ends - begins, 0)
        offsets = _offsets(lengths)
        numbers = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1] + begins - offsets[:-1], lengths)
        return self.like(self.values.take(pa.array(numbers)), lengths)

    def flags(self, coded: np.ndarray, most: int) -> np.ndarray:
        """Returns one integer a list, with the bits of the codes of its values set.

        All codes are below ``most``, which is at most ``MAX_FLAGS``.
        """
        kind = next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64) if most <= np.dtype(kind).itemsize * 8)
        some = self.lengths > 0
        result = np.zeros(len(self.given), kind)
        if some.any():
            bits = np.left_shift(kind(1), coded.astype(kind))
            result[some] = np.bitwise_or.reduceat(bits, self.offsets[:-1][some])
        return result

    def like(self, values: pa.Array, lengths: np.ndarray | None = None) -> pa.Array:
        """Returns lists of these values, as long as ``given`` or of ``lengths``, NULL where ``given`` is."""
        offsets = self.offsets if lengths is None else _offsets(lengths)
        parts = [self._nulls, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(pa.list_(values.type), len(self.given), parts, children=[values])

    def column(self, values: np.ndarray, type_: pa.DataType) -> pa.Array:
        """Returns one value of fixed width for each list, NULL where ``given`` is NULL."""
        if pa.types.is_boolean(type_):
            data = pa.py_buffer(np.packbits(values, bitorder="little"))
        else:
            data = pa.py_buffer(np.ascontiguousarray(values.astype(type_.to_pandas_dtype(), copy=False)))
        return pa.Array.from_buffers(type_, len(values), [self._nulls, data])

    @property
    def _nulls(self) -> pa.Buffer | None:
        return validity_buffer(np.asarray(pc.is_valid(self.given))) if self.given.null_count else None


def _offsets(lengths: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def repeat_positions(lengths: np.ndarray) -> np.ndarray:
    """Repeats each position as often as ``lengths`` says.

    Narrow integers are repeated in a third of the time of wide ones.
    """
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def build_lists(given: pa.Array) -> ListValues:
    """Takes an Arrow list array apart."""
    offsets = text_offsets(given).astype(np.int64) if len(given) else np.zeros(1, np.int64)
    first = int(offsets[0])
    return ListValues(given, given.values.slice(first, int(offsets[-1]) - first), offsets - first)


def repeated(elements: pa.Array, rows: int) -> pa.Array:
    """Returns the same list for each row."""
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(len(elements)))
    places = np.tile(np.arange(len(elements)), rows)
    return pa.ListArray.from_arrays(offsets, elements.take(pa.array(places)))


def interleave(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    """Returns one value of each piece for the first row, then for the next row, and so on.

    A piece with a single value serves for all rows.
    """
    if len(pieces) == 1 and len(pieces[0]) == rows:
        return pieces[0]
    begins = np.cumsum([0, *(len(piece) for piece in pieces)])[:-1]
    every = [np.arange(rows) if len(piece) == rows else np.zeros(rows, np.int64) for piece in pieces]
    places = np.column_stack(every) + begins
    return pa.concat_arrays(list(pieces)).take(pa.array(places.ravel()))


def value_codes(arrays: Sequence[pa.Array], *, ranked: bool = False) -> tuple[list[np.ndarray], int]:
    """Returns the codes of the values of arrays of one type, and a bound above them all.

    With ``ranked`` the codes follow the order of the values. NULL has the greatest code.
    """
    whole = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    nulls = np.asarray(pc.is_null(whole)) if whole.null_count else None
    coded, most = _distance_codes(whole) or _dictionary_codes(whole, ranked)
    if nulls is not None:
        coded = np.where(nulls, most, coded)
        most += 1
    ends = np.cumsum([len(array) for array in arrays])[:-1]
    return np.split(coded, ends), most


def are_far_apart(arrays: Sequence[pa.Array]) -> bool:
    """Tells whether all values are integers without NULLs, too far apart to serve as codes."""
    if not all(pa.types.is_integer(array.type) and not array.null_count for array in arrays):
        return False
    bounds = [pc.min_max(array) for array in arrays if len(array)]
    return bool(bounds) and _value_span(bounds) > _MAX_SPAN


def _value_span(bounds: Sequence[pa.Scalar]) -> int:
    return max(both["max"].as_py() for both in bounds) - min(both["min"].as_py() for both in bounds) + 1


def _distance_codes(whole: pa.Array) -> tuple[np.ndarray, int] | None:
    """Returns the distances of integers from the least one as codes, unless they are too far apart."""
    if pa.types.is_date32(whole.type):
        whole = whole.view(pa.int32())
    if not pa.types.is_integer(whole.type):
        return None
    if whole.null_count == len(whole):
        return np.zeros(len(whole), np.int64), 1
    both = pc.min_max(whole)
    least, span = both["min"].as_py(), _value_span([both])
    if span > _MAX_SPAN:
        return None
    buffer, width = whole.buffers()[1], whole.type.bit_width // 8
    numbers = np.frombuffer(buffer, whole.type.to_pandas_dtype(), len(whole), whole.offset * width)
    if numbers.dtype == np.uint64:
        return (numbers - np.uint64(least)).astype(np.int64), span
    return numbers.astype(np.int64) - least, span


def _dictionary_codes(whole: pa.Array, ranked: bool) -> tuple[np.ndarray, int]:
    """Returns the positions of values among the distinct values as codes."""
    coded = whole.dictionary_encode()
    indices = np.asarray(coded.indices.fill_null(0) if coded.indices.null_count else coded.indices)
    most = max(1, len(coded.dictionary))
    if not ranked:
        return indices.astype(np.int64), most
    ranks = np.empty(most, np.int64)
    ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(coded.dictionary))
    return ranks[indices], most


def sort_keys(keys: np.ndarray, most: int) -> np.ndarray:
    """Returns the order of the keys; the sort is stable."""
    bits = len(keys).bit_length()
    return _sort_with_positions(keys, most, bits) & ((1 << bits) - 1)


def _sort_with_positions(keys: np.ndarray, most: int, bits: int) -> np.ndarray:
    """Returns the keys in order, each with its position in the low ``bits``; all are below ``most``.

    Plain integers are sorted several times as fast as integers with a payload.
    """
    packed = (_narrow_keys(keys, most, bits) << bits) | np.arange(len(keys))
    packed.sort()
    return packed


def _narrow_keys(keys: np.ndarray, most: int, bits: int) -> np.ndarray:
    """Returns the keys, or their ranks among all keys if ``bits`` more bits would not fit."""
    has_room = most.bit_length() + bits <= _MAX_BITS
    return keys if has_room else np.unique(keys, return_inverse=True)[1]


def first_occurrences(keys: np.ndarray, most: int) -> np.ndarray:
    """Tells which keys occur for the first time."""
    bits = len(keys).bit_length()
    packed = _sort_with_positions(keys, most, bits)
    ordered = packed >> bits
    is_new = np.diff(ordered, prepend=-1) != 0
    return _mark_positions(packed[is_new] & ((1 << bits) - 1), len(keys))


def first_shared_occurrences(keys: np.ndarray, others: np.ndarray, most: int) -> np.ndarray:
    """Tells which keys occur for the first time and also among ``others``."""
    both = np.concatenate([others, keys])
    bits = len(both).bit_length()
    is_own = np.arange(len(both)) >= len(others)
    packed = _sort_with_positions((_narrow_keys(both, most, bits + 1) << 1) | is_own, 0, bits)
    follows = np.flatnonzero(_follow_their_even(packed >> bits)) + 1
    return _mark_positions((packed[follows] & ((1 << bits) - 1)) - len(others), len(keys))


def _follow_their_even(ordered: np.ndarray) -> np.ndarray:
    """Tells which numbers but the first are odd and directly follow the even number below them."""
    return (np.diff(ordered) == 1) & (ordered[1:] & 1 == 1)


def _mark_positions(numbers: np.ndarray, count: int) -> np.ndarray:
    marked = np.zeros(count, bool)
    marked[numbers] = True
    return marked


def select_shared_keys(keys: np.ndarray, others: np.ndarray, most: int, *, missing: bool) -> np.ndarray:
    """Returns the other keys that occur in ``keys``, or do not if ``missing``; all are below ``most``."""
    if most <= _DENSE_FACTOR * (len(keys) + len(others)):
        return others[_mark_positions(keys, most)[others] != missing]
    ordered = np.concatenate([[-3], keys << 1, (others << 1) | 1])
    ordered.sort()
    found = np.diff(ordered) > 1 if missing else np.diff(ordered) == 1
    return ordered[1:][found & (ordered[1:] & 1 == 1)] >> 1
