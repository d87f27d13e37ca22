"""Integers, floats, Bool and Decimal in formats."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import BoolType, DataType, DecimalType, FloatType, IntegerType
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.scalars.scalar_format import (
    ScalarFormat,
    array_of_bytes,
    checked_cast,
    find_format,
    mismatch_error,
    register,
    stored_bytes,
)
from sql.formats.converters.value_checks import fail_first
from sql.formats.format_options import BadValueError, FormatOptions, parse_error, range_error
from sql.grammar.text_escapes import may_contain, shorten_for_message

_TRUE = ("1", "true", "True", "TRUE", "t", "T", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON", "enable", "enabled")
_FALSE = (
    "0", "false", "False", "FALSE", "f", "F", "no", "No", "NO", "n", "N", "off", "Off", "OFF", "disable", "disabled",
)  # fmt: skip
_NUMBER = r"^-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
BARE_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
"""A number as VALUES take it without quotes."""
_MOST_DIGITS = 38
N = TypeVar("N", IntegerType, FloatType, DecimalType, BoolType)


class NumberFormat(ScalarFormat[N]):
    """The conversions that numbers and Bool share."""

    needs_quotes: ClassVar[bool] = False
    bare_literal: ClassVar[str | None] = BARE_NUMBER

    def json_type(self, type_: N, kinds: set[type]) -> pa.DataType | None:
        return pa.string() if str in kinds else type_.arrow

    def to_number(self, array: pa.Array, type_: N) -> tuple[pa.Array, DataType] | None:
        return array, type_

    def cast_from(self, array: pa.Array, source: DataType, type_: N, options: FormatOptions) -> pa.Array:
        format_ = find_format(source)
        number = format_.to_number(array, source) if format_ else None
        if number is None:
            raise mismatch_error(source, type_)
        array, source = number
        if isinstance(source, BoolType) and not isinstance(type_, BoolType):
            array = pc.cast(array, pa.uint8())
        return self.of_number(array, source, type_)

    def of_number(self, array: pa.Array, source: DataType, type_: N) -> pa.Array:
        """Casts integers, floats or decimals; of Bool UInt8."""
        return checked_cast(pc.trunc(array) if isinstance(source, (FloatType, DecimalType)) else array, type_)


class IntegerFormat(NumberFormat[IntegerType]):
    """``UInt8`` to ``Int64``."""

    is_right_aligned: ClassVar[bool] = True
    refuses_blanks: ClassVar[bool] = True
    bare_literal: ClassVar[str | None] = "^[+-]?[0-9]+$"

    def parse(self, texts: pa.Array, type_: IntegerType, options: FormatOptions) -> pa.Array:
        try:
            if not _has_hexadecimal(texts):
                return pc.cast(texts, type_.arrow)
        except pa.ArrowInvalid:
            pass
        numbers = normalize_number(texts)
        bad = pc.invert(pc.match_substring_regex(numbers, "^-?[0-9]+$"))
        fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))
        try:
            return pc.cast(numbers, type_.arrow)
        except pa.ArrowInvalid:
            long = pc.greater(pc.binary_length(numbers), 37)
            wide = pc.cast(pc.if_else(long, None, numbers), pa.decimal128(38, 0))
            low, high = pa.scalar(type_.minimum, pa.decimal128(38, 0)), pa.scalar(type_.maximum, pa.decimal128(38, 0))
            outside = pc.or_(pc.less(wide, low), pc.greater(wide, high))
            fail_first(texts, pc.or_kleene(long, outside), lambda index, text: range_error(index, text, type_))
            return pc.cast(wide, type_.arrow)  # such as "-0"

    def render_json_number(self, array: pa.Array, type_: IntegerType, options: FormatOptions) -> pa.Array:
        texts = self.render(array, type_, options)
        return _quote(texts) if type_.bits == 64 and options.quote_64bit_integers else texts

    def from_file(self, array: pa.Array, type_: IntegerType, options: FormatOptions) -> pa.Array:
        return super().from_file(bits_as_numbers(array), type_, options)


class FloatFormat(NumberFormat[FloatType]):
    """``Float32`` and ``Float64``."""

    is_right_aligned: ClassVar[bool] = True
    refuses_blanks: ClassVar[bool] = True
    bare_literal: ClassVar[str | None] = BARE_NUMBER + "|(?i)^[+-]?(?:inf|nan)$"

    def parse(self, texts: pa.Array, type_: FloatType, options: FormatOptions) -> pa.Array:
        try:
            return pc.cast(texts, type_.arrow)
        except pa.ArrowInvalid:
            numbers = normalize_number(texts)
            special = pc.match_substring_regex(numbers, "(?i)^-?(?:inf|infinity|nan)$")
            bad = pc.invert(pc.or_(pc.match_substring_regex(numbers, _NUMBER), special))
            fail_first(texts, bad, lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_NUMBER"))
            return pc.cast(numbers, type_.arrow)

    def render(self, array: pa.Array, type_: FloatType, options: FormatOptions) -> pa.Array:
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

    def render_json_number(self, array: pa.Array, type_: FloatType, options: FormatOptions) -> pa.Array:
        texts, finite = self.render(array, type_, options), pc.is_finite(array)
        if type_.bits == 64 and options.quote_64bit_floats:
            quoted = _quote(texts)
            return quoted if options.quote_denormals else pc.if_else(finite, quoted, '"null"')
        if pc.all(finite, min_count=0).as_py():
            return texts
        if options.quote_denormals:
            return pc.if_else(finite, texts, _quote(texts))
        return pc.if_else(finite, texts, None)

    def of_number(self, array: pa.Array, source: DataType, type_: FloatType) -> pa.Array:
        return pc.cast(array, type_.arrow, safe=False)


class DecimalFormat(NumberFormat[DecimalType]):
    """``Decimal(P, S)``: 4, 8 or 16 bytes, by the digits."""

    is_right_aligned: ClassVar[bool] = True
    refuses_blanks: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: DecimalType, options: FormatOptions) -> pa.Array:
        try:
            return pc.cast(texts, type_.arrow)
        except pa.ArrowInvalid:
            numbers = normalize_number(texts)
        bad = pc.invert(pc.match_substring_regex(numbers, _NUMBER))
        fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))
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

    def render(self, array: pa.Array, type_: DecimalType, options: FormatOptions) -> pa.Array:
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

    def render_json_number(self, array: pa.Array, type_: DecimalType, options: FormatOptions) -> pa.Array:
        texts = self.render(array, type_, options)
        return _quote(texts) if options.quote_decimals else texts

    def json_type(self, type_: DecimalType, kinds: set[type]) -> pa.DataType | None:
        has_numbers = int in kinds or float in kinds
        return pa.decimal128(_MOST_DIGITS, type_.scale) if has_numbers else pa.string()

    def to_bytes(self, array: pa.Array, type_: DecimalType) -> np.ndarray:
        return stored_bytes(array).reshape(len(array), 16)[:, : type_.memory_width_bytes]

    def from_bytes(self, raw: np.ndarray, type_: DecimalType) -> pa.Array:
        flat = np.ascontiguousarray(raw).reshape(-1)
        words = _extend_decimals(flat, raw.shape[1], type_)
        return array_of_bytes(words.view(np.uint8).reshape(len(raw), 16), type_)

    def of_number(self, array: pa.Array, source: DataType, type_: DecimalType) -> pa.Array:
        return number_to_decimal(array, source, type_)


class BoolFormat(NumberFormat[BoolType]):
    """``Bool``: one byte."""

    bare_literal: ClassVar[str | None] = "(?i)^(?:true|false|0|1)$"

    def parse(self, texts: pa.Array, type_: BoolType, options: FormatOptions) -> pa.Array:
        true = pc.is_in(texts, pa.array(_TRUE))
        known = pc.or_(pc.or_(true, pc.is_in(texts, pa.array(_FALSE))), pc.is_null(texts))
        fail_first(texts, pc.invert(known), lambda index, text: parse_error(index, text, type_, "CANNOT_PARSE_BOOL"))
        return pc.if_else(pc.is_valid(texts), true, None)

    def render(self, array: pa.Array, type_: BoolType, options: FormatOptions) -> pa.Array:
        return pc.cast(pc.if_else(array, "true", "false"), pa.string())

    def json_type(self, type_: BoolType, kinds: set[type]) -> pa.DataType | None:
        return type_.arrow

    def to_bytes(self, array: pa.Array, type_: BoolType) -> np.ndarray:
        return np.asarray(pc.cast(array.fill_null(False), pa.uint8())).reshape(len(array), 1)

    def from_bytes(self, raw: np.ndarray, type_: BoolType) -> pa.Array:
        return pa.array(raw[:, 0] != 0)

    def from_file(self, array: pa.Array, type_: BoolType, options: FormatOptions) -> pa.Array:
        is_number = pa.types.is_integer(array.type)
        return pc.not_equal(array, 0) if is_number else super().from_file(array, type_, options)

    def of_number(self, array: pa.Array, source: DataType, type_: BoolType) -> pa.Array:
        return array if isinstance(source, BoolType) else pc.not_equal(array, pa.scalar(0).cast(array.type))


def bits_as_numbers(array: pa.Array) -> pa.Array:
    """Returns Booleans as 0 and 1, other values as they are."""
    return pc.cast(array, pa.uint8()) if pa.types.is_boolean(array.type) else array


def _quote(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def normalize_number(texts: pa.Array) -> pa.Array:
    """Removes blanks around a number and a leading ``+``."""
    return pc.replace_substring_regex(pc.utf8_trim(texts, " \t"), r"^\+", "")


def _has_hexadecimal(texts: pa.Array) -> bool:
    """Returns whether a text may be hexadecimal: Arrow reads 0x1F as a number, ClickHouse does not."""
    return may_contain(texts, "x", "X")


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


def number_to_decimal(array: pa.Array, source: DataType, target: DecimalType) -> pa.Array:
    if isinstance(source, FloatType):
        # Rounded toward zero, as in ClickHouse: the scaled number's whole part is the unscaled value.
        scaled = pc.trunc(pc.multiply(pc.cast(array, pa.float64()), float(10**target.scale)))
        unscaled = pc.cast(checked_cast(scaled, IntegerType(64, True)), pa.decimal128(38, 0))
        wide = pa.Array.from_buffers(
            pa.decimal128(38, target.scale), len(unscaled), unscaled.buffers(), offset=unscaled.offset
        )
        return checked_cast(wide, target)
    if isinstance(source, DecimalType) and source.scale > target.scale:
        array = pc.cast(array, pa.decimal128(38, target.scale), safe=False)
    elif isinstance(source, IntegerType):
        array = pc.cast(array, pa.decimal128(20, 0))
        if 20 + target.scale <= 38:
            array = pc.cast(array, pa.decimal128(20 + target.scale, target.scale))
    return checked_cast(array, target)


def _extend_decimals(flat: np.ndarray, width: int, type_: DecimalType) -> np.ndarray:
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


register(IntegerFormat(), IntegerType)
register(FloatFormat(), FloatType)
register(DecimalFormat(), DecimalType)
register(BoolFormat(), BoolType)
