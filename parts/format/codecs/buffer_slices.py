"""Decode a slice of an encoded buffer's values.

Narrow, Split and Scale are undone for the slice alone, any other method for the whole buffer first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.format.codecs import transforms
from parts.format.codecs.codec_chain import NARROW, NARROW_END, SCALE, SPLIT, ChainError, decode_chain


def decode_slice(chain: bytes, stored: pa.Buffer, raw_size: int, begin: int, size: int) -> pa.Buffer:
    """Returns ``size`` raw bytes from byte ``begin`` on, both whole values. Raises :class:`ChainError`."""
    if begin + size > raw_size:
        raise ChainError(f"bytes {begin} to {begin + size} of a buffer of {raw_size} are asked for")
    source = _Source(chain, stored, raw_size)
    try:
        return pa.py_buffer(source.window(begin, size))
    except (ValueError, IndexError, KeyError) as error:
        raise ChainError(f"method chain {chain.hex()} cannot be undone: {error}") from error


class _Source:
    """The decoded bytes of a chain, of which windows are taken.

    Methods that need the whole buffer are undone once.
    """

    def __init__(self, chain: bytes, stored: pa.Buffer, raw_size: int) -> None:
        self._method = chain[0] if chain else 0
        if self._is_narrow:
            size = transforms.compute_narrow_size(self._log2_width, self._method & 7, raw_size)
            self._inner: _Source | pa.Buffer = _Source(chain[1:], stored, size)
        elif self._method & 0xF0 == SCALE:
            self._inner = _Source(chain[1:], stored, raw_size)
        elif self._method & 0xF0 == SPLIT:
            self._inner = decode_chain(chain[1:], stored, raw_size)
        else:
            self._inner = decode_chain(chain, stored, raw_size)

    def window(self, begin: int, size: int) -> pa.Buffer | transforms.Bytes:
        """Decodes ``size`` bytes from byte ``begin`` on."""
        inner = self._inner
        if isinstance(inner, _Source):
            if self._is_narrow:
                return self._narrow_window(inner, begin, size)
            return transforms.scale_decode(np.frombuffer(inner.window(begin, size), np.uint8), self._method & 0x0F)
        if self._method & 0xF0 == SPLIT:
            return transforms.decode_split_slice(np.frombuffer(inner, np.uint8), self._method & 0x0F, begin, size)
        return inner.slice(begin, size)

    @property
    def _is_narrow(self) -> bool:
        return NARROW <= self._method < NARROW_END

    @property
    def _log2_width(self) -> int:
        return (self._method - NARROW) >> 3

    def _narrow_window(self, inner: _Source, begin: int, size: int) -> transforms.Bytes:
        log2_width, width_code = self._log2_width, self._method & 7
        bytes_ = np.frombuffer(inner.window(0, 8), np.uint8)
        if width_code != transforms.CONSTANT_WIDTH_CODE:
            first = 8 + ((begin >> log2_width) << width_code)
            differences = inner.window(first, (size >> log2_width) << width_code)
            bytes_ = np.concatenate([bytes_, np.frombuffer(differences, np.uint8)])
        return transforms.narrow_decode(bytes_, log2_width, width_code, size)
