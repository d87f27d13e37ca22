"""UUIDs and IP addresses in formats."""

from __future__ import annotations

import ipaddress
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DataType, IntegerType, IPv4Type, IPv6Type, UUIDType
from sql.formats.converters.scalars.number_formats import bits_as_numbers
from sql.formats.converters.scalars.scalar_format import (
    ScalarFormat,
    array_of_bytes,
    checked_cast,
    find_format,
    mismatch_error,
    register,
)
from sql.formats.converters.value_checks import fail_first
from sql.formats.format_options import FormatOptions, parse_error
from sql.typing.texts.ip_address_texts import format_ipv6, parse_hexadecimal_ipv6

_IPV4 = r"^(?P<a>[0-9]{1,3})\.(?P<b>[0-9]{1,3})\.(?P<c>[0-9]{1,3})\.(?P<d>[0-9]{1,3})$"
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


class UUIDFormat(ScalarFormat[UUIDType]):
    """``UUID``: in bytes two 64-bit halves, each little endian."""

    is_sent_as_text: ClassVar[bool] = True
    is_quoted_in_lists: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: UUIDType, options: FormatOptions) -> pa.Array:
        form = "^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
        bad = pc.invert(pc.match_substring_regex(texts, form))
        fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_UUID"))
        digits = pc.fill_null(pc.replace_substring(texts, "-", ""), "0" * 32)
        return _with_nulls(_hexadecimal(digits, 16), texts, type_.arrow)

    def render(self, array: pa.Array, type_: UUIDType, options: FormatOptions) -> pa.Array:
        if not len(array):
            return pa.array([], pa.string())
        matrix = _bytes_matrix(array, 16)
        digits = np.empty((len(array), 32), np.uint8)
        digits[:, 0::2], digits[:, 1::2] = _HEX[matrix >> 4], _HEX[matrix & 15]
        out = np.full((len(array), 36), ord("-"), np.uint8)
        for source, target, length in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
            out[:, target : target + length] = digits[:, source : source + length]
        return _texts(out, array)

    def to_bytes(self, array: pa.Array, type_: UUIDType) -> np.ndarray:
        return _swap_halves(super().to_bytes(array, type_))

    def from_bytes(self, raw: np.ndarray, type_: UUIDType) -> pa.Array:
        return array_of_bytes(_swap_halves(raw), type_)

    def from_bytes_column(self, array: pa.Array, type_: UUIDType) -> pa.Array | None:
        return _cast_16_bytes(array, type_)


class IPv4Format(ScalarFormat[IPv4Type]):
    """``IPv4``: in bytes a number of 32 bits."""

    is_sent_as_text: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: IPv4Type, options: FormatOptions) -> pa.Array:
        parts = pc.extract_regex(texts, _IPV4)
        bad = pc.and_(pc.is_null(parts), pc.is_valid(texts))
        fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_IPV4"))
        value: pa.Array | None = None
        for name in "abcd":
            octet = pc.cast(pc.struct_field(parts, name), pa.uint32())
            fail_first(
                texts, pc.greater(octet, 255), lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_IPV4")
            )
            value = octet if value is None else pc.add(pc.multiply(value, pa.scalar(256, pa.uint32())), octet)
        return value

    def render(self, array: pa.Array, type_: IPv4Type, options: FormatOptions) -> pa.Array:
        octets = [
            pc.cast(
                pc.bit_wise_and(pc.shift_right(array, pa.scalar(shift, pa.uint32())), pa.scalar(255, pa.uint32())),
                pa.string(),
            )
            for shift in (24, 16, 8, 0)
        ]
        return pc.binary_join_element_wise(*octets, ".")

    def from_file(self, array: pa.Array, type_: IPv4Type, options: FormatOptions) -> pa.Array:
        return super().from_file(bits_as_numbers(array), type_, options)

    def to_number(self, array: pa.Array, type_: IPv4Type) -> tuple[pa.Array, DataType] | None:
        return array, IntegerType(32, False)

    def cast_from(self, array: pa.Array, source: DataType, type_: IPv4Type, options: FormatOptions) -> pa.Array:
        if not isinstance(source, IntegerType):
            raise mismatch_error(source, type_)
        return checked_cast(array, IntegerType(32, False))


