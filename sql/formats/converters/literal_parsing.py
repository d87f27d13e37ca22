"""Parses literals as they stand in VALUES and inside arrays, maps and tuples of text formats.

It works level by level. The values of a level are split into the texts of their elements (:mod:`literal_splitting`),
one call converts all elements of the level, and offsets put them together again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
    strip_nullable,
)
from sql.formats.converters.literal_splitting import NotAListError, split_elements
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_parsing import parse_texts
from sql.formats.format_options import BadValueError, FormatOptions, parse_error
from sql.grammar.text_escapes import shorten_for_message, unescape_quoted

_QUOTED = r"(?s)^'(?:[^'\\]|\\.|'')*'$"
_BRACKETS = {ArrayType: "[]", MapType: "{}", TupleType: "()"}


def parse_field(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Parses fields of a TSV or CSV row: bare texts for simple types, literals for composite ones."""
    return parse_literals(texts, type_, options) if type_.is_composite else parse_texts(texts, type_, options)


def parse_literals(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Parses quoted or bare literals; ``NULL`` is null. Raises :class:`BadValueError`."""
    if isinstance(type_, ArrayType):
        return _parse_arrays(texts, type_, options)
    if isinstance(type_, MapType):
        return _parse_maps(texts, type_, options)
    if isinstance(type_, TupleType):
        return _parse_tuples(texts, type_, options)
    return parse_texts(unquote_literals(texts), type_, options)


def unquote_literals(texts: pa.Array) -> pa.Array:
    """Removes the quotes of literals, resolves escapes, and makes NULL null."""
    quoted = pc.starts_with(texts, "'")
    if not pc.any(quoted, min_count=0).as_py():
        return _parse_nulls(texts, None)
    bodies = unescape_quoted(pc.utf8_slice_codeunits(pc.if_else(quoted, texts, None), 1, -1))
    return pc.if_else(quoted, bodies, _parse_nulls(texts, quoted))


def _parse_nulls(texts: pa.Array, quoted: pa.Array | None) -> pa.Array:
    is_null = pc.match_substring_regex(texts, "(?i)^null$") if may_contain_null(texts) else None
    return texts if is_null is None else pc.if_else(is_null, None, texts)


def may_contain_null(texts: pa.Array) -> bool:
    """Returns whether one of the texts may be the word NULL: has four letters."""
    return bool(pc.any(pc.equal(pc.binary_length(texts), 4), min_count=0).as_py())


def _parse_arrays(texts: pa.Array, type_: ArrayType, options: FormatOptions) -> pa.Array:
    lists = _split(texts, type_, ",")
    inner = _convert_elements(lists, lists.flatten(), type_.inner, options, texts)
    item = type_.arrow.value_field
    offsets = _offsets(lists)
    return pa.ListArray.from_arrays(offsets, inner.cast(item.type), type=type_.arrow, mask=_mask(texts))


def _parse_maps(texts: pa.Array, type_: MapType, options: FormatOptions) -> pa.Array:
    lists = _split(texts, type_, ",:")
    flat = lists.flatten()
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    odd = pc.equal(pc.bit_wise_and(lengths, 1), 1)
    index = int(pc.index(odd, pa.scalar(True)).as_py())
    if index >= 0:
        raise parse_error(index, texts[index].as_py(), type_)
    keys, values = (flat.take(pa.array(np.arange(start, len(flat), 2))) for start in (0, 1))
    offsets = pc.divide(_offsets(lists), 2)
    halves = pa.ListArray.from_arrays(offsets, keys)
    key_array = _convert_elements(halves, keys, type_.key, options, texts)
    value_array = _convert_elements(halves, values, type_.value, options, texts)
    result = pa.MapArray.from_arrays(offsets, key_array, value_array, type_.arrow)
    return _apply_mask(result, texts)


def _parse_tuples(texts: pa.Array, type_: TupleType, options: FormatOptions) -> pa.Array:
    lists = _split(texts, type_, ",")
    width = len(type_.elements)
    bad = pc.and_(pc.not_equal(pc.list_value_length(lists), width), pc.is_valid(texts))
    index = int(pc.index(bad, pa.scalar(True)).as_py())
    if index >= 0:
        raise parse_error(index, texts[index].as_py(), type_)
    valid = np.repeat(np.arange(len(texts)), width) if not texts.null_count else None
    flat = lists.flatten()
    present = len(flat) // width if width else 0
    children = []
    for position, (_, element) in enumerate(type_.elements):
        column = flat.take(pa.array(np.arange(position, present * width, width)))
        rows = pa.ListArray.from_arrays(pa.array(np.arange(present + 1), pa.int32()), column)
        children.append(
            _convert_elements(rows, column, element, options, texts if valid is not None else texts.drop_null())
        )
    struct = pa.StructArray.from_arrays(children, fields=list(type_.arrow))
    if not texts.null_count:
        return struct
    positions = pc.subtract(pc.cumulative_sum(pc.cast(pc.is_valid(texts), pa.int32())), 1)
    return struct.take(pc.if_else(pc.is_valid(texts), positions, None))


def _convert_elements(
    lists: pa.Array, flat: pa.Array, type_: DataType, options: FormatOptions, texts: pa.Array
) -> pa.Array:
    """Converts the elements; an error names the row that holds the element."""
    try:
        format_ = scalar_format(strip_nullable(type_))
        if format_ is not None and format_.is_quoted_in_lists:
            _check_quotes(flat, type_)
        values = parse_literals(flat, type_, options)
    except BadValueError as error:
        offsets = np.asarray(_offsets(lists))
        row = int(np.searchsorted(offsets, error.index, side="right")) - 1
        raise error.with_index(row) from None
    if values.null_count and not _nullable(type_):
        element = int(pc.index(pc.is_null(values), pa.scalar(True)).as_py())
        row = int(np.searchsorted(np.asarray(_offsets(lists)), element, side="right")) - 1
        raise parse_error(row, "NULL", type_)
    return values


def _check_quotes(texts: pa.Array, type_: DataType) -> None:
    """Raises for an element that is not in quotes: other marks would become part of the value."""
    is_quoted = pc.and_(pc.starts_with(texts, "'"), pc.ends_with(texts, "'"))
    if pc.any(pc.greater(pc.count_substring(texts, "'"), 2), min_count=0).as_py():
        is_quoted = pc.match_substring_regex(texts, _QUOTED)
    if may_contain_null(texts):
        is_quoted = pc.or_(is_quoted, pc.match_substring_regex(texts, "(?i)^null$"))
    index = int(pc.index(is_quoted, pa.scalar(False)).as_py())
    if index >= 0:
        text = texts[index].as_py()
        detail = f"Cannot parse quoted string: expected single quotes around {shorten_for_message(text)} as {type_}"
        raise BadValueError("CANNOT_PARSE_QUOTED_STRING", index, text, detail)


def _nullable(type_: DataType) -> bool:
    return isinstance(type_, NullableType) or (isinstance(type_, LowCardinalityType) and type_.is_nullable)


def _split(texts: pa.Array, type_: DataType, separators: str) -> pa.Array:
    try:
        offsets, elements = split_elements(texts, _BRACKETS[type(type_)], separators)
    except NotAListError as error:
        raise parse_error(error.index, texts[error.index].as_py(), type_) from None
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _offsets(lists: pa.Array) -> pa.Array:
    """Returns offsets from 0 that fit ``lists.flatten()`` (null lists are empty)."""
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(lists), 0)), out=offsets[1:])
    return pa.array(offsets, pa.int32())


def _mask(texts: pa.Array) -> pa.Array | None:
    return pc.is_null(texts) if texts.null_count else None


def _apply_mask(result: pa.Array, texts: pa.Array) -> pa.Array:
    if not texts.null_count:
        return result
    positions = pc.if_else(pc.is_valid(texts), pa.array(np.arange(len(texts))), None)
    return result.take(positions)
