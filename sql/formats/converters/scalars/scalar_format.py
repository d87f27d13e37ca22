"""The base of the objects that read and write the values of a scalar type, and their registry.

What a type does not say follows from the Arrow type that stores it: its texts are Arrow's, its bytes are the stored
ones.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.format.flat_arrays import get_fixed_width_buffer
from parts.types import DataType
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.format_options import FormatOptions, parse_error, range_error

T = TypeVar("T", bound=DataType)


class ScalarFormat(Generic[T]):
    """Reads and writes whole columns of one type; ``type_`` is the column's. Nulls stay nulls."""

    needs_quotes: ClassVar[bool] = True
    """Whether the text is in quotes in SQL, CSV and JSON."""
    is_textual: ClassVar[bool] = False
    """Whether the text may hold any characters, so that it is escaped."""
    is_quoted_in_lists: ClassVar[bool] = False
    """Whether readers demand quotes around it inside arrays, maps and tuples."""
    is_right_aligned: ClassVar[bool] = False
    """Whether Markdown aligns the column to the right."""
    refuses_blanks: ClassVar[bool] = False
    """Whether all formats but CSV refuse blanks around the text."""
    is_sent_as_text: ClassVar[bool] = False
    """Whether scans send the text, as for Spark, and not what is stored."""
    may_be_json_number: ClassVar[bool] = False
    """Whether JSON may have a number in place of the text."""
    bare_literal: ClassVar[str | None] = None
    """The pattern of what VALUES take without quotes; anything else without quotes is an expression."""

    # Texts ------------------------------------------------------------------------------------------------------------

    def parse(self, texts: pa.Array, type_: T, options: FormatOptions) -> pa.Array:
        """Converts texts to storage values. Raises ``BadValueError``."""
        try:
            return self.check(pc.cast(texts, type_.arrow), type_)
        except pa.ArrowInvalid:
            index = first_invalid_row(texts, type_.arrow)
            raise parse_error(index, texts[index].as_py(), type_) from None

    def render(self, array: pa.Array, type_: T, options: FormatOptions) -> pa.Array:
        """Converts storage values to plain texts."""
        return pc.cast(array, pa.string())

    def render_json_number(self, array: pa.Array, type_: T, options: FormatOptions) -> pa.Array:
        """Converts values of a type that needs no quotes to JSON; a null of a value that is none is null."""
        return self.render(array, type_, options)

    def json_type(self, type_: T, kinds: set[type]) -> pa.DataType | None:
        """Returns the Arrow type in which pyarrow reads JSON, for values of these Python types.

        Returns ``None`` if pyarrow cannot read it. Without numbers they are read as texts.
        """
        if int not in kinds and float not in kinds:
            return pa.string()
        return pa.int64() if self.may_be_json_number and float not in kinds and str not in kinds else None

    # Bytes of RowBinary and Native ------------------------------------------------------------------------------------

    def to_bytes(self, array: pa.Array, type_: T) -> np.ndarray:
        """Returns a byte matrix with a row for each value; nulls are zeros."""
        width = type_.memory_width_bytes
        assert width is not None, type_
        return stored_bytes(array).reshape(len(array), width)

    def from_bytes(self, raw: np.ndarray, type_: T) -> pa.Array:
        """Converts a byte matrix to storage values. Raises ``BadValueError`` (321, 691)."""
        return self.check(array_of_bytes(raw, type_), type_)

    # Arrow and Parquet ------------------------------------------------------------------------------------------------

    def file_type(self, type_: T) -> pa.DataType:
        """Returns the Arrow type in which files hold the values."""
        return type_.arrow

    def to_file(self, array: pa.Array, type_: T) -> pa.Array:
        """Converts storage values to those of a file."""
        return array

    def from_bytes_column(self, array: pa.Array, type_: T) -> pa.Array | None:
        """Converts binary values of a file; ``None`` if they are texts."""
        return None

    def from_file(self, array: pa.Array, type_: T, options: FormatOptions) -> pa.Array:
        """Converts numbers, dates and times of a file. Raises what Arrow raises if it cannot."""
        return self.check(pc.cast(array, type_.arrow), type_)

    # Values -----------------------------------------------------------------------------------------------------------

    def check(self, array: pa.Array, type_: T) -> pa.Array:
        """Returns the array itself. Raises ``BadValueError`` for what the storage holds but the type does not."""
        return array

    def to_number(self, array: pa.Array, type_: T) -> tuple[pa.Array, DataType] | None:
        """Returns values as numbers, and their type, for casts to numbers.

        Returns ``None`` if there are no such casts.
        """
        return None

    def cast_from(self, array: pa.Array, source: DataType, type_: T, options: FormatOptions) -> pa.Array:
        """Casts from a type that is neither a string nor this one. Raises ``BadValueError``, ``UserError`` 53."""
        raise mismatch_error(source, type_)


def mismatch_error(source: DataType, target: DataType) -> UserError:
    """Returns the error 53 for types of which one cannot become the other."""
    return UserError("TYPE_MISMATCH", f"Cannot convert {source} to {target}")


def stored_bytes(array: pa.Array) -> np.ndarray:
    """Returns the bytes that store the values, one after the other; those of nulls are zeros."""
    return np.frombuffer(get_fixed_width_buffer(array), np.uint8) if len(array) else np.empty(0, np.uint8)


def array_of_bytes(raw: np.ndarray, type_: DataType) -> pa.Array:
    """Returns the values that are stored in the bytes, a row each."""
    flat = np.ascontiguousarray(raw).reshape(-1)
    return pa.Array.from_buffers(type_.arrow, len(raw), [None, pa.py_buffer(flat)])


def checked_cast(array: pa.Array, target: DataType) -> pa.Array:
    """Casts numbers. Raises ``BadValueError`` (321) for one that does not fit."""
    try:
        return pc.cast(array, target.arrow)
    except pa.ArrowInvalid:
        index = first_invalid_row(array, target.arrow)
        raise range_error(index, str(array[index].as_py()), target) from None


_FORMATS: dict[type[DataType], ScalarFormat[Any]] = {}


def register(format_: ScalarFormat[Any], *types: type[DataType]) -> None:
    """Enters the object for these classes of types."""
    _FORMATS.update(dict.fromkeys(types, format_))


def find_format(type_: DataType) -> ScalarFormat[Any] | None:
    """Returns the object of a scalar type, or ``None`` for a composite one."""
    return _FORMATS.get(type(type_))
