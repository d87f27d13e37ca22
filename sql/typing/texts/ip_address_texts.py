"""Parses and formats IPv6 and IPv4 addresses, whole columns at a time.

Parsed here are texts of hexadecimal digits and colons alone. Colons separate the groups; an empty group between two
colons stands for as many zero groups as are missing. Callers parse other forms (``1.2.3.4``, ``::ffff:1.2.3.4``).

Formatted are the eight groups without leading zeros, with ``::`` for the first longest run of zero groups. The last two
groups are written as an IPv4 address after ``::ffff:``, and after ``::`` alone.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pyarrow as pa

GROUPS, _DIGITS = 8, 4
_COLON = ord(":")
_NONE = 255
_LOW_OF = np.array([0, 0xF, 0xFF, 0xFFF, 0xFFFF], np.uint16)
"""Masks by the number of digits."""
_VALUES = np.full(256, _NONE, np.uint8)
_VALUES[_COLON] = 16
for _base, _first in ((b"0123456789", 0), (b"abcdef", 10), (b"ABCDEF", 10)):
    _VALUES[list(_base)] = np.arange(_first, _first + len(_base))


def parse_hexadecimal_ipv6(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns addresses as a byte matrix, and which texts are valid. No text may be NULL."""
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(texts) + 1, 4 * texts.offset)
    size = int(offsets[-1] - offsets[0])
    data = np.frombuffer(data_buffer or b"", np.uint8, size, int(offsets[0]) if size else 0)
    offsets = offsets - offsets[0]
    colons = np.flatnonzero(data == _COLON).astype(np.int32)
    first_colons = np.searchsorted(colons, offsets)
    counts = np.diff(first_colons) + 1
    firsts = first_colons[:-1] + np.arange(len(texts))
    lasts = firsts + counts - 1
    begins = np.empty(len(colons) + len(texts), np.int32)
    ends = np.empty_like(begins)
    is_first, is_last = np.zeros(len(begins), bool), np.zeros(len(begins), bool)
    is_first[firsts], is_last[lasts] = True, True
    begins[firsts], begins[~is_first] = offsets[:-1], colons + 1
    ends[lasts], ends[~is_last] = offsets[1:], colons
    lengths = ends - begins
    rows = np.repeat(np.arange(len(texts)), counts)

    is_empty = lengths == 0
    gaps = np.flatnonzero(is_empty & ~is_first & ~is_last)
    gap_counts = np.bincount(rows[gaps], minlength=len(texts))
    gap = lasts + 1
    gap[rows[gaps]] = gaps
    starts_empty, ends_empty = is_empty[firsts], is_empty[lasts]
    given = counts - gap_counts - starts_empty - ends_empty
    is_whole = (gap_counts == 0) & (given == GROUPS) & ~starts_empty & ~ends_empty
    is_short = (gap_counts == 1) & (given <= GROUPS - ends_empty)
    is_short &= (~starts_empty | (gap == firsts + 1)) & (~ends_empty | (gap == lasts - 1))
    is_good = is_whole | is_short
    is_good[rows[lengths > _DIGITS]] = False
    codes = _VALUES[data]
    others = np.flatnonzero(codes == _NONE)
    is_good[np.searchsorted(offsets, others, side="right") - 1] = False
    groups = np.zeros((len(texts), GROUPS), np.uint16)
    placed = np.flatnonzero(~is_empty & is_good[rows])
    row = rows[placed]
    slot = placed - np.where(placed < gap[row], firsts[row], lasts[row] + 1 - GROUPS)
    groups[row, slot] = _hex_values_before(codes, ends[placed]) & _LOW_OF[lengths[placed]]
    return groups.astype(">u2").view(np.uint8), is_good


