"""XXH32 and XXH64 of many rows at once; rows over 4 KiB are hashed one by one, in C.

Source: the specification of xxHash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xxhash

from sql.functions.hashes.row_words import HashedRows, order_by_length, restore_row_order, rotate_left

_LONG_BYTES = 4096


@dataclass(frozen=True)
class _HashWidth:
    """The constants of one width: words of ``width`` bytes, four of which are a stripe."""

    width: int
    primes: tuple[int, ...]
    lane_rotations: tuple[int, int, int, int]
    rotation: int
    """Bits by which a lane is rotated after each word."""
    shifts: tuple[int, int, int]
    """Shifts of the final mix."""
    hash_text: Callable[[bytes], int]

    @property
    def number(self) -> type[np.unsignedinteger]:
        """The NumPy type of a word."""
        return np.uint32 if self.width == 4 else np.uint64


_XXH32 = _HashWidth(
    4, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1), (1, 7, 12, 18), 13, (15, 13, 16),
    xxhash.xxh32_intdigest,
)  # fmt: skip
_XXH64 = _HashWidth(
    8,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
    (1, 7, 12, 18), 31, (33, 29, 32), xxhash.xxh64_intdigest,
)  # fmt: skip


def xx_hash_32(rows: HashedRows) -> np.ndarray:
    """Computes XXH32."""
    return _hash_rows(_XXH32, rows)


def xx_hash_64(rows: HashedRows) -> np.ndarray:
    """Computes XXH64."""
    return _hash_rows(_XXH64, rows)


def _hash_rows(kind: _HashWidth, rows: HashedRows) -> np.ndarray:
    result = np.empty(len(rows.lengths), kind.number)
    is_long = rows.lengths > _LONG_BYTES
    for row in np.flatnonzero(is_long).tolist():
        result[row] = kind.hash_text(rows.text(row))
    short = np.flatnonzero(~is_long)
    result[short] = _hash_short(kind, rows.take(short))
    return result


def _hash_short(kind: _HashWidth, rows: HashedRows) -> np.ndarray:
    one = _Steps(kind, rows)
    one.stripes()
    one.words()
    one.bytes()
    return one.result()


class _Steps:
    """The hash state of all rows, sorted by length, and the steps of the algorithm."""

    def __init__(self, kind: _HashWidth, rows: HashedRows) -> None:
        self._kind, self._order = kind, order_by_length(rows.lengths)[0]
        self._rows = rows.take(self._order)
        self._at = self._rows.begins.copy()
        self._left = self._rows.lengths.copy()
        self._primes = [kind.number(prime) for prime in kind.primes]
        self._bits = 8 * kind.width
        self._hash = np.full(len(self._order), self._primes[4], kind.number)

    def _read(self, places: np.ndarray, width: int) -> np.ndarray:
        return self._rows.words(places, width).astype(self._kind.number, copy=False)

    def _rotate(self, values: np.ndarray, bits: int) -> np.ndarray:
        return rotate_left(values, bits, self._bits)

    def _mix_lane(self, lane: np.ndarray, word: np.ndarray) -> np.ndarray:
        return self._rotate(lane + word * self._primes[1], self._kind.rotation) * self._primes[0]

    def stripes(self) -> None:
        """Mixes in all whole stripes."""
        kind, primes, width = self._kind, self._primes, self._kind.width
        stripes = self._left // (4 * width)
        some = int(np.count_nonzero(stripes))
        if not some:
            return
        lanes = [np.full(some, start, kind.number) for start in self._starts()]
        for step in range(int(stripes[0])):
            count = int(np.count_nonzero(stripes > step))
            places = self._at[:count] + 4 * width * step
            for number, lane in enumerate(lanes):
                lane[:count] = self._mix_lane(lane[:count], self._read(places + width * number, width))
        merged = sum(
            (self._rotate(lane, turn) for lane, turn in zip(lanes, kind.lane_rotations, strict=True)),
            np.zeros(some, kind.number),
        )
        if width == 8:
            for lane in lanes:
                merged = (merged ^ self._mix_lane(np.zeros(some, kind.number), lane)) * primes[0] + primes[3]
        self._hash[:some] = merged
        self._at += stripes * 4 * width
        self._left -= stripes * 4 * width

    def _starts(self) -> list[int]:
        first, second = self._kind.primes[:2]
        return [value % (1 << self._bits) for value in (first + second, second, 0, -first)]

    def words(self) -> None:
        """Mixes in the lengths, then the whole words after the last stripe."""
        self._hash += self._rows.lengths.astype(self._kind.number)
        primes = self._primes
        if self._kind.width == 8:
            self._repeat_step(8, lambda hashed, word: self._rotate(
                hashed ^ self._mix_lane(np.zeros_like(word), word), 27) * primes[0] + primes[3])  # fmt: skip
            self._repeat_step(
                4, lambda hashed, word: self._rotate(hashed ^ word * primes[0], 23) * primes[1] + primes[2]
            )
        else:
            self._repeat_step(4, lambda hashed, word: self._rotate(hashed + word * primes[2], 17) * primes[3])

    def bytes(self) -> None:
        """Mixes in the last bytes."""
        primes = self._primes
        if self._kind.width == 8:
            self._repeat_step(1, lambda hashed, byte: self._rotate(hashed ^ byte * primes[4], 11) * primes[0])
        else:
            self._repeat_step(1, lambda hashed, byte: self._rotate(hashed + byte * primes[4], 11) * primes[0])

    def _repeat_step(self, width: int, step: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Applies a step to all rows that still have ``width`` bytes, until none has."""
        while len(rows := np.flatnonzero(self._left >= width)):
            self._hash[rows] = step(self._hash[rows], self._read(self._at[rows], width))
            self._at[rows] += width
            self._left[rows] -= width

    def result(self) -> np.ndarray:
        """Returns the final hashes in the rows' original order."""
        hashed, kind = self._hash, self._kind
        for shift, prime in zip(kind.shifts, (self._primes[1], self._primes[2], None), strict=True):
            hashed = hashed ^ (hashed >> kind.number(shift))
            if prime is not None:
                hashed = hashed * prime
        return restore_row_order(hashed, self._order)
