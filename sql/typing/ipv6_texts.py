"""IPv6 addresses to texts and back, whole columns at a time.

A text of nothing but hexadecimal digits and colons is read here: colons part its groups, the empty group between two
colons stands for as many zeros as are missing. What else an address may be (``1.2.3.4``, ``::ffff:1.2.3.4``) is for the
caller. Written are the eight groups without leading zeros, the first longest run of zero groups as ``::``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

GROUPS, _DIGITS = 8, 4
_COLON = ord(":")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NONE = 255
_VALUES = np.full(256, _NONE, np.uint8)
for _base, _first in ((b"0123456789", 0), (b"abcdef", 10), (b"ABCDEF", 10)):
    _VALUES[list(_base)] = np.arange(_first, _first + len(_base))


def read_plain(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Addresses as a byte matrix, and which texts (none is null) are addresses of digits and colons alone."""
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    size = int(offsets[-1] - offsets[0])
    data = np.frombuffer(data_buffer or b"", np.uint8, size, int(offsets[0]) if size else 0)
    offsets -= offsets[0]
    digits = np.append(_VALUES[data], np.zeros(_DIGITS, np.uint8))
    colons = np.flatnonzero(data == _COLON)
    first_colons = np.searchsorted(colons, offsets)
    counts = np.diff(first_colons) + 1
    firsts = first_colons[:-1] + np.arange(len(texts))
    lasts = firsts + counts - 1
    begins = np.empty(len(colons) + len(texts), np.int64)
    ends = np.empty_like(begins)
    is_first, is_last = np.zeros(len(begins), bool), np.zeros(len(begins), bool)
    is_first[firsts], is_last[lasts] = True, True
    begins[firsts], begins[~is_first] = offsets[:-1], colons + 1
    ends[lasts], ends[~is_last] = offsets[1:], colons
    lengths = ends - begins
    rows = np.repeat(np.arange(len(texts)), counts)

    values, is_bad = np.zeros(len(begins), np.uint16), lengths > _DIGITS
    for place in range(_DIGITS):
        digit = digits[np.minimum(begins + place, len(data))]
        is_there = place < lengths
        is_bad |= is_there & (digit == _NONE)
        values = np.where(is_there, values * np.uint16(16) + digit, values)
    is_empty = lengths == 0
    gaps = np.flatnonzero(is_empty & ~is_first & ~is_last)
    gap_counts = np.bincount(rows[gaps], minlength=len(texts))
    gap = lasts + 1
    gap[rows[gaps]] = gaps
    starts_empty, ends_empty = is_empty[firsts], is_empty[lasts]
    given = counts - gap_counts - starts_empty - ends_empty
    is_whole = (gap_counts == 0) & (given == GROUPS) & ~starts_empty & ~ends_empty
    is_short = (gap_counts == 1) & (given < GROUPS)
    is_short &= (~starts_empty | (gap == firsts + 1)) & (~ends_empty | (gap == lasts - 1))
    is_good = is_whole | is_short
    is_good[rows[is_bad]] = False
    groups = np.zeros((len(texts), GROUPS), ">u2")
    placed = np.flatnonzero(~is_empty & is_good[rows])
    row = rows[placed]
    slot = placed - np.where(placed < gap[row], firsts[row], lasts[row] + 1 - GROUPS)
    groups[row, slot] = values[placed]
    return groups.view(np.uint8), is_good


def write_plain(addresses: np.ndarray) -> pa.Array:
    """The texts of a byte matrix."""
    groups = np.ascontiguousarray(addresses).view(">u2").astype(np.uint16)
    rows = len(groups)
    starts, lengths = _longest_zeros(groups)
    index = np.arange(GROUPS)
    is_zeros = (lengths[:, None] > 1) & (index >= starts[:, None]) & (index < (starts + lengths)[:, None])
    codes, is_kept = np.empty((rows, GROUPS, _DIGITS + 1), np.uint8), np.empty((rows, GROUPS, _DIGITS + 1), bool)
    for place in range(_DIGITS):
        shift = np.uint16(4 * (_DIGITS - 1 - place))
        codes[:, :, place] = _HEX[(groups >> shift) & 15]
        is_kept[:, :, place] = ((groups >> shift) != 0) | (shift == 0)
    is_kept[:, :, :_DIGITS] &= ~is_zeros[:, :, None]
    codes[:, :, _DIGITS] = _COLON
    # Two colons for the zeros: that of the group before and that of the first zero, or those of the first two zeros.
    at_start = (index == starts[:, None]) | ((index == 1) & (starts == 0)[:, None])
    is_kept[:, :, _DIGITS] = np.where(is_zeros, at_start, index < GROUPS - 1)
    offsets = np.append(0, np.cumsum(is_kept.sum(axis=(1, 2)))).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(codes[is_kept])])


def _longest_zeros(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the first longest run of zeros of each row begins, and its length."""
    length = np.zeros(len(groups), np.int64)
    starts, lengths = np.zeros_like(length), np.zeros_like(length)
    for place in range(GROUPS):
        length = np.where(groups[:, place] == 0, length + 1, 0)
        is_longer = length > lengths
        lengths = np.where(is_longer, length, lengths)
        starts = np.where(is_longer, place + 1 - length, starts)
    return starts, lengths
