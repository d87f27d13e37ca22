"""Text columns read eight bytes at a time, so that few operations parse whole columns.

A word is a ``uint64`` whose lowest byte is the first character. The bytes of a word beyond its text are arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import text_bytes, text_offsets

BYTES = 8
_ZEROS = int.from_bytes(b"0" * BYTES, "little")
_SEVEN_BITS = 0x7676767676767676
"""Adding it to eight bytes sets the highest bit of every byte above 9."""
_HIGH = 0x8080808080808080
_LOW_OF = np.array([(1 << (8 * count)) - 1 for count in range(BYTES)] + [(1 << 64) - 1], np.uint64)
_PADDING = np.zeros(64, np.uint8)
"""Bytes before and after all texts; no access goes further."""
_POWERS = np.array([10**count for count in range(20)], np.uint64)


class TextColumn:
    """The texts of an array; ``rows`` are those that are not NULL, with ``begins`` and ``sizes``."""

    def __init__(self, array: pa.Array) -> None:
        offsets = text_offsets(array)
        first = int(offsets[0]) if len(array) else 0
        self.count = len(array)
        self.rows = np.flatnonzero(np.asarray(pc.is_valid(array))) if array.null_count else np.arange(len(array))
        self._data = np.concatenate([_PADDING, text_bytes(array)[first : int(offsets[-1])], _PADDING])
        self._words = np.ndarray(len(self._data) - BYTES + 1, "<u8", self._data, 0, (1,))
        self.begins = offsets[:-1][self.rows].astype(np.int64) + (len(_PADDING) - first)
        self.sizes = np.diff(offsets)[self.rows].astype(np.int64)

    @classmethod
    def select_by_first_byte(cls, array: pa.Array, is_first: np.ndarray) -> TextColumn:
        """Returns the texts whose first byte is in a set.

        In most columns these are all texts, or few; then only those are copied.
        """
        rows = rows_that_begin(array, is_first)
        if len(rows) == len(array):
            return cls(array)
        some = cls(array.take(pa.array(rows)))
        some.count, some.rows = len(array), rows
        return some

    def select_texts(self, which: np.ndarray) -> TextColumn:
        """Returns the texts for which ``which`` is true."""
        some = object.__new__(TextColumn)
        some.count, some._data, some._words = self.count, self._data, self._words
        some.rows, some.begins, some.sizes = self.rows[which], self.begins[which], self.sizes[which]
        return some

    def part(self, begin: np.ndarray, end: np.ndarray) -> TextColumn:
        """Returns the texts between two places; empty where the end lies before the beginning."""
        some = object.__new__(TextColumn)
        some.count, some._data, some._words, some.rows = self.count, self._data, self._words, self.rows
        some.begins, some.sizes = self.begins + begin, np.maximum(end - begin, 0)
        return some

    def places_of(self, byte: int) -> np.ndarray:
        """Returns the places of a byte, counted like ``begins``."""
        return np.flatnonzero(self._data == byte)

    def row_of(self, places: np.ndarray) -> np.ndarray:
        """Returns the text in which each place lies, -1 if in none."""
        if not len(self.begins):
            return np.full(len(places), -1)
        row = np.searchsorted(self.begins, places, side="right") - 1
        return np.where((row >= 0) & (places < self.begins[row] + self.sizes[row]), row, -1)

    def words(self, place: int) -> np.ndarray:
        """Returns the words from the character at ``place`` on."""
        return self._words[self.begins + place]  # ``take`` copies unaligned arrays, and takes twice as long

    def last_words(self, behind: int = 0) -> np.ndarray:
        """Returns the eight characters before the last ``behind``."""
        return self._words[self.begins + (self.sizes - (behind + BYTES))]

    def bytes_at(self, place: int) -> np.ndarray:
        """Returns the byte of each text at ``place``."""
        return self._data[self.begins + place]


def rows_that_begin(array: pa.Array, is_first: np.ndarray) -> np.ndarray:
    """Returns the rows of texts whose first byte is in a set."""
    offsets, data = text_offsets(array), text_bytes(array)
    if not len(data):
        return np.empty(0, np.int64)
    which = (offsets[1:] > offsets[:-1]) & is_first[data[np.minimum(offsets[:-1], len(data) - 1)]]
    if array.null_count:
        which &= np.asarray(pc.is_valid(array))
    return np.flatnonzero(which)


def compute_where_first_byte(
    texts: pa.Array, is_first: np.ndarray, compute: Callable[[pa.Array], pa.Array], *, may_take_all: bool = False
) -> pa.Array:
    """Computes only the texts whose first byte is in a set; others give NULL.

    ``may_take_all``: ``compute`` returns NULL for the others itself, so they need not be removed if they are few.
    """
    rows = rows_that_begin(texts, is_first)
    if len(rows) == len(texts) or (may_take_all and len(rows) * 2 > len(texts)):
        return compute(texts)
    places = np.full(len(texts), -1)
    places[rows] = np.arange(len(rows))
    return compute(texts.take(pa.array(rows))).take(pa.array(places, mask=places < 0))


def low_bytes(words: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
    """Returns the first ``counts`` characters, followed by zero bytes."""
    return words & _LOW_OF[counts]


def high_bytes(words: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the last ``counts`` characters, preceded by zero bytes."""
    return words & ~_LOW_OF[BYTES - counts]


def digit_values(words: np.ndarray) -> np.ndarray:
    """Returns digits as numbers, one in each byte."""
    return words ^ np.uint64(_ZEROS)


def are_digits(numbers: np.ndarray) -> np.ndarray:
    """Tells which words have no byte above 9."""
    return ((numbers + np.uint64(_SEVEN_BITS)) | numbers) & np.uint64(_HIGH) == 0


def eight_digit_values(numbers: np.ndarray) -> np.ndarray:
    """Returns the numbers that eight digits spell."""
    pairs = numbers * np.uint64(10) + (numbers >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    left = (pairs & mask) * np.uint64(0x000F424000000064)
    right = ((pairs >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return (left + right) >> np.uint64(32)


def two_digit_value(numbers: np.ndarray, place: int) -> np.ndarray:
    """Returns the numbers of the two digits at a place."""
    tens, ones = numbers >> np.uint64(8 * place), numbers >> np.uint64(8 * place + 8)
    return ((tens & np.uint64(15)) * np.uint64(10) + (ones & np.uint64(15))).astype(np.int64)


def parse_digits(texts: TextColumn, skipped: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parses texts of up to 20 digits, after ``skipped`` characters.

    Returns their values, whether these fit 64 bits, and which texts are such numbers.
    """
    sizes = texts.sizes - skipped
    value = np.zeros(len(sizes), np.uint64)
    is_number = (sizes > 0) & (sizes <= 20)
    fits = np.ones(len(sizes), bool)
    longest = int(sizes.max(initial=0))
    for behind in range(0, min(longest, 20), BYTES):
        numbers = digit_values(texts.last_words(behind))
        numbers = high_bytes(numbers, np.clip(sizes - behind, 0, BYTES))
        is_number &= are_digits(numbers)
        piece = eight_digit_values(numbers)
        if behind == 2 * BYTES:  # 1844 of these and 6744073709551615 are the largest number
            limit = np.uint64((1 << 64) - 1)
            fits = (piece < np.uint64(1844)) | ((piece == np.uint64(1844)) & (value <= limit % _POWERS[16]))
        value += piece * _POWERS[behind]
    return value, fits, is_number
