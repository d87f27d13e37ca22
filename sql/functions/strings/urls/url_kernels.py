"""Scan kernels for the parts of URLs, found by the positions of separators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sql.functions.strings.string_kernels import copy_nulls, slice_texts, text_buffers
from sql.typing.column_kernels.kernels import text_bytes, text_offsets

_BYTES = np.arange(256)
_STOPS = np.isin(_BYTES, list(b" \t\n\v\f\r<>%{}|\\^~[];=&@:/?#"))
_LETTERS = (ord("a") <= (_BYTES | 32)) & (ord("z") >= (_BYTES | 32))
_NO_SCHEME = ~(_STOPS | _LETTERS | ((ord("0") <= _BYTES) & (ord("9") >= _BYTES)) | np.isin(_BYTES, list(b"+.-")))
_BEHIND_HOST = np.isin(_BYTES, list(b":/?#"))
_END = 0
"""Stands for the byte after a text's end, where a host may end."""
_BEHIND_HOST[_END] = True


def url_hosts(texts: pa.Array, *, without_www: bool) -> pa.Array:
    """Returns the hosts of URLs, ``""`` where there is none.

    A host stands between scheme and user and the next separator. It contains a dot and does not end with one.
    """
    urls = _UrlColumn(texts)
    begins, ends, are_found = urls.find_hosts()
    begins = np.where(are_found, begins, ends)
    if without_www:
        has_www = are_found & urls.contain_at(begins, b"www.") & (ends - begins > 4)
        begins = np.where(has_www, begins + 4, begins)
    words = slice_texts(urls.data, begins, ends)
    return copy_nulls(words, texts)


def url_paths(texts: pa.Array) -> pa.Array:
    """Returns the paths: from the first slash after the host up to ``?`` or ``#``."""
    offsets, data = text_buffers(texts)
    begins, limits = offsets[:-1], offsets[1:]
    is_end = (data == ord("?")) | (data == ord("#"))
    marks, ends = _SortedPositions(is_end | (data == ord("/"))), _SortedPositions(is_end)
    padded = np.append(data, np.zeros(2, np.uint8))
    first = np.minimum(marks.next(begins), limits)
    has_slashes = (first + 1 < limits) & (padded[first] == ord("/")) & (padded[first + 1] == ord("/"))
    starts = np.minimum(marks.next(np.where(has_slashes, first + 2, begins)), limits)
    is_path = (starts < limits) & (padded[starts] == ord("/"))
    stops = np.where(is_path, np.minimum(ends.next(starts), limits), starts)
    return copy_nulls(slice_texts(data, starts, stops), texts)


def url_schemes(texts: pa.Array) -> pa.Array:
    """Returns the schemes, such as ``https``, ``""`` where there is none."""
    urls = _UrlColumn(texts)
    return copy_nulls(
        slice_texts(urls.data, urls.begins, np.where(urls.are_schemes, urls.scheme_ends, urls.begins)), texts
    )


def url_queries(texts: pa.Array) -> pa.Array:
    """Returns the queries: from after the first question mark to the next ``#``."""
    data, limits, marks, hashes = _query_bounds(texts)
    begins = np.minimum(marks + 1, limits)
    return copy_nulls(slice_texts(data, begins, np.maximum(begins, hashes)), texts)


def cut_queries(texts: pa.Array) -> pa.Array:
    """Returns the URLs without the first question mark and the query after it."""
    data, limits, marks, hashes = _query_bounds(texts)
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.diff(limits, prepend=0) - (hashes - marks), out=offsets[1:])
    changes = np.zeros(len(data) + 1, np.int8)
    some = hashes > marks
    changes[marks[some]] += 1
    changes[hashes[some]] -= 1
    kept = data[np.cumsum(changes[:-1], dtype=np.int8) == 0]
    made = pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(kept)])
    return copy_nulls(made, texts)


def url_fragments(texts: pa.Array) -> pa.Array:
    """Returns the fragments: the text after the first ``#``."""
    offsets, data = text_buffers(texts)
    limits = offsets[1:]
    begins = np.minimum(np.minimum(_SortedPositions(data == ord("#")).next(offsets[:-1]), limits) + 1, limits)
    return copy_nulls(slice_texts(data, begins, limits), texts)


