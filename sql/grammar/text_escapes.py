"""Resolves and makes backslash escapes in whole arrays at once.

Both directions run in one left-to-right pass over the bytes (polars' Aho-Corasick replacement). That resolves ``\\\\n``
(an escaped backslash and an n) correctly. Arrays without a backslash are returned as they are.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError

_LITERAL_CHARACTERS = "\\'\"`/=" + "".join(map(chr, range(32)))
"""A backslash before one of these is dropped; before a character that is not listed here or below it stays."""
_KNOWN = {char: char for char in _LITERAL_CHARACTERS} | {
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
    """Cuts a text to the length that an error message shows."""
    return text if len(text) <= length else text[:length] + "…"


def concatenate_bytes(texts: pa.Array, skip: int = 0) -> bytes:
    """Returns the texts joined, without the first ``skip`` bytes: their data buffer."""
    data = texts.buffers()[2] if len(texts) else None
    if data is None:
        return b""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    start, end = int(offsets[texts.offset]) + skip, int(offsets[texts.offset + len(texts)])
    return data.slice(start, end - start).to_pybytes()


def may_contain(texts: pa.Array, *patterns: str) -> bool:
    """Returns whether one of the patterns may be in one of the texts.

    It searches all texts as one, so a match may cross two neighbours.
    """
    if not len(texts) or texts.buffers()[2] is None:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    start, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    data = np.frombuffer(texts.buffers()[2], np.uint8, end - start, start)
    return any(has_pattern(data, pattern.encode()) for pattern in patterns)


def has_pattern(data: np.ndarray, pattern: bytes) -> bool:
    """Returns whether a pattern of a few bytes is in the data.

    ``in`` would hold the GIL, and is slow for more than one byte.
    """
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
    """Replaces every occurrence of a key by its value, in one pass."""
    import polars as pl  # takes 0.1 s

    series = pl.Series(values=pl.from_arrow(texts))
    replaced = series.str.replace_many(list(mapping), list(mapping.values()))
    return pc.cast(replaced.to_arrow(), pa.string())


def unescape(texts: pa.Array) -> pa.Array:
    """Resolves backslash escapes. Raises 117 (INCORRECT_DATA) where bytes of ``\\x`` are not UTF-8."""
    if not may_contain(texts, "\\"):
        return texts
    if may_contain(texts, "\\x"):  # \xHH may be any byte, so each distinct text is resolved by itself
        return _resolve_distinct(texts, _SEQUENCE)
    return replace_many(texts, _UNESCAPES)


def unescape_bytes(values: pa.Array) -> pa.Array:
    """Resolves backslash escapes in bytes that need not be UTF-8.

    Where they are not, each distinct value is resolved by itself.
    """
    if not may_contain(values, "\\"):
        return values
    if is_valid_utf8(values) and not may_contain(values, "\\x"):
        return pc.cast(replace_many(view_as_text(values), _UNESCAPES), pa.binary())
    encoded = pc.dictionary_encode(values)
    plain = [_SEQUENCE.sub(_resolve_match, value) for value in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(plain, pa.binary()), encoded.indices)


def unescape_quoted(texts: pa.Array) -> pa.Array:
    """Resolves backslash escapes and doubled quotes in the bodies of string literals."""
    if not may_contain(texts, "''"):
        return unescape(texts)
    if may_contain(texts, "\\x"):
        return _resolve_distinct(texts, _QUOTED_SEQUENCE)
    return replace_many(texts, _UNESCAPES | {"''": "'"})


def _resolve_distinct(texts: pa.Array, sequence: re.Pattern[bytes]) -> pa.Array:
    """Resolves each distinct text by itself. Raises ``UserError`` 117 for bytes that are not UTF-8."""
    encoded = pc.dictionary_encode(texts)
    values = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(sequence.sub(_resolve_match, text.encode()).decode())
        except UnicodeDecodeError:
            raise UserError(
                "INCORRECT_DATA",
                f"The escapes in {shorten_for_message(text)!r} give invalid UTF-8: String columns hold valid UTF-8",
            ) from None
    return pc.take(pa.array(values, pa.string()), encoded.indices)


def _resolve_match(match: re.Match[bytes]) -> bytes:
    sequence = match.group()
    if sequence == b"''":
        return b"'"
    if match.group(1):
        return bytes([int(match.group(1), 16)])
    return _BYTES.get(sequence, sequence)


def escape(texts: pa.Array, mapping: dict[str, str]) -> pa.Array:
    """Replaces every key of ``mapping`` (single characters) in the texts."""
    data = concatenate_bytes(texts)
    needed = {char: escaped for char, escaped in mapping.items() if char.encode() in data}
    if not needed:
        return texts
    if is_valid_utf8(texts):
        return replace_many(texts, needed)
    # Bytes of a FixedString that are not UTF-8: the backslash first, so that none is escaped twice.
    for char in sorted(needed, key="\\".__ne__):
        texts = pc.replace_substring(texts, char, needed[char])
    return texts


def is_valid_utf8(values: pa.Array) -> bool:
    """Returns whether every value (binary, or called a string) is UTF-8 and the offsets are in order.

    All values are checked as one text; each is valid if it also begins between characters. If that fails, they are
    checked one by one, since nulls may have anything under them.
    """
    if len(values) and _is_valid_as_one_text(values):
        return True
    try:
        view_as_text(values).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_valid_as_one_text(values: pa.Array) -> bool:
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
    """Returns binary values as strings without a check, for functions that only move bytes."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
