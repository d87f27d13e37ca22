"""What scans compute of strings, a batch at a time: places, counts, words. Bytes are counted, as in ClickHouse."""

from __future__ import annotations

import string
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.kernels import column, masked_bits, needle_places, numbers, text_bytes, text_offsets, validity
from sql.typing.scannable import Compute

WORDS = pa.list_(pa.string())
_HEXADECIMAL = np.frombuffer(b"0123456789ABCDEF", np.uint8)
ALPHA, NO_SPACE, NO_PUNCTUATION = np.zeros(256, bool), np.ones(256, bool), np.ones(256, bool)
ALPHA[list(string.ascii_letters.encode())] = True
NO_SPACE[list(b" \t\n\f\r")] = False
NO_TOKEN = np.ones(256, bool)
NO_TOKEN[list(string.ascii_letters.encode() + string.digits.encode()) + list(range(128, 256))] = False
_SAMPLE_BYTES = 4096
_FOLDED = {"k": "\u212a", "s": "\u017f"}
"""Letters that are none of ASCII, and equal to one without regard to case: in patterns, but not in a plain search."""
NO_PUNCTUATION[list(b" \t\n\f\r" + string.punctuation.encode())] = False


def place_of(needle: str) -> Compute:
    """Where the needle begins, from 1; 0 if nowhere."""
    return partial(_place_of, needle)


def _place_of(needle: str, texts: pa.Array) -> pa.Array:
    return pc.cast(pc.add(pc.find_substring(texts, needle), 1), pa.uint64())


def count_of(needle: str) -> Compute:
    return lambda texts: pc.cast(pc.count_substring(texts, needle), pa.uint64())


def token_test(token: str) -> Compute:
    """Whether the token stands between characters that no token has."""
    return partial(_has_token, token.encode())


def _has_token(token: bytes, texts: pa.Array) -> pa.Array:
    offsets, data, begins, rows = _places(token, texts)
    ends = begins + len(token)
    is_cut_off = (begins == offsets[rows]) | NO_TOKEN[data[begins - 1]]
    after = data[np.minimum(ends, len(data) - 1)] if len(data) else data
    is_cut_off &= (ends == offsets[rows + 1]) | NO_TOKEN[after]
    found = np.zeros(len(texts), bool)
    found[rows[is_cut_off & (ends <= offsets[rows + 1])]] = True
    return masked_bits(found, texts)


def _places(needle: bytes, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where texts begin and end, their bytes, where the needle is found in these, and in which rows it begins."""
    offsets = text_offsets(texts)
    data = text_bytes(texts)[offsets[0] : offsets[-1]] if len(texts) else np.empty(0, np.uint8)
    offsets = offsets - (offsets[0] if len(offsets) else 0)
    begins = needle_places(data, needle, np.bincount(data[:_SAMPLE_BYTES], minlength=256))
    return offsets, data, begins, np.searchsorted(offsets, begins, "right") - 1


def ilike_test(pattern: str) -> Compute:
    """Whether texts are like a pattern of ASCII characters without escapes, whatever the case of letters."""
    small = pattern.lower()
    is_search = small[:1] == small[-1:] == "%" and not set(small[1:-1]) & set("%_")
    folded = [] if is_search else [letter for letter in _FOLDED if letter in small]
    return partial(_is_like, small, folded)


def _is_like(pattern: str, folded: list[str], texts: pa.Array) -> pa.Array:
    lowered = pc.ascii_lower(texts)
    for letter in folded:
        if len(_places(_FOLDED[letter].encode(), texts)[-1]):
            lowered = pc.replace_substring(lowered, _FOLDED[letter], letter)
    return pc.match_like(lowered, pattern)


def trimmed(side: str, characters: str) -> Compute:
    name = {"trim": "utf8_trim", "ltrim": "utf8_ltrim", "rtrim": "utf8_rtrim"}[side]
    if characters.isascii():
        name = name.replace("utf8", "ascii")
    trim = getattr(pc, name)
    return lambda texts: trim(texts, characters=characters)


def first_bytes(texts: pa.Array) -> pa.Array:
    """The number of the first byte, 0 of nothing."""
    offsets, data = text_offsets(texts), np.append(text_bytes(texts), np.uint8(0))
    values = np.where(np.diff(offsets) > 0, data[offsets[:-1]], 0).astype(np.int32)
    return column(values, pa.int32(), texts)


def words_between(separator: str, limit: int) -> Compute:
    """At most ``limit`` of them, all if it is 0."""
    most = limit or None
    return lambda texts: _cut(limit, pc.split_pattern(texts, separator, max_splits=most))


def runs(kind: np.ndarray, limit: int) -> Compute:
    """Runs of bytes of a kind (:data:`ALPHA`, :data:`NO_SPACE`, :data:`NO_PUNCTUATION`), at most ``limit``; 0: all."""
    return lambda texts: _cut(limit, _runs(kind, texts))


def before(delimiter: str, count: int) -> Compute:
    """What stands before the ``count``-th delimiter."""
    return lambda texts: pc.binary_join(words_between(delimiter, count)(texts), delimiter)


def _cut(limit: int, words: pa.Array) -> pa.Array:
    return pc.list_slice(words, 0, limit) if limit > 0 else words


def digits_of(number_bits: int, *, is_binary: bool) -> Compute:
    """The bytes of integers without those before the first that is not zero, but for the last one, as digits."""
    return partial(_digits_of, number_bits // 8, is_binary)


def _digits_of(width: int, is_binary: bool, values: pa.Array) -> pa.Array:
    given = numbers(values, np.dtype(f"u{width}").type)
    spelled = given.astype(f">u{width}").view(np.uint8).reshape(-1, width)
    is_kept = np.logical_or.accumulate(spelled != 0, axis=1)
    is_kept[:, -1] = True
    kept = spelled[is_kept]
    digits = (
        np.unpackbits(kept) + np.uint8(ord("0")) if is_binary else _HEXADECIMAL[np.column_stack([kept >> 4, kept & 15])]
    )
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(is_kept.sum(axis=1) * (8 if is_binary else 2), out=offsets[1:])
    nulls = validity(np.asarray(pc.is_valid(values))) if values.null_count else None
    return pa.Array.from_buffers(pa.string(), len(values), [nulls, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _runs(kind: np.ndarray, texts: pa.Array) -> pa.Array:
    offsets, data = text_offsets(texts), text_bytes(texts)
    first, last = int(offsets[0]) if len(texts) else 0, int(offsets[-1]) if len(texts) else 0
    is_in = np.zeros(last - first + 2, bool)
    is_in[1:-1] = kind[data[first:last]]
    borders = np.zeros(last - first + 1, bool)  # a text ends its last word
    borders[offsets - first] = True
    begins = np.flatnonzero(is_in[1:] & (~is_in[:-1] | borders))
    ends = np.flatnonzero(is_in[:-1] & (~is_in[1:] | borders))
    lists = np.searchsorted(begins, offsets - first).astype(np.int32)
    words = pieces(data[first:last], begins, ends)
    nulls = validity(np.asarray(pc.is_valid(texts))) if texts.null_count else None
    return pa.Array.from_buffers(WORDS, len(texts), [nulls, pa.py_buffer(lists)], children=[words])


def pieces(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
    """The texts between pairs of places."""
    some = ends > begins
    changes = np.zeros(len(data) + 1, np.int8)
    changes[begins[some]] += 1
    changes[ends[some]] -= 1
    kept = data[np.cumsum(changes[:-1], dtype=np.int8).view(bool)] if len(data) else data
    offsets = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(ends - begins, out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(kept)])
