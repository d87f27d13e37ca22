"""Backslash escapes, resolved and made for whole arrays at once.

Both directions run in one left-to-right pass over the bytes (polars' Aho-Corasick replacement), which is what makes
``\\\\n`` (an escaped backslash and an n) come out right. Arrays without a backslash are returned as they are.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError

_THEMSELVES = "\\'\"`/=" + "".join(map(chr, range(32)))
"""A backslash before one of these goes; before any other character that is not listed below it stays."""
_KNOWN = {char: char for char in _THEMSELVES} | {
    "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0",
}  # fmt: skip
_UNESCAPES = {f"\\{letter}": char for letter, char in _KNOWN.items()} | {"\\N": ""}
_BYTES = {escape.encode(): char.encode() for escape, char in _UNESCAPES.items()}
_SEQUENCE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|.)", re.DOTALL)
_QUOTED_SEQUENCE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|.)|''", re.DOTALL)
TSV_ESCAPES = {
    "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "'": "\\'",
}  # fmt: skip
_FIRST_NOT_ASCII = 0x80
_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80
"""Bytes of UTF-8 inside a character are 10xxxxxx."""


def shorten_for_message(text: str, length: int = 60) -> str:
    """As much of a text as an error message shows."""
    return text if len(text) <= length else text[:length] + "…"


def concatenate_bytes(texts: pa.Array, skip: int = 0) -> bytes:
    """The texts one behind the other, without the first ``skip`` bytes: their data buffer."""
    data = texts.buffers()[2] if len(texts) else None
    if data is None:
        return b""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    start, end = int(offsets[texts.offset]) + skip, int(offsets[texts.offset + len(texts)])
    return data.slice(start, end - start).to_pybytes()


def may_contain(texts: pa.Array, *patterns: str) -> bool:
    """Whether a pattern may be in one of the texts: one search through all of them, so two neighbours may feign it."""
    if not len(texts) or texts.buffers()[2] is None:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    start, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    data = np.frombuffer(texts.buffers()[2], np.uint8, end - start, start)
    return any(has_pattern(data, pattern.encode()) for pattern in patterns)


def has_pattern(data: np.ndarray, pattern: bytes) -> bool:
    """Whether a pattern of a few bytes is in the data. ``in`` holds the GIL, and is slow for more than one byte."""
    size = len(data) - len(pattern) + 1
    if size < 1:
        return False
    found = data[:size] == pattern[0]
    if len(pattern) == 1:
        return bool(found.any())
    places = np.flatnonzero(found)
    for distance, byte in enumerate(pattern[1:], 1):
        places = places[data[places + distance] == byte]
    return len(places) > 0


def replace_many(texts: pa.Array, mapping: dict[str, str]) -> pa.Array:
    """Every occurrence of a key replaced by its value, in one pass."""
    import polars as pl  # takes 0.1 s

    series = pl.Series(values=pl.from_arrow(texts))
    replaced = series.str.replace_many(list(mapping), list(mapping.values()))
    return pc.cast(replaced.to_arrow(), pa.string())


def unescape(texts: pa.Array) -> pa.Array:
    if not may_contain(texts, "\\"):
        return texts
    if may_contain(texts, "\\x"):  # \xHH may be any byte: each distinct text by itself
        return _each_resolved(texts, _SEQUENCE)
    return replace_many(texts, _UNESCAPES)


def unescape_bytes(values: pa.Array) -> pa.Array:
    """The same for bytes that need not be text; if they are none, each distinct value by itself."""
    if not may_contain(values, "\\"):
        return values
    if is_valid_utf8(values) and not may_contain(values, "\\x"):
        return pc.cast(replace_many(view_as_text(values), _UNESCAPES), pa.binary())
    encoded = pc.dictionary_encode(values)
    plain = [_SEQUENCE.sub(_resolved, value) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(plain, pa.binary()), encoded.indices)


def unescape_quoted(texts: pa.Array) -> pa.Array:
    """The bodies of string literals: backslash escapes and doubled quotes."""
    if not may_contain(texts, "''"):
        return unescape(texts)
    if may_contain(texts, "\\x"):
        return _each_resolved(texts, _QUOTED_SEQUENCE)
    return replace_many(texts, _UNESCAPES | {"''": "'"})


def _each_resolved(texts: pa.Array, sequence: re.Pattern[bytes]) -> pa.Array:
    """Raises ``UserError`` 117 for bytes that are no text."""
    encoded = pc.dictionary_encode(texts)
    values = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(sequence.sub(_resolved, text.encode()).decode())
        except UnicodeDecodeError:
            raise UserError(
                "INCORRECT_DATA",
                f"The escapes in {shorten_for_message(text)!r} give invalid UTF-8: String columns hold valid UTF-8",
            ) from None
    return pc.take(pa.array(values, pa.string()), encoded.indices)


def _resolved(match: re.Match[bytes]) -> bytes:
    sequence = match.group()
    if sequence == b"''":
        return b"'"
    if match.group(1):
        return bytes([int(match.group(1), 16)])
    return _BYTES.get(sequence, sequence)


def escape(texts: pa.Array, mapping: dict[str, str]) -> pa.Array:
    """The texts with every key of ``mapping`` (single characters) replaced."""
    data = concatenate_bytes(texts)
    needed = {char: escaped for char, escaped in mapping.items() if char.encode() in data}
    if not needed:
        return texts
    if is_valid_utf8(texts):
        return replace_many(texts, needed)
    # Bytes of a FixedString that are no text: byte by byte, the backslash first so that none is escaped twice.
    for char in sorted(needed, key="\\".__ne__):
        texts = pc.replace_substring(texts, char, needed[char])
    return texts


def is_valid_utf8(values: pa.Array) -> bool:
    """Whether every value (binary, or called a string) is UTF-8, and the offsets lie in order inside the data.

    All values are looked at as one text; that they begin between characters makes each of them one. Only where this
    does not hold (nulls may have anything under them) they are looked at one by one.
    """
    if len(values) and _is_text_at_once(values):
        return True
    try:
        view_as_text(values).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_text_at_once(values: pa.Array) -> bool:
    _, offset_buffer, data = values.buffers()
    if data is None or offset_buffer is None or offset_buffer.size < 4 * (values.offset + len(values) + 1):
        return False
    offsets = np.frombuffer(offset_buffer, np.int32, len(values) + 1, 4 * values.offset)
    start, end = int(offsets[0]), int(offsets[-1])
    if start < 0 or end > data.size or not (offsets[1:] >= offsets[:-1]).all():
        return False
    whole = np.frombuffer(data, np.uint8, end - start, start)
    if not len(whole) or whole.max() < _FIRST_NOT_ASCII:
        return True
    inner = offsets[:-1][offsets[:-1] < end]
    if (np.frombuffer(data, np.uint8)[inner] & _CONTINUATION_MASK == _CONTINUATION).any():
        return False
    bounds = pa.py_buffer(np.array([start, end], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, bounds, data]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def view_as_text(values: pa.Array) -> pa.Array:
    """Binary values called strings without looking, for functions that only move bytes."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
