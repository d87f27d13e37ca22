"""Scan kernels for strings: positions, counts, words, padding. They count bytes, as ClickHouse does."""

from __future__ import annotations

import string
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import (
    boolean_column,
    find_needle,
    fixed_width_column,
    fixed_width_values,
    text_bytes,
    text_offsets,
    validity_buffer,
)
from sql.typing.column_kernels.list_arrays import build_lists
from sql.typing.column_kernels.scannable import Compute, split_known_values

WORDS = pa.list_(pa.string())
_SPACES = pa.array([" " * count for count in range(256)])
_PAIRS = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
_BITS = np.frombuffer("".join(f"{byte:08b}" for byte in range(256)).encode(), np.uint64)
"""The binary digits of each byte."""
ALPHA, NO_SPACE, NO_PUNCTUATION = np.zeros(256, bool), np.ones(256, bool), np.ones(256, bool)
ALPHA[list(string.ascii_letters.encode())] = True
NO_SPACE[list(b" \t\n\f\r")] = False
NO_TOKEN = np.ones(256, bool)
NO_TOKEN[list(string.ascii_letters.encode() + string.digits.encode()) + list(range(128, 256))] = False
_SAMPLE_BYTES = 4096
_FOLDED = {"k": "\u212a", "s": "\u017f"}
"""Non-ASCII letters that equal an ASCII letter when case is ignored; this holds in patterns, not in plain searches."""
NO_PUNCTUATION[list(b" \t\n\f\r" + string.punctuation.encode())] = False


def find_position(needle: str) -> Compute:
    """Returns a kernel: the needle's first byte position, from 1, or 0."""
    return partial(_find_in_texts, needle)


def _find_in_texts(needle: str, texts: pa.Array) -> pa.Array:
    return pc.cast(pc.add(pc.find_substring(texts, needle), 1), pa.uint64())


def count_occurrences(needle: str) -> Compute:
    """Returns a kernel that counts the needle's occurrences."""
    return lambda texts: pc.cast(pc.count_substring(texts, needle), pa.uint64())


def token_test(token: str) -> Compute:
    """Returns a kernel that tells whether texts contain the token as a whole word."""
    return partial(_has_token, token.encode())


def _has_token(token: bytes, texts: pa.Array) -> pa.Array:
    """Tells which texts contain the token between bytes that no token has."""
    offsets, data, begins, rows = _find_bytes(token, texts)
    ends = begins + len(token)
    is_cut_off = (begins == offsets[rows]) | NO_TOKEN[data[begins - 1]]
    after = data[np.minimum(ends, len(data) - 1)] if len(data) else data
    is_cut_off &= (ends == offsets[rows + 1]) | NO_TOKEN[after]
    found = np.zeros(len(texts), bool)
    found[rows[is_cut_off & (ends <= offsets[rows + 1])]] = True
    return boolean_column(found, texts)


