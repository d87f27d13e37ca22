"""Converts values of one width between storage and ClickHouse's memory layout.

``FORMAT Native`` and ``RowBinary`` use this layout:

======================  =====================================================
integers, floats        little endian
Bool                    one byte
Decimal(P, S)           signed: 4 bytes for P ≤ 9, 8 for P ≤ 18, 16 for P ≤ 38
Date, Date32            days: uint16, int32
DateTime, DateTime64    seconds: uint32; ticks of 10**-p seconds: int64
UUID                    two 64-bit halves, each little endian
IPv4, IPv6              uint32; 16 bytes, network byte order
Enum8, Enum16           int8, int16
FixedString(N)          N bytes
Nothing                 one byte, ``0``
======================  =====================================================
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parts.types import DataType
from sql.formats.converters.scalars.all_formats import scalar_format


def to_bytes(array: pa.Array, type_: DataType) -> np.ndarray:
    """Returns a byte matrix with a row for each value; nulls are zeros."""
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    return format_.to_bytes(array, type_)


def from_bytes(raw: np.ndarray, type_: DataType, is_null: np.ndarray | None = None) -> pa.Array:
    """Converts a byte matrix to storage values; bytes where ``is_null`` do not matter.

    Raises :class:`BadValueError` (321, 691).
    """
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    if is_null is not None and is_null.any() and type_.default is not None:
        raw = np.where(is_null[:, None], format_.to_bytes(pa.array([type_.default], type_.arrow), type_), raw)
    return format_.from_bytes(raw, type_)
