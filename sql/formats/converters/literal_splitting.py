"""Splits literals of arrays, maps and tuples into the texts of their elements, all rows at once.

NumPy finds the few bytes that matter (quotes, brackets, separators). It decides which lie inside strings, by the parity
of the unescaped quotes before them; a doubled quote closes and opens again. It also finds how deep in brackets they
are. Separators of depth 1 part the elements, which become one Arrow array of slices of the text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.formats.converters.row_splitting import DEPTH, QUOTE, find_escaped_quotes

MAX_DEPTH = 100
_SEPARATOR, _OPEN, _CLOSE = 1, 2, 3
_MAY_BE_BLANK = np.ones(256, bool)
_FIRST_VISIBLE, _FIRST_NOT_ASCII = 0x21, 0x80
_MAY_BE_BLANK[_FIRST_VISIBLE:_FIRST_NOT_ASCII] = False


class NotAListError(Exception):
    """Text ``index`` (from 0) is no list in these brackets."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def split_elements(texts: pa.Array, brackets: str, separators: str) -> tuple[np.ndarray, pa.Array]:
    """Returns offsets (int32) and elements of ``[a, b]``, without the blanks around them; null has none.

    Two separators take turns: ``",:"`` is a map, whose first separator is the colon. A comma may stand behind the last
    element of a tuple. Raises :class:`NotAListError` for the first text that is not of this form, lacks an element, or
    has brackets deeper than :data:`MAX_DEPTH` in it.
    """
    rows = np.flatnonzero(np.asarray(pc.is_valid(texts)))
    data, offsets = _bytes_of(_trim(texts.drop_null() if texts.null_count else texts))
    marks, lists = _find_marks(data, offsets, brackets.encode(), separators.encode())
    if lists < len(rows):
        split_elements(texts.slice(0, int(rows[lists])), brackets, separators)  # may raise for an earlier one
        raise NotAListError(int(rows[lists]))
    bounds = np.flatnonzero(marks)
    kinds = marks[bounds]
    openings = np.flatnonzero(kinds == _OPEN)
    counts = np.diff(np.append(openings, len(bounds))) - 1
    if len(separators) > 1:
        _check_turns(data[bounds], openings, counts, separators.encode(), rows)
    ends = np.cumsum(np.diff(bounds)[kinds[:-1] != _CLOSE] - 1)
    elements = _trim(_make_texts(data[marks == 0], ends))
    counts, elements = _drop_empty_last(counts, elements, rows, may_end_in_comma=brackets == "()")
    all_counts = np.zeros(len(texts), np.int64)
    all_counts[rows] = counts
    return np.append(0, np.cumsum(all_counts)).astype(np.int32), elements


def _bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bytes of all texts, and where in them each begins and ends."""
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    size = int(offsets[-1] - offsets[0])
    return np.frombuffer(data or b"", np.uint8, size, int(offsets[0]) if size else 0), offsets - offsets[0]


def _make_texts(data: np.ndarray, ends: np.ndarray) -> pa.Array:
    offsets = np.append(0, ends).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _trim(texts: pa.Array) -> pa.Array:
    data, offsets = _bytes_of(texts)
    if not len(data) or (data.min() >= _FIRST_VISIBLE and data.max() < _FIRST_NOT_ASCII):
        return texts
    filled = np.flatnonzero(np.diff(offsets))
    edges = data[offsets[filled]], data[offsets[filled + 1] - 1]
    return pc.utf8_trim_whitespace(texts) if any(_MAY_BE_BLANK[edge].any() for edge in edges) else texts


def _find_marks(data: np.ndarray, offsets: np.ndarray, brackets: bytes, separators: bytes) -> tuple[np.ndarray, int]:
    """Marks each byte that opens, parts or closes a text's list; finds the first text that is no list.

    Returns the marks, and that text's number or the number of texts. Behind it the marks may be wrong: depths and
    quotes are counted through all texts.
    """
    opener, closer = brackets
    is_separator = np.zeros(256, bool)
    is_separator[list(separators)] = True
    places = np.flatnonzero(((DEPTH != 0) | is_separator | (np.arange(256) == QUOTE))[data])
    kinds = data[places]
    firsts = np.searchsorted(places, offsets)
    is_last = np.zeros(len(places), bool)
    is_last[firsts[1:][firsts[1:] > firsts[:-1]] - 1] = True
    change, is_bad = DEPTH[kinds], np.zeros(len(places), bool)
    quotes = kinds == QUOTE
    if quotes.any():
        is_escaped = find_escaped_quotes(data, places, quotes)
        is_inside = np.cumsum(quotes & ~is_escaped, dtype=np.int32) & 1 == 1
        change[is_inside] = 0
        is_bad = (is_escaped & ~is_inside) | (is_last & is_inside)  # outside of strings nothing is escaped
        is_separated = is_separator[kinds] & ~is_inside
    else:
        is_separated = is_separator[kinds]
    depth = np.cumsum(change, dtype=np.int32)
    is_bad |= (depth > MAX_DEPTH + 1) | ((depth < 1) ^ is_last)
    marks = np.zeros(len(data), np.uint8)
    marks[places[is_separated & (depth == 1)]] = _SEPARATOR
    is_long = np.diff(offsets) > 1
    begins, ends = offsets[:-1][is_long], offsets[1:][is_long] - 1
    is_list = is_long.copy()
    is_list[is_long] = (data[begins] == opener) & (data[ends] == closer)
    is_list[np.searchsorted(firsts, np.flatnonzero(is_bad)[:1], side="right") - 1] = False
    marks[begins], marks[ends] = _OPEN, _CLOSE
    return marks, len(is_list) if is_list.all() else int(is_list.argmin())


def _check_turns(
    marks: np.ndarray, openings: np.ndarray, counts: np.ndarray, separators: bytes, rows: np.ndarray
) -> None:
    """Raises for the first list in which the two separators do not take turns; its brackets are not looked at."""
    list_of_mark = np.repeat(np.arange(len(openings)), counts + 1)
    place = np.arange(len(marks)) - openings[list_of_mark]
    is_inner = (place > 0) & (place < counts[list_of_mark])
    expected = np.where(place % 2 == 1, separators[1], separators[0])
    wrong = np.flatnonzero(is_inner & (marks != expected))
    if len(wrong):
        raise NotAListError(int(rows[list_of_mark[wrong[0]]]))


def _drop_empty_last(
    counts: np.ndarray, elements: pa.Array, rows: np.ndarray, *, may_end_in_comma: bool
) -> tuple[np.ndarray, pa.Array]:
    """Removes the empty element between empty brackets, and behind the last comma of a tuple.

    No other element may be empty.
    """
    is_empty = np.asarray(pc.equal(pc.binary_length(elements), 0))
    if not is_empty.any():
        return counts, elements
    ends = np.cumsum(counts)
    is_dropped = is_empty[ends - 1] & ((counts == 1) | may_end_in_comma)
    is_kept = np.ones(len(elements), bool)
    is_kept[ends[is_dropped] - 1] = False
    missing = np.flatnonzero(is_empty & is_kept)
    if len(missing):
        raise NotAListError(int(rows[np.searchsorted(ends, missing[0], side="right")]))
    return counts - is_dropped, elements.filter(pa.array(is_kept))
