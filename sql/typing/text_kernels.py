"""Kernels that make texts: the case of ASCII letters, IPv6 addresses. Texts come as BLOBs, as in ``plain_texts``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sql.typing.kernels import Kernel, of_size, text_bytes, text_offsets, validity


def _from_to(first: str, last: str) -> np.ndarray:
    """Of each byte whether it is one of these."""
    found = np.zeros(256, bool)
    found[ord(first) : ord(last) + 1] = True
    return found


_BYTES = np.arange(256)
_UPPER, _LOWER = _from_to("A", "Z"), _from_to("a", "z")
_HEXADECIMAL = np.frombuffer(b"0123456789abcdef", np.uint8)
_TO_LOWER = np.where(_UPPER, _BYTES + 32, _BYTES).astype(np.uint8)
_TO_UPPER = np.where(_LOWER, _BYTES - 32, _BYTES).astype(np.uint8)
_IN_WORD = _UPPER | _LOWER | _from_to("0", "9")


def _texts(like: pa.Array, data: np.ndarray) -> pa.Array:
    """``data`` cut into texts as the bytes of ``like`` are."""
    nulls, offsets, _ = like.buffers()
    parts = [nulls if like.null_count else None, offsets, pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(like), parts, offset=like.offset)


def _lower(texts: pa.Array) -> pa.Array:
    return _texts(texts, _TO_LOWER[text_bytes(texts)])


def _upper(texts: pa.Array) -> pa.Array:
    return _texts(texts, _TO_UPPER[text_bytes(texts)])


def _initcap(texts: pa.Array) -> pa.Array:
    """Letters behind something else than an ASCII letter or digit are upper, others lower."""
    data = _TO_LOWER[text_bytes(texts)]
    in_word = _IN_WORD[data]
    begins = np.ones(len(data), bool)
    begins[1:] = ~in_word[:-1]
    starts = text_offsets(texts)[:-1]
    begins[starts[starts < len(data)]] = True
    return _texts(texts, np.where(begins, _TO_UPPER[data], data))


def _ipv6(addresses: pa.Array) -> pa.Array:
    """Eight words in hexadecimal; the first of the longest runs of zeros, of two or more, is left out."""
    rows, given = of_size(addresses, 16)
    words = (given[:, ::2].astype(np.uint16) << 8) | given[:, 1::2]
    first, size = _longest_run(words == 0)
    place = np.arange(8)
    is_out = (place >= first[:, None]) & (place < (first + size)[:, None])
    letters = np.full((len(rows), 41), ord(":"), np.uint8)
    shown = np.empty((len(rows), 41), bool)
    for digit in range(4):
        nibbles = words >> (12 - 4 * digit)
        letters[:, 1 + digit : 40 : 5] = _HEXADECIMAL[nibbles & 15]
        shown[:, 1 + digit : 40 : 5] = ((nibbles != 0) | (digit == 3)) & ~is_out
    # A colon before each word but the first, one for what is left out, and one more behind that at the end.
    shown[:, 0:40:5] = (~is_out & (place > 0)) | ((place == first[:, None]) & (size > 0)[:, None])
    shown[:, 40] = (size > 0) & (first + size == 8)
    sizes = np.zeros(len(addresses) + 1, np.int32)
    sizes[rows + 1] = shown.sum(axis=1)
    known = np.zeros(len(addresses), bool)
    known[rows] = True
    parts = [validity(known), pa.py_buffer(np.cumsum(sizes, dtype=np.int32)), pa.py_buffer(letters[shown])]
    return pa.Array.from_buffers(pa.string(), len(addresses), parts)


def _longest_run(zeros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each row where its first longest run of at least two begins, and its length; 0 where there is none."""
    runs = np.zeros((len(zeros), 9), np.int64)
    for place in range(7, -1, -1):
        runs[:, place] = (runs[:, place + 1] + 1) * zeros[:, place]
    first = runs.argmax(axis=1)
    size = runs.max(axis=1)
    return first, np.where(size >= 2, size, 0)


KERNELS = (
    Kernel("pando_ascii_lower", ("BLOB",), "VARCHAR", _lower),
    Kernel("pando_ascii_upper", ("BLOB",), "VARCHAR", _upper),
    Kernel("pando_initcap", ("BLOB",), "VARCHAR", _initcap),
    Kernel("pando_plain_ipv6_text", ("BLOB",), "VARCHAR", _ipv6),
)
