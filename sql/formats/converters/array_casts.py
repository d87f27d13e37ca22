"""Casts a column from one ClickHouse type to another, for INSERT … SELECT or a DEFAULT.

It works as ClickHouse's CAST, but a number that does not fit is refused (321) and not wrapped around. Null stays null
whatever the target: :mod:`sql.definitions.column_defaults` decides what a null in a column that is not Nullable means.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    DateTimeType,
    DateType,
    FixedStringType,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
    strip_low_cardinality,
    strip_nullable,
)
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.literal_parsing import parse_literals
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.scalars.scalar_format import mismatch_error
from sql.formats.converters.scalars.string_formats import pad_fixed
from sql.formats.converters.text_parsing import parse_texts
from sql.formats.converters.text_rendering import render_plain
from sql.formats.converters.value_checks import decode_utf8
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.text_escapes import shorten_for_message


def cast_array(
    array: pa.Array | pa.ChunkedArray, source: DataType, target: DataType, options: FormatOptions | None = None
) -> pa.Array:
    """Casts ``array`` from the storage of ``source`` to that of ``target``.

    Raises ``BadValueError`` and ``UserError`` 53.
    """
    options = options or FormatOptions()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.nulls(0, array.type)
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    if source == target:
        return array
    if isinstance(target, LowCardinalityType):
        inner = cast_array(_decode_dictionary(array), strip_low_cardinality(source), target.inner, options)
        return pc.dictionary_encode(inner)
    if isinstance(target, NullableType):
        return cast_array(array, source, target.inner, options)
    array, source = _decode_dictionary(array), strip_nullable(source)
    if source == target:
        return array
    if isinstance(source, NothingType):
        return pa.nulls(len(array), target.arrow)
    return _cast(array, source, target, options)


def check_range(array: pa.Array, type_: DataType) -> pa.Array:
    """Returns the array itself if every Date or DateTime is in range.

    Arrow's ranges are wider, and a query may compute what no table may hold. Raises ``BadValueError`` (321).
    """
    bare = strip_nullable(type_)
    format_ = scalar_format(bare)
    if format_ is not None and isinstance(bare, (DateType, DateTimeType)) and len(array):
        format_.check(_decode_dictionary(array), bare)
    return array


def _decode_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _cast(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, FixedStringType) and not isinstance(target, FixedStringType):
        decode_utf8(pc.cast(array, pa.binary()))
    if isinstance(target, StringType):
        text = render_plain(array, source, options)
        return pc.utf8_rtrim(text, "\0") if isinstance(source, FixedStringType) else text
    if isinstance(source, (StringType, FixedStringType)):
        return _from_text(array, source, target, options)
    if isinstance(target, FixedStringType):
        return pad_fixed(pc.cast(render_plain(array, source, options), pa.binary()), target)
    format_ = scalar_format(target)
    if format_ is None:
        return _to_composite(array, source, target, options)
    return format_.cast_from(array, source, target, options)


def _from_text(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, FixedStringType):
        if isinstance(target, FixedStringType):
            return pad_fixed(pc.cast(array, pa.binary()), target)
        array = pc.utf8_rtrim(render_plain(array, source, options), "\0")
    try:
        if target.is_composite:
            return parse_literals(array, target, options)
        return parse_texts(array, target, options)
    except BadValueError as error:
        name = "CANNOT_PARSE_TEXT" if error.name == "CANNOT_PARSE_INPUT_ASSERTION_FAILED" else error.name
        detail = f"Cannot parse string {shorten_for_message(error.text)!r} as {target}"
        raise BadValueError(name, error.index, error.text, detail) from None


def _to_composite(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        offsets, mask, flat = list_parts(array)
        inner = _elements(flat, source.inner, target.inner, offsets, options)
        return pa.ListArray.from_arrays(offsets, inner, type=target.arrow, mask=mask)
    if isinstance(source, MapType) and isinstance(target, MapType):
        offsets, _, flat = list_parts(array)
        keys = _elements(flat.field(0), source.key, target.key, offsets, options)
        values = _elements(flat.field(1), source.value, target.value, offsets, options)
        return pa.MapArray.from_arrays(offsets, keys, values, type=target.arrow)
    if isinstance(source, TupleType) and isinstance(target, TupleType) and len(source.elements) == len(target.elements):
        children = [
            _check_not_null(cast_array(child, old, new, options), new)
            for child, (_, old), (_, new) in zip(array.flatten(), source.elements, target.elements, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(target.arrow))
    raise mismatch_error(source, target)


def _elements(
    flat: pa.Array, source: DataType, target: DataType, offsets: pa.Array, options: FormatOptions
) -> pa.Array:
    try:
        return _check_not_null(cast_array(flat, source, target, options), target)
    except BadValueError as error:
        row = int(pc.index(pc.greater(offsets, error.index), pa.scalar(True)).as_py()) - 1
        raise error.with_index(row) from None


def _check_not_null(array: pa.Array, target: DataType) -> pa.Array:
    if array.null_count and not target.is_nullable:
        index = int(pc.index(pc.is_null(array), pa.scalar(True)).as_py())
        raise BadValueError("TYPE_MISMATCH", index, "NULL", f"Cannot convert NULL to {target} inside another type")
    return array
