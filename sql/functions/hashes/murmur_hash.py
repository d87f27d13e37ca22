"""MurmurHash2 and MurmurHash3 of many rows at once, with a seed of zero.

Source: the reference code of Austin Appleby's functions MurmurHash2, MurmurHash64A, MurmurHash3_x86_32 and
MurmurHash3_x64_128.
"""

from __future__ import annotations

import numpy as np

from sql.functions.hashes.row_words import HashedRows, low_byte_masks, order_by_length, restore_row_order, rotate_left

_2_OF_32, _2_OF_64 = np.uint32(0x5BD1E995), np.uint64(0xC6A4A7935BD1E995)


def murmur_2_32(rows: HashedRows) -> np.ndarray:
    """Computes MurmurHash2."""
    hashed = rows.lengths.astype(np.uint32)
    for chosen, word in _whole_words(rows, 4):
        word = word.astype(np.uint32) * _2_OF_32
        word ^= word >> np.uint32(24)
        hashed[chosen] = hashed[chosen] * _2_OF_32 ^ word * _2_OF_32
    some, rest = _partial_words(rows, 4)
    hashed[some] = (hashed[some] ^ rest.astype(np.uint32)) * _2_OF_32
    hashed ^= hashed >> np.uint32(13)
    hashed *= _2_OF_32
    return hashed ^ (hashed >> np.uint32(15))


def murmur_2_64(rows: HashedRows) -> np.ndarray:
    """Computes MurmurHash64A."""
    hashed = rows.lengths.astype(np.uint64) * _2_OF_64
    for chosen, word in _whole_words(rows, 8):
        word = word * _2_OF_64
        word ^= word >> np.uint64(47)
        hashed[chosen] = (hashed[chosen] ^ word * _2_OF_64) * _2_OF_64
    some, rest = _partial_words(rows, 8)
    hashed[some] = (hashed[some] ^ rest) * _2_OF_64
    hashed ^= hashed >> np.uint64(47)
    hashed *= _2_OF_64
    return hashed ^ (hashed >> np.uint64(47))


def murmur_3_32(rows: HashedRows) -> np.ndarray:
    """Computes MurmurHash3_x86_32."""
    hashed = np.zeros(len(rows.lengths), np.uint32)
    for chosen, word in _whole_words(rows, 4):
        mixed = rotate_left(hashed[chosen] ^ _mix_3_32(word), 13, 32)
        hashed[chosen] = mixed * np.uint32(5) + np.uint32(0xE6546B64)
    some, rest = _partial_words(rows, 4)
    hashed[some] ^= _mix_3_32(rest)
    hashed ^= rows.lengths.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashed ^= hashed >> np.uint32(shift)
        hashed *= np.uint32(factor)
    return hashed


def _mix_3_32(word: np.ndarray) -> np.ndarray:
    return rotate_left(word.astype(np.uint32) * np.uint32(0xCC9E2D51), 15, 32) * np.uint32(0x1B873593)


_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def murmur_3_64(rows: HashedRows) -> np.ndarray:
    """Computes ClickHouse's murmurHash3_64: the two halves of MurmurHash3_x64_128 XORed."""
    first, second = _murmur_3(rows)
    return first ^ second


def murmur_3_128(rows: HashedRows) -> np.ndarray:
    """Computes MurmurHash3_x64_128 as a matrix of 16 bytes a row."""
    return np.stack(_murmur_3(rows), axis=1).view(np.uint8)


def _murmur_3(given: HashedRows) -> tuple[np.ndarray, np.ndarray]:
    """Returns the two halves of MurmurHash3_x64_128."""
    order, active = order_by_length(given.lengths // 16)
    rows = given.take(order)
    a, b = np.zeros(len(order), np.uint64), np.zeros(len(order), np.uint64)
    for step, count in enumerate(active[:-1]):
        first, second, places = a[:count], b[:count], rows.begins[:count] + 16 * step
        first ^= _mix_low(rows.words(places))
        first[:] = (rotate_left(first, 27) + second) * np.uint64(5) + np.uint64(0x52DCE729)
        second ^= _mix_high(rows.words(places + 8))
        second[:] = (rotate_left(second, 31) + first) * np.uint64(5) + np.uint64(0x38495AB5)
    left = rows.lengths % 16
    at = rows.begins + rows.lengths - left
    many = np.flatnonzero(left > 8)
    b[many] ^= _mix_high(rows.words(at[many] + 8) & low_byte_masks(left[many] - 8))
    some = np.flatnonzero(left)
    a[some] ^= _mix_low(rows.words(at[some]) & low_byte_masks(np.minimum(left[some], 8)))
    lengths = rows.lengths.astype(np.uint64)
    a ^= lengths
    b ^= lengths
    a += b
    b += a
    a, b = _finish(a), _finish(b)
    a += b
    b += a
    return restore_row_order(a, order), restore_row_order(b, order)


def _mix_low(word: np.ndarray) -> np.ndarray:
    return rotate_left(word * _C1, 31) * _C2


def _mix_high(word: np.ndarray) -> np.ndarray:
    return rotate_left(word * _C2, 33) * _C1


def _finish(values: np.ndarray) -> np.ndarray:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(factor)
    return values


def _whole_words(rows: HashedRows, width: int):  # type: ignore[no-untyped-def]
    """Yields, step by step, the rows that have another whole word, and these words."""
    steps = rows.lengths // width
    for step in range(int(steps.max(initial=0))):
        chosen = np.flatnonzero(steps > step)
        yield chosen, rows.words(rows.begins[chosen] + width * step, width)


def _partial_words(rows: HashedRows, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that end within a word, and the bytes of that word."""
    left = rows.lengths % width
    some = np.flatnonzero(left)
    return some, rows.words(rows.begins[some] + rows.lengths[some] - left[some]) & low_byte_masks(left[some])
