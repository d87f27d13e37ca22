"""Finds strings that contain a needle, in the bytes of all rows at once.

All bytes are compared with the byte of a needle that is rarest in a sample; the bytes around it only where it is found.
That pays where one of the bytes is rare; else every row counts as a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sql.typing.column_kernels.kernels import find_needle

_SAMPLE_BYTES = 65_536
_ROWS_PER_CANDIDATE = 2


def find_candidate_rows(texts: pa.Array, needles: Sequence[bytes]) -> np.ndarray:
    """Returns a mask of the rows that may contain all needles.

    It tests the needle that is quickest to find. If that would take long, every row is true. NULL contains nothing.
    """
    if pa.types.is_dictionary(texts.type):
        found = find_candidate_rows(texts.dictionary, needles)
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
    positions = find_needle(text, needle, counts)
    row = np.searchsorted(offsets, (positions + begin).astype(np.int32), "right") - 1
    is_inside = positions + (begin + len(needle)) <= offsets[row + 1]
    mask = np.zeros(rows, bool)
    mask[row[is_inside]] = True
    return mask
