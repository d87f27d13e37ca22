"""Parses texts to values: one Arrow cast a column, and a search for the first bad value if it fails.

``parse_texts`` takes an array of unescaped texts (nulls stay nulls) and returns an array in storage type. Every
converter first tries the cast that Arrow does natively. Only when that fails are the texts normalised (blanks, ``+5``,
excess digits of a fraction, unix seconds) and tried again, and then the first bad row is named.

One difference to ClickHouse is on purpose: a value out of the type's range is refused (321), not wrapped around or
clamped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    LowCardinalityType,
    NullableType,
    StringType,
    UUIDType,
    strip_nullable,
)
from sql.formats.converters import time_parsing
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.format_options import BadValueError, FormatOptions, parse_error, range_error
from sql.grammar.text_escapes import may_contain, shorten_for_message, view_as_text
from sql.typing.texts.ip_address_texts import parse_hexadecimal_ipv6

_TRUE = ("1", "true", "True", "TRUE", "t", "T", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON", "enable", "enabled")
_FALSE = (
    "0",
    "false",
    "False",
    "FALSE",
    "f",
    "F",
    "no",
    "No",
    "NO",
    "n",
    "N",
    "off",
    "Off",
    "OFF",
    "disable",
    "disabled",
)
_WITHOUT_BLANKS = (IntegerType, FloatType, DecimalType, DateType, Date32Type)
_NUMBER = r"^-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_IPV4 = r"^(?P<a>[0-9]{1,3})\.(?P<b>[0-9]{1,3})\.(?P<c>[0-9]{1,3})\.(?P<d>[0-9]{1,3})$"


def parse_texts(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Converts texts to storage values. Raises :class:`BadValueError`.

    :mod:`literal_parsing` handles composite types.
    """
    if isinstance(type_, NullableType):
        return parse_texts(texts, type_.inner, options)
    if isinstance(type_, LowCardinalityType):
        return _low_cardinality(texts, type_, options)
    return _PARSERS[type(type_)](texts, type_, options)


def refuse_blanks(texts: pa.Array, type_: DataType) -> None:
    """Raises :class:`BadValueError` for a number or date with a blank around it.

    CSV alone takes it.
    """
    if isinstance(strip_nullable(type_), _WITHOUT_BLANKS) and (may_contain(texts, " ") or may_contain(texts, "\t")):
        bad = pc.match_substring_regex(texts, r"^[ \t]|[ \t]$")
        _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))


def first_true_index(mask: pa.Array) -> int:
    """Returns the index of the first true, or -1."""
    return int(pc.index(mask, pa.scalar(True)).as_py())


def _fail_first(texts: pa.Array, bad: pa.Array, error: Callable[[int, str], BadValueError]) -> None:
    index = first_true_index(bad)
    if index >= 0:
        raise error(index, texts[index].as_py())


def normalize_number(texts: pa.Array) -> pa.Array:
    """Removes blanks around a number and a leading ``+``."""
    return pc.replace_substring_regex(pc.utf8_trim(texts, " \t"), r"^\+", "")


def _integers(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, IntegerType)
    try:
        if not _has_hexadecimal(texts):
            return pc.cast(texts, type_.arrow)
    except pa.ArrowInvalid:
        pass
    numbers = normalize_number(texts)
    bad = pc.invert(pc.match_substring_regex(numbers, "^-?[0-9]+$"))
    _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))
    try:
        return pc.cast(numbers, type_.arrow)
    except pa.ArrowInvalid:
        long = pc.greater(pc.binary_length(numbers), 37)
        wide = pc.cast(pc.if_else(long, None, numbers), pa.decimal128(38, 0))
        low, high = pa.scalar(type_.minimum, pa.decimal128(38, 0)), pa.scalar(type_.maximum, pa.decimal128(38, 0))
        outside = pc.or_(pc.less(wide, low), pc.greater(wide, high))
        _fail_first(texts, pc.or_kleene(long, outside), lambda index, text: range_error(index, text, type_))
        return pc.cast(wide, type_.arrow)  # such as "-0"


def _has_hexadecimal(texts: pa.Array) -> bool:
    """Returns whether a text may be hexadecimal: Arrow reads 0x1F as a number, ClickHouse does not."""
    return may_contain(texts, "x", "X")


