"""Maps storage types to the Arrow types of ``FORMAT Parquet``, ``Arrow``, ``ArrowStream``, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.format.flat_arrays import build_struct_array
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
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    TupleType,
)
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.text_parsing import pad_fixed, parse_texts
from sql.formats.converters.time_parsing import truncate_fraction, wall_clocks_to_utc
from sql.formats.format_options import BadValueError, FormatOptions, range_error
from sql.grammar.text_escapes import is_valid_utf8, view_as_text


def arrow_file_type(type_: DataType) -> pa.DataType:
    """Returns the Arrow type in which a type is written."""
    if isinstance(type_, (NullableType, LowCardinalityType)):
        return arrow_file_type(type_.inner)
    if isinstance(type_, EnumType):
        return pa.string()
    if isinstance(type_, DateTimeType):
        return pa.timestamp("s", type_.timezone or "UTC")
    if isinstance(type_, DateTime64Type):
        return pa.timestamp(type_.unit, type_.timezone or "UTC")
    if isinstance(type_, ArrayType):
        return pa.list_(arrow_file_field("item", type_.inner))
    if isinstance(type_, MapType):
        return pa.map_(arrow_file_type(type_.key), arrow_file_field("value", type_.value))
    if isinstance(type_, TupleType):
        return pa.struct(
            [arrow_file_field(field.name, inner) for field, (_, inner) in zip(type_.arrow, type_.elements, strict=True)]
        )
    return type_.arrow


def arrow_file_field(name: str, type_: DataType) -> pa.Field:
    """Returns the Arrow field of a column. Arrow's null type is always nullable."""
    return pa.field(name, arrow_file_type(type_), type_.is_nullable or isinstance(type_, NothingType))


def to_arrow_file(array: pa.Array, type_: DataType) -> pa.Array:
    """Converts storage values to the type of :func:`arrow_file_type`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(type_, NullableType):
        return to_arrow_file(array, type_.inner)
    if isinstance(type_, LowCardinalityType):
        return to_arrow_file(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array, type_.inner)
    if isinstance(type_, EnumType):
        return enum_names(array, type_)
    if isinstance(type_, (DateTimeType, DateTime64Type)):
        return pc.cast(pc.cast(array, pa.int64()), arrow_file_type(type_))
    if isinstance(type_, ArrayType):
        offsets, mask, flat = list_parts(array)
        return pa.ListArray.from_arrays(
            offsets, to_arrow_file(flat, type_.inner), type=arrow_file_type(type_), mask=mask
        )
    if isinstance(type_, MapType):
        offsets, mask, flat = list_parts(array)
        keys, values = flat.field(0), flat.field(1)
        return pa.MapArray.from_arrays(
            offsets, to_arrow_file(keys, type_.key), to_arrow_file(values, type_.value), type=arrow_file_type(type_)
        )
    if isinstance(type_, TupleType):
        children = [
            to_arrow_file(child, inner) for child, (_, inner) in zip(array.flatten(), type_.elements, strict=True)
        ]
        return build_struct_array(children, arrow_file_type(type_), len(array))
    return array


def list_parts(array: pa.Array) -> tuple[pa.Array, pa.Array | None, pa.Array]:
    """Returns offsets from 0, the mask of null rows, and the elements (entries of a map)."""
    if array.offset:
        array = pa.concat_arrays([array])
        if array.offset:
            array = array.take(pa.array(np.arange(len(array))))
    flat = (
        array.values
        if not pa.types.is_map(array.type)
        else pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    )
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, start), pc.is_null(array) if array.null_count else None, flat.slice(start, end - start)


def enum_names(array: pa.Array, type_: EnumType) -> pa.Array:
    """Returns the names of an Enum's values."""
    numbers = pa.array([number for _, number in type_.values], type_.arrow)
    return pc.take(pa.array([name for name, _ in type_.values], pa.string()), pc.index_in(array, numbers))


def from_arrow_file(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Converts an Arrow column of any sensible type to storage values.

    Raises :class:`BadValueError`, ``UserError`` 53.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(type_, LowCardinalityType):
        return _dictionary(array, type_, options)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(type_, NullableType):
        return from_arrow_file(array, type_.inner, options)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_.arrow)
    if isinstance(type_, (ArrayType, MapType, TupleType)):
        return _composite(array, type_, options)
    return _simple(array, type_, options)


