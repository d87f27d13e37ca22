"""Kernels that change the case of ASCII letters. Texts come as BLOBs, as in ``plain_texts``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import Kernel, text_bytes, text_offsets, validity_buffer


def _flag_range(first: str, last: str) -> np.ndarray:
    """Returns 256 flags: which bytes lie between two characters."""
    found = np.zeros(256, bool)
    found[ord(first) : ord(last) + 1] = True
    return found


_BYTES = np.arange(256)
_UPPER, _LOWER = _flag_range("A", "Z"), _flag_range("a", "z")
_TO_LOWER = np.where(_UPPER, _BYTES + 32, _BYTES).astype(np.uint8)
_TO_UPPER = np.where(_LOWER, _BYTES - 32, _BYTES).astype(np.uint8)
_IN_WORD = _UPPER | _LOWER | _flag_range("0", "9")


def _cut_texts(like: pa.Array, data: np.ndarray) -> pa.Array:
    """Cuts ``data`` into texts with the offsets of ``like``."""
    nulls, offsets, _ = like.buffers()
    parts = [nulls if like.null_count else None, offsets, pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(like), parts, offset=like.offset)


def _lower(texts: pa.Array) -> pa.Array:
    return _cut_texts(texts, _TO_LOWER[text_bytes(texts)])


def _upper(texts: pa.Array) -> pa.Array:
    return _cut_texts(texts, _TO_UPPER[text_bytes(texts)])


def capitalize_words(texts: pa.Array) -> pa.Array:
    """Makes each word's first letter upper case and the others lower case.

    A word is a run of ASCII letters and digits.
    """
    offsets = text_offsets(texts)
    starts = offsets - offsets[0]
    data = _TO_LOWER[text_bytes(texts)[offsets[0] : offsets[-1]]]
    in_word = _IN_WORD[data]
    begins = np.ones(len(data) + 1, bool)
    begins[1:] = ~in_word
    begins[starts] = True
    data = np.where(begins[: len(data)], _TO_UPPER[data], data)
    nulls = validity_buffer(np.asarray(pc.is_valid(texts))) if texts.null_count else None
    return pa.Array.from_buffers(pa.string(), len(texts), [nulls, pa.py_buffer(starts), pa.py_buffer(data)])


KERNELS = (
    Kernel("pando_ascii_lower", ("BLOB",), "VARCHAR", _lower),
    Kernel("pando_ascii_upper", ("BLOB",), "VARCHAR", _upper),
    Kernel("pando_initcap", ("BLOB",), "VARCHAR", capitalize_words),
)
