"""Which texts contain one of some needles, looked for in the bytes of all rows at once.

All bytes are compared with those of a needle which are rarest in the first texts, and what stands around them only
where they are found. That pays where one of them is rare; else nothing is said of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_SAMPLE_BYTES = 65_536
_ROWS_PER_CANDIDATE = 2
_COMPARED_EVERYWHERE = 3


def can_contain(texts: pa.Array, needles: Sequence[bytes]) -> np.ndarray:
    """Of each row whether it contains the needle that is quickest to find, of those which it must contain all; true of
    all where that would take long. NULL contains nothing."""
    if pa.types.is_dictionary(texts.type):
        found = can_contain(texts.dictionary, needles)
        rows = found[texts.indices.fill_null(0).to_numpy()] if len(found) else np.zeros(len(texts), bool)
        return rows & texts.is_valid().to_numpy(zero_copy_only=False) if texts.null_count else rows
    rows = len(texts)
    if not rows:
        return np.zeros(0, bool)
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, rows + 1, texts.offset * 4)
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin == end:
        return np.zeros(rows, bool)
    text = np.frombuffer(data, np.uint8, end - begin, begin)
    sample = text[:_SAMPLE_BYTES]
    counts = np.bincount(sample, minlength=256)
    least, needle = min((counts[list(needle)].min(), needle) for needle in needles)
    if least * len(text) * _ROWS_PER_CANDIDATE > rows * len(sample):
        return np.ones(rows, bool)
    positions = _positions(text, needle, counts)
    row = np.searchsorted(offsets, (positions + begin).astype(np.int32), "right") - 1
    is_inside = positions + (begin + len(needle)) <= offsets[row + 1]
    mask = np.zeros(rows, bool)
    mask[row[is_inside]] = True
    return mask


def _positions(text: np.ndarray, needle: bytes, counts: np.ndarray) -> np.ndarray:
    """Where the needle stands: its rarest bytes by ``counts`` are compared everywhere, the others where these are."""
    starts = len(text) - len(needle) + 1
    if starts <= 0:
        return np.zeros(0, np.int64)
    places = sorted(range(len(needle)), key=lambda place: counts[needle[place]])
    is_found = np.zeros(-(-starts // 8) * 8, bool)
    inside = is_found[:starts]
    np.equal(text[places[0] :][:starts], needle[places[0]], out=inside)
    for place in places[1:_COMPARED_EVERYWHERE]:
        inside &= text[place:][:starts] == needle[place]
    found = _set_places(is_found)
    for place in places[_COMPARED_EVERYWHERE:]:
        found = found[text[place:].take(found) == needle[place]]
    return found


def _set_places(mask: np.ndarray) -> np.ndarray:
    """Which of the bits, a multiple of 8 and few of them set, are set: several times as fast as to look at each."""
    eights = mask.view(np.uint64)
    some = np.flatnonzero(eights != 0)
    places = np.flatnonzero(eights[some].view(bool))
    return (some[places >> 3] << 3) + (places & 7)