def _floats(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    try:
        return pc.cast(texts, type_.arrow)
    except pa.ArrowInvalid:
        numbers = normalize_number(texts)
        special = pc.match_substring_regex(numbers, "(?i)^-?(?:inf|infinity|nan)$")
        bad = pc.invert(pc.or_(pc.match_substring_regex(numbers, _NUMBER), special))
        _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_NUMBER"))
        return pc.cast(numbers, type_.arrow)


def _decimals(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, DecimalType)
    try:
        return pc.cast(texts, type_.arrow)
    except pa.ArrowInvalid:
        numbers = normalize_number(texts)
    bad = pc.invert(pc.match_substring_regex(numbers, _NUMBER))
    _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))
    kept = rf"\.[0-9]{{{type_.scale}}}" if type_.scale else ""
    numbers = pc.replace_substring_regex(
        numbers, rf"^(-?[0-9]*{kept or ''})\.?[0-9]*$" if not kept else rf"^(-?[0-9]*{kept})[0-9]+$", r"\1"
    )
    try:
        return pc.cast(numbers, type_.arrow)
    except pa.ArrowInvalid:
        index = first_invalid_row(numbers, type_.arrow)
        text = texts[index].as_py()
        raise BadValueError(
            "ARGUMENT_OUT_OF_BOUND",
            index,
            text,
            f"Too many digits in decimal value {shorten_for_message(text)} for {type_}",
        ) from None


def _booleans(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    true = pc.is_in(texts, pa.array(_TRUE))
    known = pc.or_(pc.or_(true, pc.is_in(texts, pa.array(_FALSE))), pc.is_null(texts))
    _fail_first(texts, pc.invert(known), lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_BOOL"))
    return pc.if_else(pc.is_valid(texts), true, None)


def _strings(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    return texts


def _fixed_strings(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, FixedStringType)
    return pad_fixed(pc.cast(texts, pa.binary()), type_)


def pad_fixed(values: pa.Array, type_: FixedStringType) -> pa.Array:
    """Pads binary values with zero bytes to the type's length; raises 131 for a longer one."""
    long = pc.greater(pc.binary_length(values), type_.length)
    index = first_true_index(long)
    if index >= 0:
        text = values[index].as_py().decode("utf-8", "replace")
        raise BadValueError(
            "TOO_LARGE_STRING_SIZE", index, text, f"Too large value {shorten_for_message(text)!r} for {type_}"
        )
    # ascii_rpad counts bytes but takes strings, so the bytes are called a string for this call.
    padded = pc.ascii_rpad(view_as_text(values), type_.length, padding="\0")
    return pc.cast(padded.view(pa.binary()), type_.arrow)


def _uuids(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    form = "^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
    bad = pc.invert(pc.match_substring_regex(texts, form))
    _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_UUID"))
    digits = pc.fill_null(pc.replace_substring(texts, "-", ""), "0" * 32)
    return _with_nulls(_hexadecimal(digits, 16), texts, type_.arrow)


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


def _ipv4(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    parts = pc.extract_regex(texts, _IPV4)
    bad = pc.and_(pc.is_null(parts), pc.is_valid(texts))
    _fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_IPV4"))
    value: pa.Array | None = None
    for name in "abcd":
        octet = pc.cast(pc.struct_field(parts, name), pa.uint32())
        _fail_first(
            texts, pc.greater(octet, 255), lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_IPV4")
        )
        value = octet if value is None else pc.add(pc.multiply(value, pa.scalar(256, pa.uint32())), octet)
    return value


def _ipv6(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
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


def _enums(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(type_, EnumType)
    names = pa.array([name for name, _ in type_.values] + [str(number) for _, number in type_.values], pa.string())
    numbers = pa.array([number for _, number in type_.values] * 2, type_.arrow)
    found = pc.index_in(texts, names)
    bad = pc.and_(pc.is_null(found), pc.is_valid(texts))
    _fail_first(
        texts,
        bad,
        lambda index, text: BadValueError(
            "UNKNOWN_ELEMENT_OF_ENUM", index, text, f"Unknown element {shorten_for_message(text)!r} for {type_}"
        ),
    )
    return pc.take(numbers, found)


def _low_cardinality(texts: pa.Array, type_: LowCardinalityType, options: FormatOptions) -> pa.Array:
    encoded = pc.dictionary_encode(texts)
    try:
        values = parse_texts(encoded.dictionary, type_.inner, options)
    except BadValueError as error:
        raise error.with_index(int(pc.index(encoded.indices, pa.scalar(error.index, pa.int32())).as_py())) from None
    if isinstance(type_.inner, StringType) or isinstance(getattr(type_.inner, "inner", None), StringType):
        return pa.DictionaryArray.from_arrays(encoded.indices, values)
    # Two texts may be one value ("1" and "01"): a dictionary holds each value once.
    again = pc.dictionary_encode(values)
    return pa.DictionaryArray.from_arrays(pc.take(again.indices, encoded.indices), again.dictionary)


_PARSERS: dict[type[DataType], Callable[[pa.Array, DataType, FormatOptions], pa.Array]] = {
    IntegerType: _integers,
    FloatType: _floats,
    DecimalType: _decimals,
    BoolType: _booleans,
    StringType: _strings,
    FixedStringType: _fixed_strings,
    DateType: time_parsing.parse_dates,
    Date32Type: time_parsing.parse_dates,
    DateTimeType: time_parsing.parse_datetimes,
    DateTime64Type: time_parsing.parse_datetimes,
    UUIDType: _uuids,
    IPv4Type: _ipv4,
    IPv6Type: _ipv6,
    EnumType: _enums,
}