def _hex_values_before(codes: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the number that the four hexadecimal digits before each place spell."""
    digits = np.zeros(len(codes) + _DIGITS, np.uint16)
    digits[_DIGITS:] = codes & 15
    values = digits.copy()
    for place in range(1, _DIGITS):
        values[place:] |= digits[:-place] << np.uint16(4 * place)
    return values[ends + (_DIGITS - 1)]


def format_ipv6(addresses: np.ndarray) -> pa.Array:
    """Formats a byte matrix of addresses.

    Each group becomes a word of eight bytes; the zero bytes in the words are removed at the end.
    """
    groups = np.ascontiguousarray(addresses).view(">u2").astype(np.uint16)
    words, sizes = _word_table(_GROUP)[groups], _size_table(_GROUP)[groups]
    words[:, -1] &= _LOW_BYTES[sizes[:, -1] - 1]
    sizes[:, -1] -= 1
    zeros = np.packbits(np.equal(groups, 0), axis=1)[:, 0]
    rows = np.flatnonzero(_HAS_RUN[zeros])
    kept, colons = _IS_KEPT[zeros[rows]], _COLONS[zeros[rows]]
    words[rows] = np.where(kept, words[rows], colons)
    sizes[rows] = np.where(kept, sizes[rows], colons != 0)
    fifth, sixth = groups[:, 5], groups[:, 6]
    begins_short = np.bitwise_and(zeros, 0b11111000) == 0b11111000
    rows = np.flatnonzero(begins_short & ((fifth == 0xFFFF) | ((fifth == 0) & (sixth != 0))))
    words[rows, 6:], sizes[rows, 6:] = _octet_pair_words(groups[rows, 6:])
    return _join_words(words, sizes)


def format_ipv4(octets: np.ndarray) -> pa.Array:
    """Formats a matrix of four bytes a row."""
    return _join_words(*_octet_pair_words(np.ascontiguousarray(octets).view(">u2").astype(np.uint16)))


def _octet_pair_words(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the words of the two halves of IPv4 addresses, and their sizes."""
    words, sizes = _word_table(_PAIR)[groups], _size_table(_PAIR)[groups]
    words[:, -1] &= _LOW_BYTES[sizes[:, -1] - 1]
    sizes[:, -1] -= 1
    return words, sizes


def _join_words(words: np.ndarray, sizes: np.ndarray) -> pa.Array:
    offsets = np.zeros(len(words) + 1, np.int32)
    np.cumsum(sizes.sum(axis=1, dtype=np.int32), out=offsets[1:])
    spelled = words.tobytes().translate(None, b"\0")
    return pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(spelled)])


_GROUP, _PAIR = "{0:x}:", "{1}.{2}."


@cache
def _word_table(spelling: str) -> np.ndarray:
    """Returns the word of every group, in a spelling for numbers or for two bytes."""
    return np.array([int.from_bytes(spelled, "little") for spelled in _spell_groups(spelling)], np.uint64)


@cache
def _size_table(spelling: str) -> np.ndarray:
    return np.array([len(spelled) for spelled in _spell_groups(spelling)], np.uint8)


def _spell_groups(spelling: str) -> list[bytes]:
    return [spelling.format(group, group >> 8, group & 255).encode() for group in range(1 << 16)]


_LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(8)], np.uint64)
_IS_KEPT = np.ones((256, GROUPS), bool)
_COLONS = np.zeros((256, GROUPS), np.uint64)
"""Tables over the 256 patterns of zero groups: which groups are written, and the colons that replace the others.
The group before them ends with one more colon."""
for _zeros in range(256):
    _runs = re.finditer("11+", f"{_zeros:08b}")
    _run = max(_runs, key=lambda run: run.end() - run.start(), default=None)
    if _run is not None:
        _IS_KEPT[_zeros, _run.start() : _run.end()] = False
        _COLONS[_zeros, _run.start()] = _COLON
        _COLONS[_zeros, 1] |= np.uint64(0 if _run.start() else _COLON)
_HAS_RUN = _COLONS.sum(axis=1) > 0
