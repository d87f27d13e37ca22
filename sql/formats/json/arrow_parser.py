"""Parses JSON lines with pyarrow; gives ``None`` for what it refuses or may read differently.

Every column is requested in the form that its first rows have: numbers that are quoted there are read as strings. Maps
and unnamed tuples have been rewritten before (:mod:`line_rewriting`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    ScalarType,
    StringType,
    TupleType,
    strip_nullable,
)
from sql.formats.converters.arrow_type_mapping import from_arrow_file, list_parts
from sql.formats.converters.literal_parsing import parse_field
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_parsing import refuse_blanks
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.json.line_rewriting import has_other_case
from sql.grammar.text_escapes import is_valid_utf8

_NULL_TEXT = "^(?:ᴺᵁᴸᴸ|(?i:null))$"
"""Texts for null where all values are strings."""
_MOST_DIGITS = 38
_UNKNOWN = "unexpected field"
"""Part of pyarrow's error for a key that is not requested."""
_SAMPLE_ROWS = 3


def has_arrow_form(columns: Sequence[Column]) -> bool:
    """Returns whether pyarrow can read every type. It cannot read a tuple without elements."""
    return all(_is_readable(column.type) for column in columns)


def _is_readable(type_: DataType) -> bool:
    match type_:
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return _is_readable(inner)
        case MapType(_, value):
            return _is_readable(value)
        case TupleType(elements):
            return bool(elements) and all(_is_readable(inner) for _, inner in elements)
    return True


def parse_lines(
    chunk: bytes, columns: Sequence[Column], options: FormatOptions, *, is_header_read: bool = False
) -> pa.Table | None:
    """Parses objects, one a line.

    ``is_header_read`` says that every key is a column's name, or stands for a column that nobody wants.
    """
    try:
        samples = _samples(chunk)
        asked = {
            column.name: _requested_type(column.type, [row[column.name] for row in samples if column.name in row])
            for column in columns
        }
        _refuse_wide_numbers(chunk, asked.values())
        table = _read(chunk, asked, options, is_header_read)
        arrays = [_from_json(_get_array(table, column), column.type, options) for column in columns]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, RecursionError, BadValueError, UserError):
        return None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def parse_string_lines(
    chunk: bytes, columns: Sequence[Column], options: FormatOptions, *, is_header_read: bool = False
) -> pa.Table | None:
    """Parses objects whose values are all strings."""
    try:
        table = _read(chunk, {column.name: pa.string() for column in columns}, options, is_header_read)
        arrays = []
        for column in columns:
            texts = _get_array(table, column)
            if not is_valid_utf8(texts):
                return None
            if column.type.is_nullable or strip_nullable(column.type) != StringType():
                texts = read_null_texts(texts)
            refuse_blanks(texts, column.type)
            arrays.append(parse_field(texts, column.type, options))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, BadValueError, UserError):
        return None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def read_null_texts(texts: pa.Array) -> pa.Array:
    """Makes the texts null that mean NULL in formats whose values are all strings."""
    return pc.if_else(pc.match_substring_regex(texts, _NULL_TEXT), None, texts)


def _read(chunk: bytes, asked: dict[str, pa.DataType], options: FormatOptions, is_header_read: bool) -> pa.Table:
    if is_header_read:
        table = _parse(chunk, asked, "ignore")
    else:
        try:
            table = _parse(chunk, asked, "error")
        except pa.ArrowInvalid as error:
            is_unknown = _UNKNOWN in str(error) and options.skip_unknown_fields
            is_exact = options.column_name_matching_mode == "match_case"
            if not is_unknown or not (is_exact or not has_other_case(chunk, list(asked))):
                raise
            table = _parse(chunk, asked, "ignore")
    if table.num_rows == 0 or table.num_rows != _line_count(chunk):
        raise ValueError("not a row a line")
    return table


def _parse(chunk: bytes, asked: dict[str, pa.DataType], unknown_fields: str) -> pa.Table:
    parse = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(asked.items())),
        newlines_in_values=False,
        unexpected_field_behavior=unknown_fields,
    )
    read = arrow_json.ReadOptions(block_size=len(chunk) + 1, use_threads=False)
    return arrow_json.read_json(pa.BufferReader(chunk), read, parse)


def _line_count(chunk: bytes) -> int:
    """Returns the number of rows if every line is one.

    Extra blank lines make the count differ; then the slow path decides.
    """
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _get_array(table: pa.Table, column: Column) -> pa.Array:
    array = table.column(column.name).combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


# What is asked for ----------------------------------------------------------------------------------------------------


def _samples(chunk: bytes) -> list[dict[str, Any]]:
    rows = [json.loads(line) if line.strip() else {} for line in chunk.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS]]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("not an object")
    return rows


