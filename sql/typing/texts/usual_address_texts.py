"""Kernels that parse the usual spellings of IPv4 addresses and UUIDs, and pad FixedStrings.

A parser returns NULL for any other text; the macros for the rest are in ``sql.typing.texts.value_texts``. Texts come as
BLOBs, which DuckDB hands over in half the time (``encode`` costs nothing).
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import (
    Kernel,
    blob_column,
    nullable_column,
    text_bytes,
    text_offsets,
    texts_of_size,
)
from sql.typing.column_kernels.text_words import compute_where_first_byte

_DASH, _DOT = b"-."
_BEGINS_IPV4 = np.isin(np.arange(256), list(b"0123456789"))
_UUID_SIZE = 36

_DASHES = (8, 13, 18, 23)
_PAIR_VALUES = np.full(1 << 16, 256, np.uint16)
"""The value of two hexadecimal digits; 256 for other characters."""
for _high, _low in itertools.product("0123456789abcdefABCDEF", repeat=2):
    _PAIR_VALUES[int.from_bytes(f"{_high}{_low}".encode(), "little")] = int(_high + _low, 16)


def parse_uuids(texts: pa.Array) -> pa.Array:
    """Parses UUIDs with dashes as 16 bytes."""
    rows, spelled = texts_of_size(texts, _UUID_SIZE)
    digits = np.empty((len(rows), 32), np.uint8)
    for begin, end, place in ((0, 8, 0), (9, 13, 8), (14, 18, 12), (19, 23, 16), (24, 36, 20)):
        digits[:, place : place + end - begin] = spelled[:, begin:end]
    values = _PAIR_VALUES[digits.view("<u2")]
    right = np.logical_and.reduce([spelled[:, place] == _DASH for place in _DASHES])
    if values.max(initial=0) > 255:
        right &= (values < 256).all(axis=1)
    found = np.zeros((len(texts), 16), np.uint8)
    found[rows] = values
    known = np.zeros(len(texts), bool)
    known[rows] = right
    return blob_column(found, known)


def parse_ipv4(texts: pa.Array) -> pa.Array:
    """Parses four numbers up to 255, of one to three digits each."""
    return compute_where_first_byte(texts, _BEGINS_IPV4, _parse_ipv4_numbers)


def _parse_ipv4_numbers(texts: pa.Array) -> pa.Array:
    """Parses texts that begin with a digit as IPv4 addresses; NULL for invalid ones."""
    offsets = text_offsets(texts)
    data = text_bytes(texts)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    rows, marks = _find_three_separators(data, offsets)
    result, known = np.zeros(len(texts), np.uint32), np.zeros(len(texts), bool)
    if len(rows):
        ends = np.column_stack([marks, offsets[rows + 1]])
        sizes = ends.copy()
        sizes[:, 0] -= offsets[rows]
        sizes[:, 1:] -= marks + 1
        is_sized = (sizes >= 1) & (sizes <= 3)
        octets = _numbers_before(data)[np.where(is_sized, sizes - 1, 0), ends - 1]
        result[rows] = octets.astype(np.uint8).view(">u4")[:, 0]
        known[rows] = (is_sized & (octets <= 255)).all(axis=1) & (data[marks] == _DOT).all(axis=1)
    return nullable_column(result, known, pa.uint32())


def _find_three_separators(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the texts with exactly three characters that are not digits, and their places."""
    marks = np.flatnonzero((data < ord("0")) | (data > ord("9"))).astype(np.int32)
    count = len(offsets) - 1
    if len(marks) == 3 * count:
        of_each = marks.reshape(-1, 3)
        if (of_each[:, 0] >= offsets[:-1]).all() and (of_each[:, 2] < offsets[1:]).all():
            return np.arange(count), of_each
    first = np.searchsorted(marks, offsets)
    rows = np.flatnonzero(np.diff(first) == 3)
    return rows, marks[first[rows][:, None] + np.arange(3)]


def _numbers_before(data: np.ndarray) -> np.ndarray:
    """Returns the numbers that the last one, two and three digits up to each place spell."""
    values = np.zeros((3, len(data)), np.uint16)
    digits = (data & 15).astype(np.uint16)
    for size in range(3):
        values[size:, size:] += digits[: len(data) - size] * np.uint16(10**size)
    return values


def pad_with_zeros(length: int, texts: pa.Array) -> pa.Array:
    """Pads texts with zero bytes to the length; NULL for longer texts."""
    offsets = text_offsets(texts)
    sizes = np.diff(offsets)
    known = sizes <= length
    if texts.null_count:
        known &= np.asarray(pc.is_valid(texts))
    data = text_bytes(texts)[offsets[0] : offsets[-1]]
    if not known.all():
        data, sizes = data[np.repeat(known, sizes)], np.where(known, sizes, 0)
    fixed = np.zeros((len(texts), length), np.uint8)
    begins = np.zeros(len(texts), np.int64)
    np.cumsum(sizes[:-1], out=begins[1:])
    places = np.repeat(np.arange(len(texts)) * length - begins, sizes)
    fixed.ravel()[places + np.arange(len(data))] = data
    return blob_column(fixed, known)


def widen_fixed_strings(length: int, values: pa.Array) -> pa.Array:
    """Pads FixedStrings with zero bytes to the length."""
    fixed = np.zeros((len(values), length), np.uint8)
    width = values.type.byte_width
    data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width : (values.offset + len(values)) * width]
    fixed[:, :width] = data.reshape(-1, width)
    return blob_column(fixed, np.asarray(pc.is_valid(values)))


KERNELS = (
    Kernel("pando_plain_uuid", ("BLOB",), "BLOB", parse_uuids),
    Kernel("pando_plain_ipv4", ("BLOB",), "UINTEGER", parse_ipv4),
)