def _find_bytes(needle: bytes, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Finds a needle in texts.

    Returns the texts' offsets, their bytes, the needle's positions in these bytes and the row of each position.
    """
    offsets = text_offsets(texts)
    data = text_bytes(texts)[offsets[0] : offsets[-1]] if len(texts) else np.empty(0, np.uint8)
    offsets = offsets - (offsets[0] if len(offsets) else 0)
    begins = find_needle(data, needle, np.bincount(data[:_SAMPLE_BYTES], minlength=256))
    return offsets, data, begins, np.searchsorted(offsets, begins, "right") - 1


def ilike_test(pattern: str) -> Compute:
    """Returns a kernel for ILIKE with an ASCII pattern without escapes."""
    small = pattern.lower()
    is_search = small[:1] == small[-1:] == "%" and not set(small[1:-1]) & set("%_")
    folded = [] if is_search else [letter for letter in _FOLDED if letter in small]
    return partial(_match_ilike, small, folded)


def _match_ilike(pattern: str, folded: list[str], texts: pa.Array) -> pa.Array:
    lowered = pc.ascii_lower(texts)
    for letter in folded:
        if len(_find_bytes(_FOLDED[letter].encode(), texts)[-1]):
            lowered = pc.replace_substring(lowered, _FOLDED[letter], letter)
    return pc.match_like(lowered, pattern)


def trim_text(side: str, characters: str) -> Compute:
    """Returns a kernel that trims characters at ``side`` (``trim``: both, ``ltrim``, ``rtrim``)."""
    name = {"trim": "utf8_trim", "ltrim": "utf8_ltrim", "rtrim": "utf8_rtrim"}[side]
    if characters.isascii():
        name = name.replace("utf8", "ascii")
    trim = getattr(pc, name)
    return lambda texts: trim(texts, characters=characters)


def fixed_strings_as_text(compute: Compute) -> Compute:
    """Makes a kernel for strings work on FixedStrings.

    Values that are not UTF-8 are left over for DuckDB, as hexadecimal digits.
    """
    return partial(_compute_fixed, compute)


def _compute_fixed(compute: Compute, values: pa.Array) -> pa.Array:
    blobs = values.cast(pa.binary())
    try:
        known = compute(blobs.cast(pa.string()))
    except pa.ArrowInvalid:
        import polars as pl  # takes 0.1 s

        return split_known_values(
            pa.nulls(len(values), pa.string()),
            pl.from_arrow(blobs).bin.encode("hex").to_arrow().cast(pa.string()),
            np.asarray(pc.is_valid(values)),
        )
    return split_known_values(known, known, np.zeros(len(values), bool))


def pad_text(side: str, fill: str, *, by_bytes: bool) -> Compute:
    """Returns a kernel that pads or cuts texts to a size, in bytes (with an ASCII ``fill``) or characters.

    A cut inside a character gives NULL.
    """
    return partial(_pad_texts, side == "lpad", fill, by_bytes)


def _pad_texts(is_left: bool, fill: str, by_bytes: bool, texts: pa.Array, sizes: pa.Array | int) -> pa.Array:
    """Pads or cuts texts; ``sizes`` is one size, or a column of sizes."""
    is_ascii = text_bytes(texts).max(initial=0) < 128
    lengths = pc.binary_length(texts) if by_bytes or is_ascii else pc.utf8_length(texts)
    if isinstance(sizes, int):
        missing, most = pc.subtract(sizes, lengths), sizes
    else:
        missing, most = pc.subtract(sizes.cast(pa.int32()), lengths), pc.max(sizes).as_py() or 0
    if (pc.min(missing).as_py() or 0) < 0:
        texts = (_first_bytes if by_bytes else _first_characters)(texts, sizes, lengths)
    if isinstance(sizes, int) and len(fill) == 1 and (is_ascii or not by_bytes):
        return (pc.utf8_lpad if is_left else pc.utf8_rpad)(texts, width=sizes, padding=fill)
    pads = pa.array([(fill * (most // len(fill) + 1))[:size] for size in range(most + 1)])
    added = pads.take(pc.max_element_wise(missing, 0, skip_nulls=False))
    return pc.binary_join_element_wise(*((added, texts) if is_left else (texts, added)), "")


def _first_characters(texts: pa.Array, sizes: pa.Array | int, lengths: pa.Array) -> pa.Array:
    """Returns the first characters of each text, as many as ``sizes`` says."""
    if isinstance(sizes, int):
        return pc.utf8_slice_codeunits(texts, 0, sizes)
    kept = np.minimum(np.asarray(lengths.fill_null(0)), np.asarray(sizes.fill_null(0)))
    offsets, data = text_buffers(texts)
    if data.max(initial=0) < 128:
        return copy_nulls(slice_texts(data, offsets[:-1], offsets[:-1] + kept), texts)
    starts = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    first = np.searchsorted(starts, offsets[:-1])
    return copy_nulls(slice_texts(data, offsets[:-1], starts[first + kept]), texts)


def _first_bytes(texts: pa.Array, size: int, lengths: pa.Array) -> pa.Array:
    offsets, data = text_buffers(texts)
    ends = offsets[:-1] + np.minimum(np.asarray(lengths.fill_null(0)), size)
    is_whole = np.append(data & 0xC0 != 0x80, True)[ends]
    return pc.if_else(pa.array(is_whole), copy_nulls(slice_texts(data, offsets[:-1], ends), texts), None)


def text_buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the texts' offsets, from 0, and their bytes."""
    offsets, data = text_offsets(texts), text_bytes(texts)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def copy_nulls(made: pa.Array, like: pa.Array) -> pa.Array:
    """Returns ``made`` with NULL where ``like`` is NULL."""
    if not like.null_count:
        return made
    parts = [validity_buffer(np.asarray(pc.is_valid(like))), *made.buffers()[1:]]
    return pa.Array.from_buffers(made.type, len(made), parts)


def replace_text(old: str, new: str) -> Compute:
    """Returns a kernel that replaces all occurrences of ``old``."""
    if len(old.encode()) == len(new.encode()) == 1:
        return partial(_translate_bytes, bytes.maketrans(old.encode(), new.encode()))
    return lambda texts: pc.replace_substring(texts, old, new)


def _translate_bytes(table: bytes, texts: pa.Array) -> pa.Array:
    offsets, data = text_buffers(texts)
    made = [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes().translate(table))]
    return copy_nulls(pa.Array.from_buffers(pa.string(), len(texts), made), texts)


