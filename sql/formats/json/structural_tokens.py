"""Finds brackets, colons and commas of JSON lines for all bytes at once, and replaces them.

Tokens are ordered by depth, then by position. So every container is a run: the bracket that opens it, its colons and
commas, the bracket that closes it. No value is looked at alone, however deep it lies.
"""

from __future__ import annotations

import numpy as np

QUOTE, BACKSLASH, COMMA, COLON, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = b'"\\,:[]{}'
_STEPS = np.zeros(256, np.int8)
_STEPS[[OPEN_LIST, OPEN_OBJECT]] = 1
_STEPS[[CLOSE_LIST, CLOSE_OBJECT]] = -1
_IS_BLANK = np.isin(np.arange(256), list(b" \t\r\n"))
_IS_TOKEN = _STEPS != 0
_IS_TOKEN[[COMMA, COLON]] = True


class NotPlainError(Exception):
    """The text is no JSON, or not in the simple form that is supported here."""


class Tokens:
    """The tokens of a text, by number. A container has the number of its opening bracket.

    Tokens deeper than ``levels`` are left out. With ``is_array``, commas between rows become blanks in the ``data``.
    Raises :class:`NotPlainError` where brackets do not match.
    """

    def __init__(self, chunk: bytes, levels: int, *, is_array: bool = False) -> None:
        self.data = np.frombuffer(chunk, np.uint8)
        self.quotes = _find_quotes(self.data)
        if len(self.quotes) & 1:
            raise NotPlainError
        edges = np.zeros(len(self.data) + 1, np.int8)
        edges[self.quotes[::2]], edges[self.quotes[1::2] + 1] = 1, -1
        is_outside = np.cumsum(edges[:-1], dtype=np.int8) == 0
        places = np.flatnonzero(is_outside & _IS_TOKEN[self.data])
        steps = _STEPS[self.data[places]]
        depths = np.cumsum(steps, dtype=np.int32)
        if not len(depths) or depths[-1] or depths.min() < 0:
            raise NotPlainError
        of_level = depths + (steps < 0)  # a closing bracket is on the level of its opening one
        is_near = of_level <= levels
        if is_array and (between := (of_level == 0) & (self.data[places] == COMMA)).any():
            self.data = self.data.copy()
            self.data[places[between]] = ord(" ")
            is_near &= ~between
        self.places, steps = places[is_near], steps[is_near]
        self.kinds = self.data[self.places]
        order = np.argsort(of_level[is_near].astype(np.int16), kind="stable") if levels > 1 else np.arange(len(steps))
        self._order, self._ranks = order, np.empty_like(order)
        self._ranks[order] = np.arange(len(order))
        self._begins, self._ends = np.flatnonzero(steps[order] > 0), np.flatnonzero(steps[order] < 0)
        self._check_containers()
        self.rows = order[self._begins[: np.count_nonzero((depths == 1) & (_STEPS[self.data[places]] > 0))]]

    def _check_containers(self) -> None:
        begins, ends = self._begins, self._ends
        if not len(begins) or len(begins) != len(ends) or begins[0] or ends[-1] != len(self.kinds) - 1:
            raise NotPlainError
        kinds = self.kinds[self._order]
        if (begins[1:] != ends[:-1] + 1).any() or (kinds[ends] != kinds[begins] + 2).any():
            raise NotPlainError

    def members(self, containers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns how many colons and commas each container has, and which."""
        begins = self._ranks[containers]
        counts = self._ends[np.searchsorted(self._begins, begins)] - begins - 1
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return counts, self._order[np.repeat(begins + 1, counts) + within]

    def find_closers(self, containers: np.ndarray) -> np.ndarray:
        """Returns the closing brackets of the containers."""
        return self._order[self._ends[np.searchsorted(self._begins, self._ranks[containers])]]

    def behind(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the containers that begin right behind these tokens."""
        following = np.sort(tokens) + 1
        following = following[following < len(self.kinds)]
        return following[_STEPS[self.kinds[following]] > 0]

    def check_blank(self, begins: np.ndarray, ends: np.ndarray) -> None:
        """Raises :class:`NotPlainError` if ``data[begin:end]`` of a pair has more than blanks."""
        lengths = ends - begins
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if not _IS_BLANK[self.data[np.repeat(begins, lengths) + within]].all():
            raise NotPlainError

    def pairs(self, containers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns how many colons and commas each object has, the colons, and the commas.

        Raises :class:`NotPlainError` for anything but objects.
        """
        counts, members = self.members(containers)
        within = np.arange(len(members)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_colon = self.kinds[members] == COLON
        is_odd_or_none = (counts & 1 == 1) | (counts == 0)
        if (self.kinds[containers] != OPEN_OBJECT).any() or not is_odd_or_none.all():
            raise NotPlainError
        if (is_colon != (within & 1 == 0)).any():
            raise NotPlainError
        return counts, members[is_colon], members[~is_colon]

    def has_key(self, colons: np.ndarray, key: bytes) -> np.ndarray:
        """Returns a mask of the colons behind this key (given with its quotes).

        Raises :class:`NotPlainError` where a key has a backslash.
        """
        at = np.searchsorted(self.quotes, self.places[colons]) - 1
        if (at < 1).any():
            raise NotPlainError
        begins, ends = self.quotes[at - 1], self.quotes[at] + 1
        if (self.data == BACKSLASH).any():
            slashes = np.append(0, np.cumsum(self.data == BACKSLASH, dtype=np.int64))
            if (slashes[begins] != slashes[ends]).any():
                raise NotPlainError
        found = ends - begins == len(key)
        texts = self.data[begins[found][:, None] + np.arange(len(key))]
        found[found] = (texts == np.frombuffer(key, np.uint8)).all(axis=1)
        return found


def _find_quotes(data: np.ndarray) -> np.ndarray:
    """Returns where strings begin and end: quotes behind an even number of backslashes."""
    quotes = np.flatnonzero(data == QUOTE)
    backslashes = np.flatnonzero(data == BACKSLASH)
    if not len(backslashes):
        return quotes
    is_first = np.append(True, np.diff(backslashes) != 1)
    run_begins = np.maximum.accumulate(np.where(is_first, backslashes, 0))
    is_escaping = (backslashes - run_begins) % 2 == 0
    return quotes[~np.isin(quotes, backslashes[is_escaping] + 1)]


class Replacements:
    """Texts that replace tokens, padded with blanks to one length."""

    def __init__(self, tokens: Tokens) -> None:
        self._places = tokens.places
        self._data = tokens.data.copy()
        self._codes = np.zeros(len(tokens.kinds), np.int32)
        self._texts = [b""]

    def put(self, tokens: np.ndarray, *texts: str) -> None:
        """Replaces the first token by the first text, the second by the second, and so on in turn."""
        if len(texts) == 1 and len(texts[0]) == 1:
            self._data[self._places[tokens]] = ord(texts[0])
            return
        self._codes[tokens] = len(self._texts) + (np.arange(len(tokens)) % len(texts) if len(texts) > 1 else 0)
        self._texts += [text.encode() for text in texts]

    def result(self) -> bytes:
        """Returns the text with all replacements."""
        replaced = np.flatnonzero(self._codes)
        if not len(replaced):
            return self._data.tobytes()
        places, codes = self._places[replaced], self._codes[replaced]
        size = max(map(len, self._texts)) or 1
        matrix = np.stack([np.frombuffer(text.ljust(size), np.uint8) for text in self._texts])
        spots = (places + np.arange(len(places)) * (size - 1))[:, None] + np.arange(size)
        out = np.empty(len(self._data) + len(places) * (size - 1), np.uint8)
        out[spots] = matrix[codes]
        is_data, is_kept = np.ones(len(out), bool), np.ones(len(self._data), bool)
        is_data[spots], is_kept[places] = False, False
        out[is_data] = self._data[is_kept]
        return out.tobytes()
