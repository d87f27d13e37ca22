"""Renders values as text, whole columns at a time, byte for byte as ClickHouse does.

There are three ways to write a value: *plain* (as toString; nested values inside are quoted), *quoted* (an SQL literal,
as inside arrays and in VALUES), *JSON*. Lists are written without a loop: the elements are rendered as one array and
joined per row by Arrow. Only floats outside 1e-4 … 1e9 are formatted value by value, each distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
)
from sql.formats.converters.arrow_type_mapping import enum_names, list_parts
from sql.formats.converters.wall_clocks import to_wall_clock
from sql.formats.format_options import FormatOptions
from sql.grammar.text_escapes import escape, view_as_text
from sql.typing.texts.ip_address_texts import format_ipv6

QUOTED_ESCAPES = {
    "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "'": "\\'",
}  # fmt: skip
_BARE_IN_SQL = (IntegerType, FloatType, DecimalType, BoolType, ArrayType, MapType, TupleType, NothingType)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def render_plain(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Renders the values plainly; nulls stay nulls."""
    array, type_ = unwrap_array(array, type_)
    return _PLAIN[type(type_)](array, type_, options)


def render_quoted(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Renders the values as SQL literals; null is ``NULL``."""
    array, type_ = unwrap_array(array, type_)
    texts = _PLAIN[type(type_)](array, type_, options)
    if not isinstance(type_, _BARE_IN_SQL):
        if isinstance(type_, (StringType, FixedStringType, EnumType)):
            texts = escape(texts, QUOTED_ESCAPES)
        texts = pc.binary_join_element_wise("'", texts, "'", "")
    return pc.fill_null(texts, "NULL") if texts.null_count else texts


def unwrap_array(array: pa.Array, type_: DataType) -> tuple[pa.Array, DataType]:
    """Returns the plain array and type of a Nullable or LowCardinality column."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    while isinstance(type_, (NullableType, LowCardinalityType)):
        type_ = type_.inner
    return array, type_


# Simple types ---------------------------------------------------------------------------------------------------------


def _cast(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    return pc.cast(array, pa.string())


def _floats(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    texts = pc.cast(array, pa.string())
    size = pc.abs(array)
    # Arrow and ClickHouse switch to an exponent at different sizes; between these bounds they agree.
    outside = pc.or_(pc.greater_equal(size, 1e9), pc.and_(pc.less(size, 1e-4), pc.greater(size, 0)))
    outside = pc.fill_null(pc.and_(outside, pc.is_finite(array)), False)
    if not pc.any(outside, min_count=0).as_py():
        return texts
    encoded = pc.dictionary_encode(pc.filter(texts, outside))
    fixed = pa.array([format_float(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(texts, outside, pc.take(fixed, encoded.indices))


def format_float(text: str) -> str:
    """Lays out the shortest digits of ``text`` as ClickHouse does.

    It uses an exponent from 1e21 on and below 1e-6.
    """
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        body = digits[:point].ljust(point, "0") + ("." + digits[point:] if len(digits) > point else "")
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        body = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1}"
    return sign + body


def _decimals(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, DecimalType)
    # The unscaled integer is cast: casting a decimal with a scale gives exponents for small values.
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(array), array.buffers(), null_count=array.null_count, offset=array.offset
    )
    integers = pc.cast(unscaled, pa.string())
    if type_.scale == 0:
        return integers
    sign = pc.if_else(pc.starts_with(integers, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(integers, "-"), type_.scale + 1, "0")
    fraction = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, -type_.scale), "0")
    point = pc.if_else(pc.equal(fraction, ""), "", ".")
    return pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, 0, -type_.scale), point, fraction, "")


def _booleans(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    return pc.cast(pc.if_else(array, "true", "false"), pa.string())


def _strings(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    return array


def _fixed_strings(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Returns the bytes as they are, which need not be UTF-8: a string array in name only."""
    return view_as_text(pc.cast(array, pa.binary()))


def _times(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, (DateTimeType, DateTime64Type))
    zone = type_.timezone or options.timezone
    if zone != "UTC":
        array = to_wall_clock(array, zone)
    texts = pc.cast(array, pa.string())
    if isinstance(type_, DateTimeType):
        return texts
    length = 19 if type_.precision == 0 else 20 + type_.precision
    return pc.utf8_slice_codeunits(texts, 0, length)


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


def _uuids(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    if not len(array):
        return pa.array([], pa.string())
    matrix = _bytes_matrix(array, 16)
    digits = np.empty((len(array), 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[matrix >> 4], _HEX[matrix & 15]
    out = np.full((len(array), 36), ord("-"), np.uint8)
    for source, target, length in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
        out[:, target : target + length] = digits[:, source : source + length]
    return _texts(out, array)


def _ipv4(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    octets = [
        pc.cast(
            pc.bit_wise_and(pc.shift_right(array, pa.scalar(shift, pa.uint32())), pa.scalar(255, pa.uint32())),
            pa.string(),
        )
        for shift in (24, 16, 8, 0)
    ]
    return pc.binary_join_element_wise(*octets, ".")


def _ipv6(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    if not len(array):
        return pa.array([], pa.string())
    texts = format_ipv6(_bytes_matrix(array, 16))
    return pc.if_else(pc.is_valid(array), texts, None) if array.null_count else texts


def _enums(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, EnumType)
    return enum_names(array, type_)


def _nothing(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    return pa.nulls(len(array), pa.string())


# Composite types ------------------------------------------------------------------------------------------------------


def join_elements(
    offsets: pa.Array, mask: pa.Array | None, elements: pa.Array, opener: str, separator: str, closer: str
) -> pa.Array:
    """Joins the texts of each row's elements between brackets."""
    lists = pa.ListArray.from_arrays(offsets, elements, mask=mask)
    return pc.binary_join_element_wise(opener, pc.binary_join(lists, separator), closer, "")


def _arrays(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, ArrayType)
    offsets, mask, flat = list_parts(array)
    return join_elements(offsets, mask, render_quoted(flat, type_.inner, options), "[", ",", "]")


def _maps(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, MapType)
    offsets, mask, flat = list_parts(array)
    keys = render_quoted(flat.field(0), type_.key, options)
    pairs = pc.binary_join_element_wise(keys, render_quoted(flat.field(1), type_.value, options), ":")
    return join_elements(offsets, mask, pairs, "{", ",", "}")


def _tuples(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, TupleType)
    if options.named_tuple_texts is not None and type_.is_named:
        return options.named_tuple_texts(array, type_, options)
    children = [
        render_quoted(child, inner, options) for child, (_, inner) in zip(array.flatten(), type_.elements, strict=True)
    ]
    texts = pc.binary_join_element_wise("(", join_columns(children, ",", len(array)), ")", "")
    return pc.if_else(pc.is_valid(array), texts, None) if array.null_count else texts


def join_columns(columns: Sequence[pa.Array], separator: str, rows: int) -> pa.Array:
    """Joins the texts of each row; without columns every row is an empty text."""
    return pc.binary_join_element_wise(*columns, separator) if columns else pa.repeat("", rows)


_PLAIN: dict[type[DataType], Callable[[pa.Array, DataType, FormatOptions], pa.Array]] = {
    IntegerType: _cast,
    FloatType: _floats,
    DecimalType: _decimals,
    BoolType: _booleans,
    StringType: _strings,
    FixedStringType: _fixed_strings,
    DateType: _cast,
    Date32Type: _cast,
    DateTimeType: _times,
    DateTime64Type: _times,
    UUIDType: _uuids,
    IPv4Type: _ipv4,
    IPv6Type: _ipv6,
    EnumType: _enums,
    NothingType: _nothing,
    ArrayType: _arrays,
    MapType: _maps,
    TupleType: _tuples,
}
