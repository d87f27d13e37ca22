"""Splits the text of VALUES into rows and fields without a loop over rows.

NumPy finds the few bytes that matter (quotes, brackets, commas). It decides which lie inside string literals, by the
parity of the unescaped quotes before them (a doubled quote closes and opens again), and how deep in brackets they are.
A row begins where the depth goes from 0 to 1 and ends where it returns; commas at depth 1 part its fields. The fields
become one Arrow array of slices of the text, taken column by column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

QUOTE, BACKSLASH, COMMA, SEMICOLON, OPENING, CLOSING = 39, 92, 44, 59, 40, 41
DEPTH = np.zeros(256, np.int8)
DEPTH[[ord(char) for char in "([{"]] = 1
DEPTH[[ord(char) for char in ")]}"]] = -1
_SPECIAL = DEPTH != 0
_SPECIAL[[QUOTE, COMMA, SEMICOLON]] = True
_BLANK = np.zeros(256, bool)
_BLANK[[32, 9, 10, 13]] = True
_MAX_BLANKS = 1000
_GAP = re.compile(rb"\s*,?\s*\Z")


@dataclass(frozen=True, slots=True)
class SplitRows:
    """The fields of whole rows, as bytes by column; ``end`` is where the last of them ends in the text."""

    columns: list[pa.Array]
    rows: int
    end: int


class RowShapeError(Exception):
    """Row ``index`` (from 0) has ``fields`` fields, or ``-1`` when it is no row at all.

    It begins at ``position``.
    """

    def __init__(self, index: int, position: int, fields: int) -> None:
        super().__init__(index, position, fields)
        self.index = index
        self.position = position
        self.fields = fields


def split_rows(data: bytes, width: int) -> SplitRows:
    """Splits the whole rows at the beginning of ``data``. Raises :class:`RowShapeError`."""
    buffer = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(_SPECIAL[buffer])
    kinds = buffer[places]
    quotes = kinds == QUOTE
    quotes &= ~find_escaped_quotes(buffer, places, quotes)
    outside = (np.cumsum(quotes) & 1 == 0) & (kinds != QUOTE)
    places, kinds = places[outside], kinds[outside]
    change = DEPTH[kinds]
    depth = np.cumsum(change, dtype=np.int32)
    opens = (depth == 1) & (change == 1)
    closes = (depth == 0) & (change == -1)
    end = _first_stop(kinds, depth, places, len(data))
    boundary = opens | closes | ((depth == 1) & (kinds == COMMA))
    last_close = np.flatnonzero(closes & (places < end))
    if not len(last_close):
        return SplitRows([], 0, 0)
    boundary[last_close[-1] + 1 :] = False
    bounds = places[boundary]
    starts = np.flatnonzero(opens[boundary])
    counts = np.diff(np.append(starts, len(bounds))) - 1
    _check_gaps(data, bounds, starts)
    wrong = np.flatnonzero(counts != width)
    if len(wrong):
        index = int(wrong[0])
        raise RowShapeError(index, int(bounds[starts[index]]), int(counts[index]))
    grid = bounds.reshape(-1, width + 1)
    other = np.flatnonzero((buffer[grid[:, 0]] != OPENING) | (buffer[grid[:, -1]] != CLOSING))
    if len(other):
        raise RowShapeError(int(other[0]), int(grid[other[0], 0]), -1)
    return SplitRows(_slices(data, buffer, grid), len(grid), int(bounds[-1]) + 1)


def _first_stop(kinds: np.ndarray, depth: np.ndarray, places: np.ndarray, length: int) -> int:
    """Returns where a ``;`` or a bracket too many ends the data."""
    stops = np.flatnonzero(((kinds == SEMICOLON) & (depth == 0)) | (depth < 0))
    return int(places[stops[0]]) if len(stops) else length


def find_escaped_quotes(buffer: np.ndarray, places: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    """Returns a mask of the quotes behind an odd number of backslashes."""
    is_slash = buffer == BACKSLASH
    if not is_slash.any():
        return np.zeros(len(places), bool)
    slashes = np.flatnonzero(is_slash)
    fresh = np.ones(len(slashes), bool)
    fresh[1:] = np.diff(slashes) != 1
    run_starts = slashes[fresh]
    candidates = quotes & (places > 0) & (buffer[np.maximum(places - 1, 0)] == BACKSLASH)
    runs = np.searchsorted(run_starts, places[candidates], side="left") - 1
    lengths = places[candidates] - run_starts[runs]
    escaped = np.zeros(len(places), bool)
    escaped[candidates] = lengths % 2 == 1
    return escaped


def _check_gaps(data: bytes, bounds: np.ndarray, starts: np.ndarray) -> None:
    """Raises :class:`RowShapeError` if more than blanks and a comma stand between two rows."""
    begins = np.concatenate(([0], bounds[starts[1:] - 1] + 1))
    ends = bounds[starts]
    gaps = _byte_slices(data, begins, ends)
    for value in pc.unique(gaps).to_pylist():
        if not _GAP.match(value):
            index = int(pc.index(gaps, pa.scalar(value, pa.binary())).as_py())
            raise RowShapeError(index, int(begins[index]) + len(value) - len(value.lstrip(b" \t\r\n,")), -1)


def _slices(data: bytes, buffer: np.ndarray, grid: np.ndarray) -> list[pa.Array]:
    columns = []
    for index in range(grid.shape[1] - 1):
        begins, ends = grid[:, index] + 1, grid[:, index + 1].copy()
        for _ in range(_MAX_BLANKS):
            blank = _BLANK[buffer[begins]] & (begins < ends)
            if not blank.any():
                break
            begins += blank
        for _ in range(_MAX_BLANKS):
            blank = _BLANK[buffer[ends - 1]] & (begins < ends)
            if not blank.any():
                break
            ends -= blank
        columns.append(_byte_slices(data, begins, ends))
    return columns


def _byte_slices(data: bytes, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Returns ``data[begin:end]`` for every pair; the pairs are in order and apart."""
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = begins, ends
    offsets[-1] = ends[-1]
    both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * len(begins), 2)))
