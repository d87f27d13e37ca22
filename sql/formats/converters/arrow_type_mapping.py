"""Maps storage types to the Arrow types of ``FORMAT Parquet``, ``Arrow``, ``ArrowStream``, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.format.flat_arrays import build_struct_array
from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NothingType, NullableType, TupleType
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_parsing import parse_texts
from sql.formats.converters.value_checks import describe_value, is_text
from sql.formats.format_options import BadValueError, FormatOptions, range_error


def arrow_file_type(type_: DataType) -> pa.DataType:
    """Returns the Arrow type in which a type is written."""
    if isinstance(type_, (NullableType, LowCardinalityType)):
        return arrow_file_type(type_.inner)
    if isinstance(type_, ArrayType):
        return pa.list_(arrow_file_field("item", type_.inner))
    if isinstance(type_, MapType):
        return pa.map_(arrow_file_type(type_.key), arrow_file_field("value", type_.value))
    if isinstance(type_, TupleType):
        return pa.struct(
            [arrow_file_field(field.name, inner) for field, (_, inner) in zip(type_.arrow, type_.elements, strict=True)]
        )
    format_ = scalar_format(type_)
    return format_.file_type(type_) if format_ is not None else type_.arrow


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
    format_ = scalar_format(type_)
    return format_.to_file(array, type_) if format_ is not None else array


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
    if type_.is_composite:
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
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        array, kind = pc.cast(array, pa.string()), pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        array, kind = pc.cast(array, pa.binary()), pa.binary()
    if kind == type_.arrow:
        return format_.check(array, type_)
    if pa.types.is_string(kind):
        return parse_texts(array, type_, options)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = format_.from_bytes_column(array, type_)
        return values if values is not None else _parse_bytes(array, type_, options)
    try:
        return format_.from_file(array, type_, options)
    except pa.ArrowNotImplementedError:
        raise _mismatch_error(array, type_) from None
    except pa.ArrowInvalid as error:
        raise _cast_error(array, type_, error) from None


def _parse_bytes(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    try:
        return parse_texts(pc.cast(array, pa.string()), type_, options)
    except pa.ArrowInvalid:
        index = next(i for i, value in enumerate(array.to_pylist()) if not is_text(value))
        text = repr(array[index].as_py())
        raise BadValueError("INCORRECT_DATA", index, text, f"Invalid UTF-8: {text[:60]}") from None


def _cast_error(array: pa.Array, type_: DataType, error: pa.ArrowInvalid) -> BadValueError:
    index, kind = first_invalid_row(array, type_.arrow), type_.arrow
    value = describe_value(array, index)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return range_error(index, value, type_)
    return BadValueError("CANNOT_CONVERT_TYPE", index, value, f"Cannot convert {value} to {type_}: {error}")


def _mismatch_error(array: pa.Array, type_: DataType) -> UserError:
    return UserError("TYPE_MISMATCH", f"Cannot read Arrow type {array.type} as {type_}")
