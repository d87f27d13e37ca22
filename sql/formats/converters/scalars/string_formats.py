"""Strings and enums in formats, and the type of NULL."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DataType, EnumType, FixedStringType, IntegerType, NothingType, StringType
from sql.formats.converters.scalars.scalar_format import (
    ScalarFormat,
    find_format,
    mismatch_error,
    register,
)
from sql.formats.converters.value_checks import check_utf8, describe_value, fail_first, first_true_index
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.text_escapes import shorten_for_message, view_as_text


class StringFormat(ScalarFormat[StringType]):
    """``String``: UTF-8 of any length."""

    is_textual: ClassVar[bool] = True
    is_quoted_in_lists: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: StringType, options: FormatOptions) -> pa.Array:
        return texts

    def render(self, array: pa.Array, type_: StringType, options: FormatOptions) -> pa.Array:
        return array

    def check(self, array: pa.Array, type_: StringType) -> pa.Array:
        return check_utf8(array)


class FixedStringFormat(ScalarFormat[FixedStringType]):
    """``FixedString(N)``: N bytes, zeros at the end."""

    is_textual: ClassVar[bool] = True
    is_quoted_in_lists: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: FixedStringType, options: FormatOptions) -> pa.Array:
        return pad_fixed(pc.cast(texts, pa.binary()), type_)

    def render(self, array: pa.Array, type_: FixedStringType, options: FormatOptions) -> pa.Array:
        """Returns the bytes as they are, which need not be UTF-8: a string array in name only."""
        return view_as_text(pc.cast(array, pa.binary()))

    def from_bytes_column(self, array: pa.Array, type_: FixedStringType) -> pa.Array | None:
        return pad_fixed(pc.cast(array, pa.binary()), type_)


class EnumFormat(ScalarFormat[EnumType]):
    """``Enum8`` and ``Enum16``: names in texts, numbers in bytes."""

    is_sent_as_text: ClassVar[bool] = True
    may_be_json_number: ClassVar[bool] = True
    is_textual: ClassVar[bool] = True
    is_quoted_in_lists: ClassVar[bool] = True

    def parse(self, texts: pa.Array, type_: EnumType, options: FormatOptions) -> pa.Array:
        names = pa.array([name for name, _ in type_.values] + [str(number) for _, number in type_.values], pa.string())
        numbers = pa.array([number for _, number in type_.values] * 2, type_.arrow)
        found = pc.index_in(texts, names)
        bad = pc.and_(pc.is_null(found), pc.is_valid(texts))
        fail_first(
            texts,
            bad,
            lambda index, text: BadValueError(
                "UNKNOWN_ELEMENT_OF_ENUM", index, text, f"Unknown element {shorten_for_message(text)!r} for {type_}"
            ),
        )
        return pc.take(numbers, found)

    def render(self, array: pa.Array, type_: EnumType, options: FormatOptions) -> pa.Array:
        return _find_names(array, type_)

    def file_type(self, type_: EnumType) -> pa.DataType:
        return pa.string()

    def to_file(self, array: pa.Array, type_: EnumType) -> pa.Array:
        return _find_names(array, type_)

    def check(self, array: pa.Array, type_: EnumType) -> pa.Array:
        numbers = pa.array([number for _, number in type_.values], type_.arrow)
        index = int(pc.index(pc.or_(pc.is_in(array, numbers), pc.is_null(array)), pa.scalar(False)).as_py())
        if index >= 0:
            value = describe_value(array, index)
            raise BadValueError("UNKNOWN_ELEMENT_OF_ENUM", index, value, f"Unknown number {value} for {type_}")
        return array

    def to_number(self, array: pa.Array, type_: EnumType) -> tuple[pa.Array, DataType] | None:
        return array, IntegerType(type_.bits, True)

    def cast_from(self, array: pa.Array, source: DataType, type_: EnumType, options: FormatOptions) -> pa.Array:
        if isinstance(source, EnumType):
            return self.parse(_find_names(array, source), type_, options)
        number = IntegerType(type_.bits, True)
        format_ = find_format(number)
        if not isinstance(source, IntegerType) or format_ is None:
            raise mismatch_error(source, type_)
        return self.check(format_.cast_from(array, source, number, options), type_)


class NothingFormat(ScalarFormat[NothingType]):
    """The type of NULL, whose values are a byte ``0`` each."""

    needs_quotes: ClassVar[bool] = False

    def render(self, array: pa.Array, type_: NothingType, options: FormatOptions) -> pa.Array:
        return pa.nulls(len(array), pa.string())

    def to_bytes(self, array: pa.Array, type_: NothingType) -> np.ndarray:
        return np.full((len(array), 1), ord("0"), np.uint8)

    def from_bytes(self, raw: np.ndarray, type_: NothingType) -> pa.Array:
        return pa.nulls(len(raw))


def _find_names(array: pa.Array, type_: EnumType) -> pa.Array:
    numbers = pa.array([number for _, number in type_.values], type_.arrow)
    return pc.take(pa.array([name for name, _ in type_.values], pa.string()), pc.index_in(array, numbers))


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


register(StringFormat(), StringType)
register(FixedStringFormat(), FixedStringType)
register(EnumFormat(), EnumType)
register(NothingFormat(), NothingType)
