"""SipHash-2-4 of many rows at once, with a zero key; ``parts.common.sip_hash`` hashes a single text.

A round is 26 operations of NumPy over all rows that have a word left. When few rows with many words are left, each is
finished alone.
"""

from __future__ import annotations

import itertools

import numpy as np

from parts.common.sip_hash import INITIAL, finish_sip_hash
from sql.functions.hashes.row_words import HashedRows, low_byte_masks, order_by_length, restore_row_order

_FEW_ROWS, _MANY_WORDS = 6, 64


def sip_hash_64(rows: HashedRows) -> np.ndarray:
    """Computes SipHash-2-4 with 64 bits."""
    state = _final_state(rows)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def sip_hash_128(rows: HashedRows) -> np.ndarray:
    """Computes SipHash-2-4 with 128 bits, as a matrix of 16 bytes a row."""
    state = _final_state(rows)
    words = np.stack((state[0] ^ state[1], state[2] ^ state[3]), axis=1)
    return words.view(np.uint8)


def _final_state(rows: HashedRows) -> list[np.ndarray]:
    """Returns the four state words after the last round, in the order of the rows."""
    order, active = order_by_length(rows.lengths // 8 + 1)
    rows = rows.take(order)
    state = [np.full(len(order), word, np.uint64) for word in INITIAL]
    alone = 0
    for step, (count, next_count) in enumerate(itertools.pairwise(active)):
        if count <= _FEW_ROWS and len(active) - step > _MANY_WORDS:
            alone = int(count)
            _finish_alone(state, rows, alone, 8 * step)
            break
        word = rows.words(rows.begins[:count] + 8 * step)
        lengths = rows.lengths[next_count:count]
        word[next_count:] &= low_byte_masks(lengths & 7)
        word[next_count:] |= lengths.astype(np.uint64) << np.uint64(56)
        first = [part[:count] for part in state]
        first[3] ^= word
        _round(first)
        _round(first)
        first[0] ^= word
    last = [part[alone:] for part in state]
    last[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round(last)
    return [restore_row_order(part, order) for part in state]


def _finish_alone(state: list[np.ndarray], rows: HashedRows, count: int, done: int) -> None:
    """Finishes the first rows one by one; ``done`` bytes of each are hashed already."""
    for row in range(count):
        words = [int(part[row]) for part in state]
        finish_sip_hash(words, rows.text(row, done), int(rows.lengths[row]))
        for part, word in zip(state, words, strict=True):
            part[row] = word


def _round(v: list[np.ndarray]) -> None:
    """Applies one SipRound to the four state words, in place."""
    a, b, c, d = v
    a += b
    _rotate(b, 13)
    b ^= a
    _rotate(a, 32)
    c += d
    _rotate(d, 16)
    d ^= c
    a += d
    _rotate(d, 21)
    d ^= a
    c += b
    _rotate(b, 17)
    b ^= c
    _rotate(c, 32)


def _rotate(values: np.ndarray, bits: int) -> None:
    high = values << np.uint64(bits)
    values >>= np.uint64(64 - bits)
    values |= high