def _dictionary(array: pa.Array, type_: LowCardinalityType, options: FormatOptions) -> pa.Array:
    encoded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    values = from_arrow_file(encoded.dictionary, type_.inner, options)
    again = pc.dictionary_encode(values)
    indices = pc.take(again.indices, pc.cast(encoded.indices, pa.int32()))
    return pa.DictionaryArray.from_arrays(pc.cast(indices, pa.int32()), again.dictionary)


def _composite(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    kind = array.type
    if isinstance(type_, ArrayType) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        if pa.types.is_large_list(kind):
            array = array.cast(pa.list_(kind.value_type))
        offsets, mask, flat = list_parts(array)
        inner = _check_no_nulls(from_arrow_file(flat, type_.inner, options), type_.inner)
        return pa.ListArray.from_arrays(offsets, inner, type=type_.arrow, mask=mask)
    if isinstance(type_, MapType) and pa.types.is_map(kind):
        offsets, mask, flat = list_parts(array)
        keys = from_arrow_file(flat.field(0), type_.key, options)
        values = _check_no_nulls(from_arrow_file(flat.field(1), type_.value, options), type_.value)
        result = pa.MapArray.from_arrays(offsets, keys, values, type=type_.arrow)
        return result.take(pc.if_else(mask, None, pa.array(np.arange(len(array))))) if mask is not None else result
    if isinstance(type_, TupleType) and pa.types.is_struct(kind) and kind.num_fields == len(type_.elements):
        children = [
            _check_no_nulls(from_arrow_file(child, inner, options), inner)
            for child, (_, inner) in zip(array.flatten(), type_.elements, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(type_.arrow))
    raise _mismatch_error(array, type_)


def _check_no_nulls(array: pa.Array, type_: DataType) -> pa.Array:
    """Refuses nulls inside a composite value: there is no default for them."""
    if array.null_count and not type_.is_nullable:
        raise UserError("TYPE_MISMATCH", f"Cannot convert NULL to {type_} inside another type")
    return array


def _simple(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        array, kind = pc.cast(array, pa.string()), pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        array, kind = pc.cast(array, pa.binary()), pa.binary()
    if kind == type_.arrow and not isinstance(type_, (DateType, Date32Type)):
        return validate_values(array, type_)
    if pa.types.is_string(kind):
        return parse_texts(array, type_, options)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _from_binary(array, type_, options)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _from_time(array, type_, options)
    return _cast(array, type_)


def _from_binary(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(type_, FixedStringType):
        return pad_fixed(pc.cast(array, pa.binary()), type_)
    lengths = pc.binary_length(array)
    if type_.arrow == pa.binary(16) and pc.all(pc.equal(lengths, 16), min_count=0).as_py():
        return pc.cast(array, type_.arrow)
    try:
        return parse_texts(pc.cast(array, pa.string()), type_, options)
    except pa.ArrowInvalid:
        index = next(i for i, value in enumerate(array.to_pylist()) if not _is_text(value))
        text = repr(array[index].as_py())
        raise BadValueError("INCORRECT_DATA", index, text, f"Invalid UTF-8: {text[:60]}") from None


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _from_time(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    kind = array.type
    if isinstance(type_, (DateType, Date32Type)):
        return _cast(array, type_)
    if not isinstance(type_, (DateTimeType, DateTime64Type)):
        return _cast(array, type_)
    naive = pc.cast(array, pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) else array
    if pa.types.is_timestamp(kind) and kind.tz:
        naive = pc.cast(pc.cast(array, pa.int64()), pa.timestamp(kind.unit))
    result = in_unit(naive, type_)
    if pa.types.is_date(kind):
        result = wall_clocks_to_utc(result, type_.timezone or options.timezone)
    return truncate_fraction(result, type_) if isinstance(type_, DateTime64Type) else validate_values(result, type_)


def in_unit(times: pa.Array, type_: DateTimeType | DateTime64Type) -> pa.Array:
    """Returns dates or times in the type's unit; digits beyond it are cut.

    Raises ``BadValueError`` (407) for a time beyond what 64 bits of that unit reach: 2262 for nanoseconds.
    """
    kind = times.type
    is_cut = pa.types.is_timestamp(kind) and _UNITS.index(kind.unit) > _UNITS.index(type_.arrow.unit)
    try:
        return pc.cast(times, type_.arrow, safe=not is_cut)
    except pa.ArrowInvalid:
        index = first_invalid_row(times, type_.arrow)
        text = describe_value(times, index)
        raise BadValueError("DECIMAL_OVERFLOW", index, text, f"{text} is out of range of {type_}") from None


_UNITS = ("s", "ms", "us", "ns")


def _cast(array: pa.Array, type_: DataType) -> pa.Array:
    kind = array.type
    try:
        if isinstance(type_, (DateTimeType, DateTime64Type)):
            return validate_values(pc.cast(pc.cast(array, pa.int64()), type_.arrow), type_)
        if isinstance(type_, (DateType, Date32Type)) and pa.types.is_integer(kind):
            array = pc.cast(array, pa.int32())
        if isinstance(type_, (IntegerType, IPv4Type)) and pa.types.is_boolean(kind):
            array = pc.cast(array, pa.uint8())
        if isinstance(type_, BoolType) and pa.types.is_integer(kind):
            return pc.not_equal(array, 0)
        return validate_values(pc.cast(array, type_.arrow), type_)
    except pa.ArrowNotImplementedError:
        raise _mismatch_error(array, type_) from None
    except pa.ArrowInvalid as error:
        index = first_invalid_row(array, type_.arrow)
        if isinstance(type_, (IntegerType, DecimalType, FloatType, IPv4Type, EnumType)):
            raise range_error(index, describe_value(array, index), type_) from None
        raise BadValueError(
            "CANNOT_CONVERT_TYPE",
            index,
            describe_value(array, index),
            f"Cannot convert {describe_value(array, index)} to {type_}: {error}",
        ) from None


def describe_value(array: pa.Array, index: int) -> str:
    """Returns a value for an error's text; for an instant outside Python's dates its number."""
    try:
        return str(array[index].as_py())
    except (OverflowError, ValueError):
        return str(array.slice(index, 1).view(pa.int64())[0].as_py())


_DAYS = {DateType: (0, 65535), Date32Type: (-25567, 120529)}


def validate_values(array: pa.Array, type_: DataType) -> pa.Array:
    """Checks what the storage type allows but ClickHouse's does not.

    That are strings that are not UTF-8, days and seconds out of range, and numbers that an Enum lacks.
    """
    if pa.types.is_string(array.type):
        return _check_utf8(array)
    if isinstance(type_, (DateType, Date32Type)):
        _check_range(pc.cast(array, pa.int32()), *_DAYS[type(type_)], array, type_)
    elif isinstance(type_, DateTimeType):
        _check_range(pc.cast(array, pa.int64()), 0, 2**32 - 1, array, type_)
    elif isinstance(type_, EnumType):
        known = pc.or_(
            pc.is_in(array, pa.array([number for _, number in type_.values], type_.arrow)), pc.is_null(array)
        )
        index = int(pc.index(known, pa.scalar(False)).as_py())
        if index >= 0:
            value = describe_value(array, index)
            raise BadValueError("UNKNOWN_ELEMENT_OF_ENUM", index, value, f"Unknown number {value} for {type_}")
    return array


def decode_utf8(values: pa.Array) -> pa.Array:
    """Returns binary values as strings. Raises :class:`BadValueError` 117 for bytes that are not UTF-8."""
    return _check_utf8(view_as_text(values))


def _check_utf8(array: pa.Array) -> pa.Array:
    if is_valid_utf8(array):
        return array
    binary = pc.cast(array, pa.binary())
    try:
        binary.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UserError("INCORRECT_DATA", f"Malformed Arrow data: {error}") from None
    values = binary.to_pylist()
    index = next((i for i, value in enumerate(values) if not _is_text(value)), 0)
    text = repr(values[index])
    raise BadValueError("INCORRECT_DATA", index, text, f"Invalid UTF-8: {text[:60]}")


def _check_range(numbers: pa.Array, low: int, high: int, array: pa.Array, type_: DataType) -> None:
    bounds = pc.min_max(numbers)
    if bounds["min"].as_py() is None or (low <= bounds["min"].as_py() and bounds["max"].as_py() <= high):
        return
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    index = int(pc.index(outside, pa.scalar(True)).as_py())
    if index >= 0:
        raise range_error(index, describe_value(array, index), type_)


def _mismatch_error(array: pa.Array, type_: DataType) -> UserError:
    return UserError("TYPE_MISMATCH", f"Cannot read Arrow type {array.type} as {type_}")