def slice_characters(begin: int, end: int | None) -> Compute:
    """Returns a kernel that slices texts by characters; negative positions count from the end."""
    return lambda texts: pc.utf8_slice_codeunits(texts, begin, end)


def repeat_blank(counts: pa.Array) -> pa.Array:
    """Returns texts of that many blanks, at most 255."""
    return _SPACES.take(pc.max_element_wise(pc.cast(counts, pa.int16()), 0, skip_nulls=False))


def append_suffix(end: str) -> Compute:
    """Returns a kernel that appends ``end`` to texts that are not empty and do not have it."""
    return partial(_append_byte, end.encode()[0]) if end.isascii() and len(end) == 1 else partial(_append_text, end)


def _append_byte(byte: int, texts: pa.Array) -> pa.Array:
    """Appends an ASCII character to texts that do not end with it."""
    offsets, data = text_buffers(texts)
    if not len(data):
        return texts
    ends = offsets[1:]
    lacks = (ends > offsets[:-1]) & (data[np.maximum(ends - 1, 0)] != byte)
    made = offsets.copy()
    made[1:] += np.cumsum(lacks, dtype=np.int32)
    is_given = np.ones(made[-1], bool)
    is_given[made[1:][lacks] - 1] = False
    spelled = np.full(len(is_given), byte, np.uint8)
    spelled[is_given] = data
    parts = [None, pa.py_buffer(made), pa.py_buffer(spelled)]
    return copy_nulls(pa.Array.from_buffers(pa.string(), len(texts), parts), texts)


def _append_text(end: str, texts: pa.Array) -> pa.Array:
    has_it = pc.or_(pc.ends_with(texts, end), pc.equal(pc.binary_length(texts), 0))
    return pc.binary_join_element_wise(texts, pa.array([end, ""]).take(has_it.cast(pa.int8())), "")


def first_bytes(texts: pa.Array) -> pa.Array:
    """Returns the first byte of each text as a number, 0 for an empty text."""
    offsets, data = text_offsets(texts), np.append(text_bytes(texts), np.uint8(0))
    values = np.where(np.diff(offsets) > 0, data[offsets[:-1]], 0).astype(np.int32)
    return fixed_width_column(values, pa.int32(), texts)


def split_into_words(separator: str, limit: int) -> Compute:
    """Returns a kernel that splits texts at a separator into at most ``limit`` words; 0: all."""
    most = limit or None
    return lambda texts: _limit_words(limit, pc.split_pattern(texts, separator, max_splits=most))


def byte_class_runs(kind: np.ndarray, limit: int) -> Compute:
    """Returns a kernel that lists the runs of bytes of a class, at most ``limit``; 0: all.

    ``kind`` is a table of 256 flags: :data:`ALPHA`, :data:`NO_SPACE`, :data:`NO_PUNCTUATION`.
    """
    return lambda texts: _limit_words(limit, _list_runs(kind, texts))


