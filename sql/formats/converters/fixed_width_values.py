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
import pyarrow.compute as pc

from parts.format.flat_arrays import get_fixed_width_buffer
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    NothingType,
    UUIDType,
)
from sql.formats.converters.arrow_type_mapping import validate_values
from sql.formats.format_options import range_error

_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DECIMAL_WIDTHS = ((9, "<i4"), (18, "<i8"), (38, "<i16"))


def value_width_bytes(type_: DataType) -> int | None:
    """Returns the bytes of a value; ``None`` for types without one width, such as composite ones."""
    if isinstance(type_, (IntegerType, FloatType, EnumType)):
        return type_.bits // 8
    if isinstance(type_, DecimalType):
        return 4 if type_.precision <= 9 else 8 if type_.precision <= 18 else 16
    if isinstance(type_, FixedStringType):
        return type_.length
    return _WIDTHS.get(type(type_))


_WIDTHS: dict[type[DataType], int] = {
    BoolType: 1, DateType: 2, Date32Type: 4, DateTimeType: 4, DateTime64Type: 8, UUIDType: 16, IPv4Type: 4,
    IPv6Type: 16, NothingType: 1,
}  # fmt: skip


def to_bytes(array: pa.Array, type_: DataType) -> np.ndarray:
    """Returns a byte matrix with a row for each value; nulls are zeros."""
    rows = len(array)
    if isinstance(type_, NothingType):
        return np.full((rows, 1), ord("0"), np.uint8)
    if isinstance(type_, BoolType):
        return np.asarray(pc.cast(array.fill_null(False), pa.uint8())).reshape(rows, 1)
    raw = np.frombuffer(get_fixed_width_buffer(array), np.uint8) if rows else np.empty(0, np.uint8)
    width = value_width_bytes(type_)
    assert width is not None, type_
    if isinstance(type_, DateType):
        raw = raw.view("<i4").astype("<u2").view(np.uint8)
    elif isinstance(type_, DateTimeType):
        raw = raw.view("<i8").astype("<u4").view(np.uint8)
    elif isinstance(type_, DateTime64Type):
        factor = _factor(type_)
        raw = (raw.view("<i8") // factor).view(np.uint8) if factor > 1 else raw
    elif isinstance(type_, UUIDType):
        raw = raw.reshape(rows, 2, 8)[:, :, ::-1]
    elif isinstance(type_, DecimalType):
        return raw.reshape(rows, 16)[:, :width]
    return raw.reshape(rows, width)


def from_bytes(raw: np.ndarray, type_: DataType, is_null: np.ndarray | None = None) -> pa.Array:
    """Converts a byte matrix to storage values; bytes where ``is_null`` do not matter.

    Raises :class:`BadValueError` (321, 691).
    """
    rows, width = raw.shape
    if isinstance(type_, NothingType):
        return pa.nulls(rows)
    if is_null is not None and is_null.any():
        raw = np.where(is_null[:, None], to_bytes(pa.array([type_.default], type_.arrow), type_), raw)
    if isinstance(type_, BoolType):
        return pa.array(raw[:, 0] != 0)
    if isinstance(type_, UUIDType):
        raw = raw.reshape(rows, 2, 8)[:, :, ::-1]
    flat = np.ascontiguousarray(raw).reshape(-1)
    if isinstance(type_, DateType):
        flat = flat.view("<u2").astype("<i4")
    elif isinstance(type_, DateTimeType):
        flat = flat.view("<u4").astype("<i8")
    elif isinstance(type_, DateTime64Type):
        flat = _ticks(flat.view("<i8"), type_)
    elif isinstance(type_, DecimalType):
        flat = _decimals(flat, width, type_)
    array = pa.Array.from_buffers(type_.arrow, rows, [None, pa.py_buffer(flat)])
    return validate_values(array, type_)


def _factor(type_: DateTime64Type) -> int:
    return int(10 ** (_UNIT_DIGITS[type_.unit] - type_.precision))


def _ticks(values: np.ndarray, type_: DateTime64Type) -> np.ndarray:
    factor = _factor(type_)
    if factor == 1:
        return values
    limit = np.iinfo(np.int64).max // factor
    outside = (values > limit) | (values < -limit)
    if outside.any():
        index = int(outside.argmax())
        raise range_error(index, str(values[index]), type_)
    return values * factor


def _decimals(flat: np.ndarray, width: int, type_: DecimalType) -> np.ndarray:
    """Extends the numbers to 16 bytes, keeping the sign. Raises ``BadValueError`` (321)."""
    if width < 16:
        low = flat.view(f"<i{width}").astype("<i8")
        limit = 10**type_.precision
        outside = (low >= limit) | (low <= -limit)
        words = np.empty((len(low), 2), "<i8")
        words[:, 0], words[:, 1] = low, low >> 63
    else:
        words = flat.view("<i8").reshape(-1, 2)
        outside = _find_too_wide(words, 10**type_.precision)
    if outside.any():
        index = int(outside.argmax())
        unscaled = (int(words[index, 1]) << 64) | int(words[index, 0].view("<u8"))
        raise range_error(index, f"{unscaled}e-{type_.scale}", type_)
    return words.reshape(-1)


def _find_too_wide(words: np.ndarray, limit: int) -> np.ndarray:
    """Returns a mask of the 128-bit numbers that are not strictly between ``-limit`` and ``limit``."""
    low, high = words[:, 0].view("<u8"), words[:, 1]
    limit_low, limit_high = np.uint64(limit & (2**64 - 1)), limit >> 64
    minus_low, minus_high = np.uint64(-limit & (2**64 - 1)), (-limit) >> 64
    above = (high > limit_high) | ((high == limit_high) & (low >= limit_low))
    below = (high < minus_high) | ((high == minus_high) & (low <= minus_low))
    return above | below
