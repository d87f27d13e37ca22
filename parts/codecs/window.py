"""A slice of an encoded buffer's values.

Narrow is undone for the slice alone, any other method for the whole buffer first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.codecs import transforms
from parts.codecs.chain import NARROW, NARROW_END, ChainError, decode


def decode_window(chain: bytes, stored: pa.Buffer, raw_size: int, begin: int, size: int) -> pa.Buffer:
    """The ``size`` raw bytes from byte ``begin`` on, both whole values. Raises :class:`ChainError`."""
    if begin + size > raw_size:
        raise ChainError(f"bytes {begin} to {begin + size} of a buffer of {raw_size} are asked for")
    if not chain or not NARROW <= chain[0] < NARROW_END:
        return decode(chain, stored, raw_size).slice(begin, size)
    log2_width, width_code = (chain[0] - NARROW) >> 3, chain[0] & 7
    narrowed = decode(chain[1:], stored, transforms.narrow_size(log2_width, width_code, raw_size))
    return _narrow_window(narrowed, log2_width, width_code, begin, size)


def _narrow_window(narrowed: pa.Buffer, log2_width: int, width_code: int, begin: int, size: int) -> pa.Buffer:
    bytes_ = np.frombuffer(narrowed, np.uint8)
    if width_code != transforms.CONSTANT:
        first = 8 + ((begin >> log2_width) << width_code)
        count = (size >> log2_width) << width_code
        bytes_ = np.concatenate([bytes_[:8], bytes_[first : first + count]])
    try:
        return pa.py_buffer(transforms.narrow_decode(bytes_, log2_width, width_code, size))
    except (ValueError, IndexError, KeyError) as error:
        raise ChainError(f"Narrow of {1 << log2_width} bytes cannot be undone: {error}") from error
