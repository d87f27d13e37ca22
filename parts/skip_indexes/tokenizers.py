"""Split strings into tokens, as the tokenizers of ClickHouse's ``text`` index do.

``splitByNonAlpha``: words of letters, digits and bytes beyond ASCII. ``splitByString`` (separators): the text between
them. ``ngrams`` (n): all runs of n characters. ``array``: the string itself. No token is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.skip_indexes.byte_ngrams import find_words
from parts.skip_indexes.value_hashes import RowTexts, get_row_texts

_BYTES_AT_ONCE = 1 << 22
_INNER_BYTE = 0b1000_0000
"""The two highest bits of every byte of a UTF-8 character except its first."""


@dataclass(frozen=True)
class RowTokens:
    """The tokens of all strings, one after the other (binary).

    Those of row ``i`` end before ``ends[i + 1]``.
    """

    values: pa.Array
    ends: np.ndarray


def tokenize(arguments: Sequence[float | str], array: pa.Array) -> Iterator[RowTokens]:
    """Yields the tokens of strings, or arrays of strings, some rows at a time.

    ``arguments``: the tokenizer and its own arguments.
    """
    rows = _rows_at_once(array)
    for first in range(0, len(array), rows):
        yield _tokens(arguments, get_row_texts(array.slice(first, rows)))


def tokenize_array(arguments: Sequence[float | str], array: pa.Array) -> list[bytes]:
    """Returns all tokens of the strings."""
    return [token for tokens in tokenize(arguments, array) for token in tokens.values.to_pylist()]


def tokenize_string(arguments: Sequence[float | str], text: str) -> list[bytes]:
    """Returns the distinct tokens of a string."""
    return list(dict.fromkeys(tokenize_array(arguments, pa.array([text]))))


def _rows_at_once(array: pa.Array) -> int:
    plain = len(array) * 64 if pa.types.is_dictionary(array.type) else array.nbytes
    return max(1, len(array) * _BYTES_AT_ONCE // max(plain, 1))


def _tokens(arguments: Sequence[float | str], texts: RowTexts) -> RowTokens:
    match arguments:
        case ("splitByNonAlpha",):
            begins, stops, ends = find_words(texts)
        case ("ngrams", length):
            begins, stops, ends = _runs(texts, int(length))
        case ("splitByString", *separators):
            return _between(texts, [str(separator) for separator in separators])
        case _:
            begins, stops, ends = texts.begins, texts.stops, texts.ends
    return _filled(_gathered(texts.data, begins, stops), stops - begins, ends)


def _filled(values: pa.Array, lengths: np.ndarray, ends: np.ndarray) -> RowTokens:
    filled = lengths > 0
    if filled.all():
        return RowTokens(values, ends)
    return RowTokens(values.filter(pa.array(filled)), np.concatenate(([0], np.cumsum(filled)))[ends])


def _runs(texts: RowTexts, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds all runs of ``length`` characters."""
    origin, end = (int(texts.begins[0]), int(texts.stops[-1])) if len(texts.begins) else (0, 0)
    starts = np.append(np.flatnonzero(texts.data[origin:end] & 0b1100_0000 != _INNER_BYTE) + origin, end)
    first = np.searchsorted(starts, texts.begins)
    characters = np.searchsorted(starts, texts.stops) - first
    counts = np.maximum(characters - (length - 1), 0)
    ends = np.concatenate(([0], np.cumsum(counts)))
    place = np.arange(int(ends[-1])) + np.repeat(first - ends[:-1], counts)
    return starts[place], starts[place + length], ends[texts.ends]


def _between(texts: RowTexts, separators: Sequence[str]) -> RowTokens:
    """Returns the text between separators. At each position the first matching separator is taken."""
    pattern = "|".join(re.escape(separator) for separator in separators)
    pieces = pc.split_pattern_regex(_gathered(texts.data, texts.begins, texts.stops), pattern=pattern)
    inner = pieces.flatten()
    lengths = pc.binary_length(inner).to_numpy(zero_copy_only=False)
    return _filled(inner, lengths, pieces.offsets.to_numpy()[texts.ends].astype(np.int64))


def _gathered(data: np.ndarray, begins: np.ndarray, stops: np.ndarray) -> pa.Array:
    """Returns the pieces of ``data`` as an array."""
    offsets = np.concatenate(([0], np.cumsum(stops - begins)))
    if len(begins) and np.array_equal(begins[1:], stops[:-1]):  # one after the other, as they are in ``data``
        held = data[int(begins[0]) : int(stops[-1])]
    else:
        held = data[np.arange(int(offsets[-1])) + np.repeat(begins - offsets[:-1], stops - begins)]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(held))]
    return pa.Array.from_buffers(pa.large_binary(), len(begins), buffers)