def _requested_type(type_: DataType, samples: list[Any]) -> pa.DataType:
    """Returns the Arrow type to request so that pyarrow accepts the samples."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return _requested_type(inner, samples)
        case ArrayType(inner):
            return pa.list_(_requested_type(inner, _list_elements(samples)))
        case MapType(_, value):
            return pa.list_(
                pa.struct(
                    [("0", pa.string()), ("1", _requested_type(value, _list_values("1", _list_elements(samples))))]
                )
            )
        case TupleType(elements):
            names = [name or str(place) for place, (name, _) in enumerate(elements)]
            forms = [
                _requested_type(inner, _list_values(name, samples))
                for name, (_, inner) in zip(names, elements, strict=True)
            ]
            return pa.struct(list(zip(names, forms, strict=True)))
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    asked = format_.json_type(type_, {type(value) for value in samples})
    if asked is None:
        raise ValueError("a number where a text is asked for")
    return asked


def _refuse_wide_numbers(chunk: bytes, asked: Iterable[pa.DataType]) -> None:
    """Raises ``ValueError`` if a number may have too many digits for a decimal.

    pyarrow does not notice when a decimal overflows as it gets its scale.
    """
    scales = [scale for kind in asked for scale in _find_scales(kind)]
    if not scales:
        return
    data = np.frombuffer(chunk, np.uint8)
    is_digit = (data >= ord("0")) & (data <= ord("9"))
    others = np.flatnonzero(np.append(~is_digit, True))
    longest = int(np.diff(others, prepend=-1).max()) - 1
    has_exponent = (is_digit[:-1] & ((data[1:] | 0x20) == ord("e"))).any()
    if longest > _MOST_DIGITS - max(scales) or has_exponent:
        raise ValueError("perhaps a decimal of too many digits")


def _find_scales(kind: pa.DataType) -> Iterator[int]:
    if pa.types.is_decimal(kind):
        yield kind.scale
    elif pa.types.is_nested(kind):
        for index in range(kind.num_fields):
            yield from _find_scales(kind.field(index).type)


def _list_elements(samples: list[Any]) -> list[Any]:
    return [element for value in samples if isinstance(value, list) for element in value]


def _list_values(key: str, samples: list[Any]) -> list[Any]:
    return [value[key] for value in samples if isinstance(value, dict) and key in value]


# What comes back ------------------------------------------------------------------------------------------------------


def _from_json(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    _refuse_nested_nulls(array, type_)
    return from_arrow_file(_restore_shapes(array, type_), type_, options)


def _refuse_nested_nulls(array: pa.Array, type_: DataType) -> None:
    """Raises ``ValueError`` for nulls inside composite values.

    Only at the top level does null mean "take the default"; nested ones are left to the exact reader.
    """
    match type_:
        case ArrayType(inner):
            children = [(array.flatten(), inner)]
        case MapType(_, value):
            entries = array.flatten()
            if entries.null_count or entries.field(0).null_count:
                raise ValueError("not a key and a value")
            children = [(entries.field(1), value)]
        case TupleType(elements):
            if array.null_count:
                raise ValueError("a missing tuple")
            children = [(child, inner) for child, (_, inner) in zip(array.flatten(), elements, strict=True)]
        case _:
            return
    # A named element that is null may also be missing.
    may_be_missing = isinstance(type_, TupleType) and type_.is_named
    for child, inner in children:
        if child.null_count and (may_be_missing or not inner.is_nullable):
            raise ValueError("null or a missing element")
        _refuse_nested_nulls(child, inner)


def _needs_quotes(type_: DataType) -> bool:
    format_ = scalar_format(type_)
    return format_ is not None and format_.needs_quotes


def _restore_shapes(array: pa.Array, type_: DataType) -> pa.Array:
    """Converts lists of key and value to maps, and numbers of times and enums to texts."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return _restore_shapes(array, inner)
        case ArrayType(inner):
            offsets, mask, flat = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _restore_shapes(flat, inner), mask=mask)
        case MapType(_, value):
            offsets, mask, flat = list_parts(array)
            return pa.MapArray.from_arrays(offsets, flat.field(0), _restore_shapes(flat.field(1), value), mask=mask)
        case TupleType(elements):
            pairs = zip(array.flatten(), elements, strict=True)
            children = [_restore_shapes(child, inner) for child, (_, inner) in pairs]
            return pa.StructArray.from_arrays(children, names=[field.name for field in array.type])
        case ScalarType() if pa.types.is_integer(array.type) and _needs_quotes(type_):
            if pc.any(pc.equal(array, 0)).as_py():
                raise ValueError("-0 is another text than 0")
            return pc.cast(array, pa.string())
    if pa.types.is_string(array.type):
        refuse_blanks(array, type_)
    return array