def _query_bounds(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bytes, and for each text its end, its first ``?`` and the first ``#`` after that.

    Missing characters are given as the end of the text.
    """
    offsets, data = text_buffers(texts)
    limits = offsets[1:]
    marks = np.minimum(_SortedPositions(data == ord("?")).next(offsets[:-1]), limits)
    return data, limits, marks, np.minimum(_SortedPositions(data == ord("#")).next(marks), limits)


class _SortedPositions:
    """Sorted positions in a run of bytes."""

    def __init__(self, which: np.ndarray) -> None:
        self._places = np.append(np.flatnonzero(which), len(which)).astype(np.int32)
        self._before = np.zeros(len(which) + 1, np.int32)
        np.cumsum(which, out=self._before[1:])
        self.count = len(self._places) - 1

    def next(self, begins: np.ndarray) -> np.ndarray:
        """Returns the first position at or after each beginning; the end if there is none."""
        return self._places[self._before[np.minimum(begins, len(self._before) - 1)]]


class _UrlColumn:
    """A column of URLs: the bytes ``data``, and for each URL ``begins`` and ``limits``.

    ``starts`` are the positions after the scheme and slashes, if there are any.
    """

    def __init__(self, texts: pa.Array) -> None:
        offsets = text_offsets(texts).astype(np.int64)
        self.data = text_bytes(texts)[offsets[0] : offsets[-1]]
        self._padded = np.append(self.data, np.zeros(8, np.uint8))
        offsets -= offsets[0]
        self.begins, self.limits = offsets[:-1], offsets[1:]
        self._stops = _SortedPositions(_STOPS[self.data])
        self._points = _SortedPositions(self.data == ord("."))
        self._no_scheme = _SortedPositions(_NO_SCHEME[self.data])
        self.scheme_ends = self._next(self._stops, self.begins)
        is_scheme = self._have_scheme_slashes()
        self.are_schemes = is_scheme & _LETTERS[self._padded[self.begins]] & (self.scheme_ends + 3 < self.limits)
        slashes = np.where(self.contain_at(self.begins, b"//"), self.begins + 2, self.begins)
        self.starts = np.where(is_scheme, self.scheme_ends + 3, slashes)

    def _next(self, places: _SortedPositions, begins: np.ndarray) -> np.ndarray:
        """Returns the first of the places at or after each beginning; the limit if there is none."""
        return np.minimum(places.next(begins), self.limits)

    def contain_at(self, places: np.ndarray, word: bytes) -> np.ndarray:
        """Tells at which places the word stands, within the limits of the texts."""
        result = places + len(word) <= self.limits
        for number, byte in enumerate(word):
            result &= self._padded[np.minimum(places + number, len(self.data))] == byte
        return result

    def _have_scheme_slashes(self) -> np.ndarray:
        """Tells which scheme ends are followed by ``://``.

        The text before may begin with a digit, though a real scheme begins with a letter.
        """
        ends = self.scheme_ends
        result = self.contain_at(ends, b"://") & (ends > self.begins)
        if self._no_scheme.count:
            result &= self._next(self._no_scheme, self.begins) >= ends
        return result

    def find_hosts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns where hosts would begin and end, and which of them are hosts."""
        begins, ends = self.starts, self._next(self._stops, self.starts)
        has_user = self.contain_at(ends, b"@")
        if has_user.any():
            begins = np.where(has_user, ends + 1, begins)
            ends = np.where(has_user, self._next(self._stops, begins), ends)
        return begins, ends, self.are_hosts(begins, ends)

    def are_hosts(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Tells which pieces contain a dot, do not end with one, and are followed by a legal separator."""
        behind = np.where(ends < self.limits, self._padded[ends], _END)
        is_pointed = (self._next(self._points, begins) < ends) & (self._padded[np.maximum(ends - 1, 0)] != ord("."))
        return _BEHIND_HOST[behind] & is_pointed
