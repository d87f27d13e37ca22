"""Partition ids and values by ClickHouse's rules.

No partition key: ``all``. All values integers: their decimals joined by ``-``, a Date as ``YYYYMMDD``. Otherwise the
SipHash-128 of the values as 32 hexadecimal digits. Integers are UInt*, Int*, Bool, Enum, IPv4, Date, Date32 (days) and
DateTime (seconds), also inside Nullable and LowCardinality when the value is not NULL.

The hashed bytes of a value are one byte for its kind and the value's own bytes. Strings and containers have a u64 size
before these. The kinds are NULL 0, unsigned 1, signed 2, Float64 3, UUID 4, String 16, Array 17, Tuple 18, Decimal
19/20/21. Source: the ids that ClickHouse 26 shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.common.sip_hash import sip_hash_128
from parts.types import (
    ArrayType,
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
    StringType,
    TupleType,
    UUIDType,
    strip_nullable,
)

_NULL, _UNSIGNED, _SIGNED, _FLOAT, _STRING, _ARRAY, _TUPLE = 0, 1, 2, 3, 16, 17, 18
_DECIMAL_32, _DECIMAL_64, _DECIMAL_128, _UUID = 19, 20, 21, 4
_SIGNED_TYPES = (EnumType, Date32Type)
_INTEGERS = (IntegerType, BoolType, EnumType, IPv4Type, DateType, Date32Type, DateTimeType)


def compute_partition_id(values: Sequence[pa.Scalar], types: Sequence[DataType]) -> str:
    """Returns the id of the partition whose key has ``values``."""
    if not types:
        return "all"
    bare = [strip_nullable(type_) for type_ in types]
    if all(isinstance(t, _INTEGERS) and v.is_valid for v, t in zip(values, bare, strict=True)):
        return "-".join(_integer_text(value, type_) for value, type_ in zip(values, bare, strict=True))
    hashed = b"".join(_field_bytes(value, type_) for value, type_ in zip(values, bare, strict=True))
    return sip_hash_128(hashed).hex()


def group_rows_by_key(keys: Sequence[pa.ChunkedArray], rows: int) -> list[np.ndarray] | None:
    """Returns the row numbers per distinct key, in order of first appearance; ``None`` for a single key."""
    codes = np.zeros(rows, np.int64)
    for key in keys:
        encoded = _row_codes(key)
        if len(encoded) and encoded.min() != encoded.max():
            codes = codes * (int(encoded.max()) + 1) + encoded
            codes = np.unique(codes, return_inverse=True)[1]
    if not rows or codes.min() == codes.max():
        return None
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    groups = np.split(order, cuts)
    return sorted(groups, key=lambda group: int(group[0]))


def _row_codes(key: pa.ChunkedArray) -> np.ndarray:
    """Returns a code for each row, equal for equal values."""
    array = key.combine_chunks() if key.num_chunks != 1 else key.chunk(0)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_struct(array.type):
        codes = np.zeros(len(array), np.int64)
        for position in range(array.type.num_fields):
            child = _row_codes(pa.chunked_array([array.field(position)]))
            codes = np.unique(codes * (int(child.max(initial=0)) + 1) + child, return_inverse=True)[1]
        return codes
    if pa.types.is_nested(array.type):
        raise UserError("NOT_IMPLEMENTED", f"A partition key of type {array.type} is not supported")
    if not array.null_count and pa.types.is_primitive(array.type) and not pa.types.is_boolean(array.type):
        bounds = pc.min_max(array)
        if bounds["min"] == bounds["max"]:
            return np.zeros(len(array), np.int64)
    return array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)


def _integer_text(value: pa.Scalar, type_: DataType) -> str:
    if isinstance(type_, DateType):
        return value.as_py().strftime("%Y%m%d")
    return str(_integer(value))


def _integer(value: pa.Scalar) -> int:
    if isinstance(value, (pa.Date32Scalar, pa.TimestampScalar)):
        return int(value.value)
    return int(value.as_py())


def _field_bytes(value: pa.Scalar, type_: DataType) -> bytes:
    type_ = strip_nullable(type_)
    if not value.is_valid:
        return bytes([_NULL])
    if isinstance(type_, _INTEGERS):
        signed = isinstance(type_, _SIGNED_TYPES) or (isinstance(type_, IntegerType) and type_.signed)
        return struct.pack("<BQ", _SIGNED if signed else _UNSIGNED, _integer(value) & ((1 << 64) - 1))
    if isinstance(type_, FloatType):
        return struct.pack("<Bd", _FLOAT, value.as_py())
    if isinstance(type_, (StringType, FixedStringType, IPv6Type)):
        text = value.as_buffer().to_pybytes()
        return struct.pack("<BQ", _STRING, len(text)) + text
    if isinstance(type_, UUIDType):
        return bytes([_UUID]) + _halves_reversed(value.as_py())
    if isinstance(type_, DateTime64Type):
        return _decimal_bytes(_DECIMAL_64, int(value.value) // 10 ** (-type_.precision % 3), 8)
    if isinstance(type_, DecimalType):
        kind, size = (_DECIMAL_32, 4) if type_.precision <= 9 else (_DECIMAL_64, 8)
        kind, size = (kind, size) if type_.precision <= 18 else (_DECIMAL_128, 16)
        return _decimal_bytes(kind, int(value.as_py().scaleb(type_.scale)), size)
    if isinstance(type_, TupleType):
        fields = [_field_bytes(value[i], element) for i, (_, element) in enumerate(type_.elements)]
        return struct.pack("<BQ", _TUPLE, len(fields)) + b"".join(fields)
    if isinstance(type_, ArrayType):
        fields = [_field_bytes(item, type_.inner) for item in value.values]
        return struct.pack("<BQ", _ARRAY, len(fields)) + b"".join(fields)
    raise UserError("NOT_IMPLEMENTED", f"A partition key of type {type_} is not supported")


def _decimal_bytes(kind: int, value: int, size: int) -> bytes:
    return bytes([kind]) + value.to_bytes(size, "little", signed=True)


def _halves_reversed(uuid: bytes) -> bytes:
    """Returns a UUID as two little-endian halves, the high one first."""
    return uuid[7::-1] + uuid[:7:-1]
