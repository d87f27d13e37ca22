"""Substrings of strings: words, and all runs of n bytes.

A word is a run of letters, digits and bytes beyond ASCII, as in ClickHouse's tokenbf_v1. Runs are of bytes, not of
characters: a string that contains another also contains its bytes.
"""

from __future__ import annotations

import numpy as np

from parts.skip_indexes.value_hashes import RowHashes, RowTexts, hash_substrings

_IN_WORDS = np.array([chr(byte).isalnum() or byte >= 128 for byte in range(256)])


def hash_words(texts: RowTexts) -> RowHashes:
    """Returns the hashes of the words of every string."""
    begins, stops, ends = find_words(texts)
    return RowHashes(hash_substrings(texts.data, begins, stops), ends)


def find_words(texts: RowTexts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns where the words of every string begin and stop.

    Those of row ``i`` end before ``ends[i + 1]``.
    """
    if not len(texts.begins):
        return texts.begins, texts.stops, np.zeros(len(texts.ends), np.int64)
    origin, end = int(texts.begins[0]), int(texts.stops[-1])
    inside = _IN_WORDS[texts.data[origin:end]]
    before = np.concatenate(([False], inside[:-1])) if len(inside) else inside
    filled = texts.begins[texts.begins < texts.stops] - origin
    before[filled] = False
    after = np.concatenate((inside[1:], [False])) if len(inside) else inside
    after[filled[1:] - 1] = False
    begins, stops = np.flatnonzero(inside & ~before) + origin, np.flatnonzero(inside & ~after) + origin + 1
    return begins, stops, np.searchsorted(begins, np.append(texts.begins, end))[texts.ends]


def hash_byte_ngrams(texts: RowTexts, length: int) -> RowHashes:
    """Returns the hashes of all runs of ``length`` bytes of every string."""
    counts = np.maximum(texts.stops - texts.begins - (length - 1), 0)
    ends = np.concatenate(([0], np.cumsum(counts)))
    begins = np.arange(int(ends[-1])) + np.repeat(texts.begins - ends[:-1], counts)
    return RowHashes(hash_substrings(texts.data, begins, begins + length), ends[texts.ends])