class IPv6Format(ScalarFormat[IPv6Type]):
    """``IPv6``: 16 bytes in network byte order."""

    is_sent_as_text: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: IPv6Type, options: FormatOptions) -> pa.Array:
        """Parses IPv6 addresses; the standard library parses each distinct address with dots in it once."""
        matrix, is_plain = parse_hexadecimal_ipv6(texts.fill_null("::") if texts.null_count else texts)
        others = pa.array(np.flatnonzero(~is_plain))
        encoded = pc.dictionary_encode(texts.take(others))
        packed: list[bytes] = []
        for code, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                index = others[pc.index(encoded.indices, pa.scalar(code, pa.int32())).as_py()].as_py()
                raise parse_error(index, text, type_, "CANNOT_PARSE_IPV6") from None
            mapped = address if address.version == 6 else ipaddress.IPv6Address(f"::ffff:{address}")
            packed.append(mapped.packed)
        if packed:
            matrix[others] = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, 16)[np.asarray(encoded.indices)]
        return _with_nulls(matrix, texts, type_.arrow)

    def render(self, array: pa.Array, type_: IPv6Type, options: FormatOptions) -> pa.Array:
        if not len(array):
            return pa.array([], pa.string())
        texts = format_ipv6(_bytes_matrix(array, 16))
        return pc.if_else(pc.is_valid(array), texts, None) if array.null_count else texts

    def from_bytes_column(self, array: pa.Array, type_: IPv6Type) -> pa.Array | None:
        return _cast_16_bytes(array, type_)

    def cast_from(self, array: pa.Array, source: DataType, type_: IPv6Type, options: FormatOptions) -> pa.Array:
        format_ = find_format(source)
        if not isinstance(source, IPv4Type) or format_ is None:
            raise mismatch_error(source, type_)
        return self.parse(format_.render(array, source, options), type_, options)


def _swap_halves(matrix: np.ndarray) -> np.ndarray:
    """Turns the bytes of both halves around."""
    return matrix.reshape(len(matrix), 2, 8)[:, :, ::-1].reshape(len(matrix), 16)


def _cast_16_bytes(array: pa.Array, type_: DataType) -> pa.Array | None:
    is_whole = pc.all(pc.equal(pc.binary_length(array), 16), min_count=0).as_py()
    return pc.cast(array, type_.arrow) if is_whole else None


def _hexadecimal(digits: pa.Array, width: int) -> np.ndarray:
    """Converts rows of ``2 * width`` hexadecimal digits to a byte matrix."""
    start = digits.offset
    offsets = np.frombuffer(digits.buffers()[1], np.int32)[start : start + len(digits) + 1]
    raw = np.frombuffer(digits.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    nibbles = np.where(raw > 57, (raw & 0x5F) - 55, raw - 48).astype(np.uint8).reshape(-1, 2 * width)
    return (nibbles[:, 0::2] << 4) | nibbles[:, 1::2]


def _with_nulls(matrix: np.ndarray, like: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Converts a byte matrix to fixed-size values, null where ``like`` is null."""
    values = pa.Array.from_buffers(arrow, len(matrix), [None, pa.py_buffer(np.ascontiguousarray(matrix).tobytes())])
    return pc.if_else(pc.is_valid(like), values, pa.scalar(None, arrow)) if like.null_count else values


def _bytes_matrix(array: pa.Array, width: int) -> np.ndarray:
    start = array.offset * width
    raw = np.frombuffer(array.buffers()[1], np.uint8)[start : start + len(array) * width]
    return raw.reshape(len(array), width)


def _texts(matrix: np.ndarray, like: pa.Array) -> pa.Array:
    """Converts a matrix of ASCII codes to texts, one a row, null where ``like`` is null."""
    rows, width = matrix.shape
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * width, width, dtype=np.int32).tobytes())
    texts = pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(matrix.tobytes()))
    return pc.if_else(pc.is_valid(like), texts, None) if like.null_count else texts


register(UUIDFormat(), UUIDType)
register(IPv4Format(), IPv4Type)
register(IPv6Format(), IPv6Type)