def substrings_before_delimiter(delimiter: str, count: int) -> Compute:
    """Returns a kernel for ``substringIndex``: the text before the ``count``-th delimiter.

    A negative count takes the text after the delimiter, counted from the end.
    """
    return partial(_cut_at_delimiter, delimiter, count)


def _cut_at_delimiter(delimiter: str, count: int, texts: pa.Array) -> pa.Array:
    """Computes ``substringIndex``."""
    rows = np.flatnonzero(np.asarray(pc.fill_null(pc.count_substring(texts, delimiter), 0)) >= abs(count))
    if not len(rows):
        return texts
    words = pc.split_pattern(texts.take(pa.array(rows)), delimiter, max_splits=abs(count), reverse=count < 0)
    kept = pc.list_slice(words, 0, count) if count > 0 else pc.list_slice(words, 1)
    sizes = np.asarray(pc.binary_length(pc.binary_join(kept, delimiter)))
    offsets, data = text_buffers(texts)
    begins, ends = offsets[:-1].copy(), offsets[1:].copy()
    if count > 0:
        ends[rows] = begins[rows] + sizes
    else:
        begins[rows] = ends[rows] - sizes
    return copy_nulls(slice_texts(data, begins, ends), texts)


def _limit_words(limit: int, words: pa.Array) -> pa.Array:
    """Cuts lists to ``limit`` words. Arrow's ``list_slice`` takes three times as long."""
    lists = build_lists(words)
    return lists.where(lists.places < limit) if limit > 0 else words


def significant_bytes(number_bits: int, *, is_binary: bool) -> Compute:
    """Returns a kernel that writes integers as digits, two (or eight binary) for each byte.

    Leading zero bytes are left out, but the last byte is always written.
    """
    return partial(_format_digits, number_bits // 8, is_binary)


def _format_digits(width: int, is_binary: bool, values: pa.Array) -> pa.Array:
    """Formats integers of ``width`` bytes in hexadecimal or binary."""
    given = fixed_width_values(values, np.dtype(f"u{width}").type)
    if width > 4 and given.max(initial=0) < 1 << 32:
        given, width = given.astype(np.uint32), 4
    sizes = np.ones(len(values), np.uint8)
    for place in range(1, width):
        sizes += given >> np.array(8 * place, given.dtype) != 0
    spelled = given.astype(f">u{width}").view(np.uint8).reshape(-1, width)
    kept = spelled[np.arange(width) >= (width - sizes)[:, None]]
    digits = (_BITS if is_binary else _PAIRS)[kept].view(np.uint8)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes * np.int32(8 if is_binary else 2), out=offsets[1:])
    nulls = validity_buffer(np.asarray(pc.is_valid(values))) if values.null_count else None
    return pa.Array.from_buffers(pa.string(), len(values), [nulls, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _list_runs(kind: np.ndarray, texts: pa.Array) -> pa.Array:
    """Returns lists of the runs of bytes of a class."""
    offsets, data = text_offsets(texts), text_bytes(texts)
    first, last = int(offsets[0]) if len(texts) else 0, int(offsets[-1]) if len(texts) else 0
    is_in = np.zeros(last - first + 2, bool)
    is_in[1:-1] = kind[data[first:last]]
    borders = np.zeros(last - first + 1, bool)  # a word ends with its text
    borders[offsets - first] = True
    begins = np.flatnonzero(is_in[1:] & (~is_in[:-1] | borders))
    ends = np.flatnonzero(is_in[:-1] & (~is_in[1:] | borders))
    lists = np.searchsorted(begins, offsets - first).astype(np.int32)
    words = slice_texts(data[first:last], begins, ends)
    nulls = validity_buffer(np.asarray(pc.is_valid(texts))) if texts.null_count else None
    return pa.Array.from_buffers(WORDS, len(texts), [nulls, pa.py_buffer(lists)], children=[words])


def slice_texts(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Cuts the texts between pairs of byte positions."""
    some = ends > begins
    changes = np.zeros(len(data) + 1, np.int8)
    changes[begins[some]] += 1
    changes[ends[some]] -= 1
    kept = data[np.cumsum(changes[:-1], dtype=np.int8).view(bool)] if len(data) else data
    offsets = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(ends - begins, out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(kept)])
