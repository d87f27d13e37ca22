"""CityHash64 1.0.2, the version that ClickHouse uses, of many rows at once.

A row's length decides which of seven ways it is hashed. Rows over 4 KiB are hashed one by one, in C. Source: the code
of CityHash 1.0.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from clickhouse_cityhash.cityhash import CityHash64

from sql.functions.hashes.row_words import HashedRows, order_by_length, restore_row_order, rotate_left

_K0, _K1 = np.uint64(0xC3A5C85C97CB3127), np.uint64(0xB492B66FBE98F273)
_K2, _K3 = np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC949D7C7509E6557)
_MULTIPLIER = np.uint64(0x9DDFEA08EB382D69)
_LONG_BYTES = 4096
Pair = tuple[np.ndarray, np.ndarray]


def city_hash_64(rows: HashedRows) -> np.ndarray:
    """Computes CityHash64."""
    result = np.full(len(rows.lengths), _K2, np.uint64)
    way = np.searchsorted(_LENGTH_LIMITS, rows.lengths)
    for number, hashed in enumerate(_HASHES_BY_LENGTH, 1):
        chosen = np.flatnonzero(way == number)
        if len(chosen):
            result[chosen] = hashed(rows.take(chosen))
    return result


def combine_city_hashes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Combines two 64-bit hashes into one (CityHash's ``Hash128to64``)."""
    first = (a ^ b) * _MULTIPLIER
    first ^= first >> np.uint64(47)
    second = (b ^ first) * _MULTIPLIER
    second ^= second >> np.uint64(47)
    return second * _MULTIPLIER


def _hash_1_to_3(rows: HashedRows) -> np.ndarray:
    begins, lengths, data = rows.begins, rows.lengths, rows.data.astype(np.uint64)
    low = data[begins] + (data[begins + (lengths >> 1)] << np.uint64(8))
    high = lengths.astype(np.uint64) + (data[begins + lengths - 1] << np.uint64(2))
    return _shift_mix(low * _K2 ^ high * _K3) * _K2


def _hash_4_to_8(rows: HashedRows) -> np.ndarray:
    first, last = rows.words(rows.begins, 4), rows.words(rows.begins + rows.lengths - 4, 4)
    return combine_city_hashes(rows.lengths.astype(np.uint64) + (first << np.uint64(3)), last)


def _hash_9_to_16(rows: HashedRows) -> np.ndarray:
    lengths = rows.lengths.astype(np.uint64)
    first, last = rows.words(rows.begins), rows.words(rows.begins + rows.lengths - 8)
    turned = last + lengths
    turned = (turned >> lengths) | (turned << (np.uint64(64) - lengths))
    return combine_city_hashes(first, turned) ^ last


def _hash_17_to_32(rows: HashedRows) -> np.ndarray:
    ends = rows.begins + rows.lengths
    a, b = rows.words(rows.begins) * _K1, rows.words(rows.begins + 8)
    c, d = rows.words(ends - 8) * _K2, rows.words(ends - 16) * _K0
    return combine_city_hashes(
        _rotate_right(a - b, 43) + _rotate_right(c, 30) + d,
        a + _rotate_right(b ^ _K3, 20) - c + rows.lengths.astype(np.uint64),
    )


def _hash_33_to_64(rows: HashedRows) -> np.ndarray:
    begins, ends = rows.begins, rows.begins + rows.lengths
    words = rows.words
    a = words(begins) + (rows.lengths.astype(np.uint64) + words(ends - 16)) * _K0
    first = _hash_half(a, words(begins + 24), words(begins + 8), words(begins + 16))
    a = words(begins + 16) + words(ends - 32)
    last = _hash_half(a, words(ends - 8), words(ends - 24), words(ends - 16))
    r = _shift_mix((first[0] + last[1]) * _K2 + (last[0] + first[1]) * _K0)
    return _shift_mix(r * _K0 + first[1]) * _K2


def _hash_half(a: np.ndarray, z: np.ndarray, second: np.ndarray, third: np.ndarray) -> Pair:
    b, c = _rotate_right(a + z, 52), _rotate_right(a, 37)
    a = a + second
    c = c + _rotate_right(a, 7)
    a = a + third
    return a + z, b + _rotate_right(a, 31) + c


def _hash_65_or_more(rows: HashedRows) -> np.ndarray:
    order, active = order_by_length((rows.lengths - 1) // 64)
    rows = rows.take(order)
    begins, ends, words = rows.begins, rows.begins + rows.lengths, rows.words
    x, y, z = words(begins), words(ends - 16) ^ _K1, words(ends - 56) ^ _K0
    v1, v2 = _hash_32_bytes_weakly(rows, ends - 64, rows.lengths.astype(np.uint64), y)
    w1, w2 = _hash_32_bytes_weakly(rows, ends - 32, rows.lengths.astype(np.uint64) * _K1, np.full(len(order), _K0))
    z += _shift_mix(v2) * _K1
    x = _rotate_right(z + x, 39) * _K1
    y = _rotate_right(y, 33) * _K1
    for step, count in enumerate(active[:-1]):
        at, rest = begins[:count] + 64 * step, slice(0, count)
        new_x = _rotate_right(x[rest] + y[rest] + v1[rest] + words(at + 16), 37) * _K1 ^ w2[rest]
        new_y = _rotate_right(y[rest] + v2[rest] + words(at + 48), 42) * _K1 ^ v1[rest]
        new_z = _rotate_right(z[rest] ^ w1[rest], 33)
        v1[rest], v2[rest] = _hash_32_bytes_weakly(rows, at, v2[rest] * _K1, new_x + w1[rest])
        w1[rest], w2[rest] = _hash_32_bytes_weakly(rows, at + 32, new_z + w2[rest], new_y)
        x[rest], y[rest], z[rest] = new_z, new_y, new_x
    both = combine_city_hashes(v1, w1) + _shift_mix(y) * _K1 + z
    return restore_row_order(combine_city_hashes(both, combine_city_hashes(v2, w2) + x), order)


def _hash_32_bytes_weakly(rows: HashedRows, at: np.ndarray, a: np.ndarray, b: np.ndarray) -> Pair:
    """Hashes 32 bytes and two seeds to two numbers (CityHash's ``WeakHashLen32WithSeeds``)."""
    first, last = rows.words(at), rows.words(at + 24)
    a = a + first
    b = _rotate_right(b + a + last, 21)
    seed = a
    a = a + rows.words(at + 8) + rows.words(at + 16)
    b = b + _rotate_right(a, 44)
    return a + last, b + seed


def _hash_one_by_one(rows: HashedRows) -> np.ndarray:
    return np.array([CityHash64(rows.text(row)) for row in range(len(rows.lengths))], np.uint64)


def _shift_mix(values: np.ndarray) -> np.ndarray:
    return values ^ (values >> np.uint64(47))


def _rotate_right(values: np.ndarray, bits: int) -> np.ndarray:
    return rotate_left(values, 64 - bits)


_HASHES_BY_LENGTH: tuple[Callable[[HashedRows], np.ndarray], ...] = (
    _hash_1_to_3, _hash_4_to_8, _hash_9_to_16, _hash_17_to_32, _hash_33_to_64, _hash_65_or_more, _hash_one_by_one,
)  # fmt: skip
_LENGTH_LIMITS = np.array([0, 3, 8, 16, 32, 64, _LONG_BYTES])
"""Longest row in bytes: the empty row, then each way but the last."""
