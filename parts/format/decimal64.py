"""Decimals of at most 18 digits as 8-byte integers, as queries compute with them.

Everywhere else a decimal has 16 bytes. Most frames store only 8 of them (Narrow), and decoding only these takes half
the time and half the memory.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from parts.format.codecs import decode_chain
from parts.format.codecs.codec_chain import NARROW
from parts.format.codecs.transforms import DECIMAL_LOG2

_MOST_DIGITS = 18
_NARROWED = range(NARROW + 8 * DECIMAL_LOG2, NARROW + 8 * DECIMAL_LOG2 + 8)


def to_decimal64_type(type_: pa.DataType) -> pa.DataType:
    """Returns the 8-byte type of a decimal that fits, and any other type unchanged."""
    if pt.is_decimal128(type_) and type_.precision <= _MOST_DIGITS:
        return pa.decimal64(type_.precision, type_.scale)
    return type_


def to_decimal64(array: pa.Array) -> pa.Array:
    """Returns the values as 8-byte decimals if the type fits."""
    type_ = to_decimal64_type(array.type)
    if type_ == array.type:
        return array
    validity, values = array.buffers()
    low = take_low_halves(values.slice(16 * array.offset, 16 * len(array)))
    if array.null_count and array.offset:
        return array.cast(type_)
    return pa.Array.from_buffers(type_, len(array), [validity if array.null_count else None, low], array.null_count)


def decode_low_halves(chain: bytes, stored: pa.Buffer, raw_size: int) -> pa.Buffer:
    """Decodes the lower 8 bytes of each 16 of the raw buffer. Raises ``ChainError``."""
    if chain and chain[0] in _NARROWED:  # Narrow of 8-byte integers has the same bytes
        return decode_chain(bytes([chain[0] - 8]) + chain[1:], stored, raw_size // 2)
    return take_low_halves(decode_chain(chain, stored, raw_size))


def take_low_halves(values: pa.Buffer) -> pa.Buffer:
    """Returns the lower 8 bytes of each 16."""
    return pa.py_buffer(np.ascontiguousarray(np.frombuffer(values, "<i8")[::2]))
