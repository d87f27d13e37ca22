"""Kernels that read the usual spellings of IPv4 addresses and UUIDs.

Each gives NULL for any other text; the macros that read the rest stand beside the types. Texts come as BLOBs, which
DuckDB hands over in half the time (``encode`` costs nothing)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.kernels import Kernel, masked, of_size, text_bytes, text_offsets, validity

_DASH, _DOT = b"-."
_UUID_SIZE = 36

_DIGITS = np.full(256, 255, np.uint8)
for _value, _digit in enumerate("0123456789abcdef"):
    _DIGITS[[ord(_digit), ord(_digit.upper())]] = _value
_DASHES = np.array([8, 13, 18, 23])
_UUID_DIGITS = np.delete(np.arange(_UUID_SIZE), _DASHES)


def uuids(texts: pa.Array) -> pa.Array:
    """The 16 bytes."""
    rows, spelled = of_size(texts, _UUID_SIZE)
    halves = _DIGITS[spelled[:, _UUID_DIGITS]]
    right = (halves.max(axis=1, initial=0) < 16) & (spelled[:, _DASHES] == _DASH).all(axis=1)
    found = np.zeros((len(texts), 16), np.uint8)
    found[rows] = (halves[:, ::2] << 4) | halves[:, 1::2]
    known = np.zeros(len(texts), bool)
    known[rows] = right
    offsets = np.arange(0, found.size + 1, 16, dtype=np.int32)
    parts = [validity(known), pa.py_buffer(offsets), pa.py_buffer(found)]
    return pa.Array.from_buffers(pa.binary(), len(texts), parts)


def ipv4_numbers(texts: pa.Array) -> pa.Array:
    """Four numbers up to 255 of one to three digits."""
    offsets = text_offsets(texts).astype(np.int64)
    data = text_bytes(texts)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    dots = np.flatnonzero(data == _DOT)
    first = np.searchsorted(dots, offsets)
    rows = np.flatnonzero(np.diff(first) == 3)
    result, known = np.zeros(len(texts), np.uint32), np.zeros(len(texts), bool)
    if len(rows):
        inner = dots[first[rows][:, None] + np.arange(3)]
        ends = np.column_stack([inner, offsets[rows + 1]])
        sizes = ends - np.column_stack([offsets[rows], inner + 1])
        digits = [_DIGITS[data[np.maximum(ends - place, 0)]].astype(np.int32) for place in (1, 2, 3)]
        digits = [np.where(sizes >= place, digit, 0) for place, digit in enumerate(digits, 1)]
        octets = digits[0] + digits[1] * 10 + digits[2] * 100
        right = (sizes >= 1) & (sizes <= 3) & (octets <= 255) & (np.maximum.reduce(digits) <= 9)
        result[rows] = octets @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        known[rows] = right.all(axis=1)
    if texts.null_count:
        known &= np.asarray(pc.is_valid(texts))
    return masked(result, known, pa.uint32())


def padded(length: int, texts: pa.Array) -> pa.Array:
    """With zeros to the length; NULL where that is too short."""
    offsets = text_offsets(texts)
    sizes = np.diff(offsets)
    known = sizes <= length
    if texts.null_count:
        known &= np.asarray(pc.is_valid(texts))
    data = text_bytes(texts)[offsets[0] : offsets[-1]]
    if not known.all():
        data, sizes = data[np.repeat(known, sizes)], np.where(known, sizes, 0)
    fixed = np.zeros((len(texts), length), np.uint8)
    fixed[np.arange(length) < sizes[:, None]] = data
    places = np.arange(0, fixed.size + 1, length, dtype=np.int32)
    parts = [validity(known), pa.py_buffer(places), pa.py_buffer(fixed)]
    return pa.Array.from_buffers(pa.binary(), len(texts), parts)


KERNELS = (
    Kernel("pando_plain_uuid", ("BLOB",), "BLOB", uuids),
    Kernel("pando_plain_ipv4", ("BLOB",), "UINTEGER", ipv4_numbers),
)
