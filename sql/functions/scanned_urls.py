"""Hosts of URLs, as scans find them: by the places of the characters that no host has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.functions.scanned_strings import pieces
from sql.typing.kernels import text_bytes, text_offsets, validity

_BYTES = np.arange(256)
_STOPS = np.isin(_BYTES, list(b" \t\n\v\f\r<>%{}|\\^~[];=&@:/?#"))
_LETTERS = (ord("a") <= (_BYTES | 32)) & (ord("z") >= (_BYTES | 32))
_NO_SCHEME = ~(_STOPS | _LETTERS | ((ord("0") <= _BYTES) & (ord("9") >= _BYTES)) | np.isin(_BYTES, list(b"+.-")))
_BEHIND_HOST = np.isin(_BYTES, list(b":/?#"))
_END = 0
"""Stands for what is behind a text, where a host may end."""
_BEHIND_HOST[_END] = True


def hosts(texts: pa.Array, *, without_www: bool) -> pa.Array:
    """What is a host between its scheme and user and the next mark, has a point, and something behind it; else the
    same of the scheme."""
    urls = _Urls(texts)
    begins, ends, are_found = urls.behind_scheme()
    is_odd = ~are_found & (urls.starts > urls.begins)
    if is_odd.any():
        begins, ends = np.where(is_odd, urls.begins, begins), np.where(is_odd, urls.scheme_ends, ends)
        are_found |= is_odd & urls.are_hosts(begins, ends)
    begins = np.where(are_found, begins, ends)
    if without_www:
        has_www = are_found & urls.have(begins, b"www.") & (ends - begins > 4)
        rest = np.where(has_www, begins + 4, begins)
        begins = np.where(has_www & urls.are_hosts(rest, ends), rest, begins)
    words = pieces(urls.data, begins, ends)
    if not texts.null_count:
        return words
    buffers = words.buffers()
    known = validity(np.asarray(pc.is_valid(texts)))
    return pa.Array.from_buffers(pa.string(), len(words), [known, *buffers[1:]])


class _Urls:
    """Texts in ``data`` from ``begins`` to ``limits``; ``starts`` are behind scheme and slashes, if there are any."""

    def __init__(self, texts: pa.Array) -> None:
        offsets = text_offsets(texts).astype(np.int64)
        self.data = text_bytes(texts)[offsets[0] : offsets[-1]]
        self._padded = np.append(self.data, np.zeros(8, np.uint8))
        offsets -= offsets[0]
        self.begins, self.limits = offsets[:-1], offsets[1:]
        self._stops = np.append(np.flatnonzero(_STOPS[self.data]), len(self.data))
        self._points = np.append(np.flatnonzero(self.data == ord(".")), len(self.data))
        self._no_scheme = np.append(np.flatnonzero(_NO_SCHEME[self.data]), len(self.data))
        self.scheme_ends = self._next(self._stops, self.begins)
        self.starts = self._behind_slashes()

    def _next(self, places: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """The first of the places at or behind each beginning, the limit if there is none."""
        return np.minimum(places[np.searchsorted(places, begins)], self.limits)

    def have(self, places: np.ndarray, word: bytes) -> np.ndarray:
        """Whether the word stands there, as far as the texts go."""
        result = places + len(word) <= self.limits
        for number, byte in enumerate(word):
            result &= self._padded[np.minimum(places + number, len(self.data))] == byte
        return result

    def _behind_slashes(self) -> np.ndarray:
        ends = self.scheme_ends
        is_scheme = self.have(ends, b"://") & _LETTERS[self._padded[self.begins]] & (ends > self.begins)
        if len(self._no_scheme) > 1:
            is_scheme &= self._next(self._no_scheme, self.begins) >= ends
        starts = np.where(self.have(self.begins, b"//"), self.begins + 2, self.begins)
        return np.where(is_scheme, ends + 3, starts)

    def behind_scheme(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where hosts would begin and end, and whether they are hosts."""
        begins, ends = self.starts, self._next(self._stops, self.starts)
        has_user = self.have(ends, b"@")
        if has_user.any():
            begins = np.where(has_user, ends + 1, begins)
            ends = np.where(has_user, self._next(self._stops, begins), ends)
        return begins, ends, self.are_hosts(begins, ends)

    def are_hosts(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        behind = np.where(ends < self.limits, self._padded[ends], _END)
        return _BEHIND_HOST[behind] & (self._next(self._points, begins) < ends - 1)
