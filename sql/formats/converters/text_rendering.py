"""Renders values as text, whole columns at a time, byte for byte as ClickHouse does.

There are three ways to write a value: *plain* (as toString; nested values inside are quoted), *quoted* (an SQL literal,
as inside arrays and in VALUES), *JSON*. Lists are written without a loop: the elements are rendered as one array and
joined per row by Arrow. Only floats outside 1e-4 … 1e9 are formatted value by value, each distinct one once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, TupleType
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.format_options import FormatOptions
from sql.grammar.text_escapes import escape

QUOTED_ESCAPES = {
    "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "'": "\\'",
}  # fmt: skip


def render_plain(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Renders the values plainly; nulls stay nulls."""
    array, type_ = unwrap_array(array, type_)
    format_ = scalar_format(type_)
    return format_.render(array, type_, options) if format_ is not None else _composites(array, type_, options)


def render_quoted(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Renders the values as SQL literals; null is ``NULL``."""
    array, type_ = unwrap_array(array, type_)
    format_ = scalar_format(type_)
    if format_ is None:
        texts = _composites(array, type_, options)
    else:
        texts = format_.render(array, type_, options)
        if format_.needs_quotes:
            texts = escape(texts, QUOTED_ESCAPES) if format_.is_textual else texts
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


def join_elements(
    offsets: pa.Array, mask: pa.Array | None, elements: pa.Array, opener: str, separator: str, closer: str
) -> pa.Array:
    """Joins the texts of each row's elements between brackets."""
    lists = pa.ListArray.from_arrays(offsets, elements, mask=mask)
    return pc.binary_join_element_wise(opener, pc.binary_join(lists, separator), closer, "")


def _composites(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    match type_:
        case ArrayType():
            return _arrays(array, type_, options)
        case MapType():
            return _maps(array, type_, options)
        case TupleType():
            return _tuples(array, type_, options)
    raise AssertionError(type_)


def _arrays(array: pa.Array, type_: ArrayType, options: FormatOptions) -> pa.Array:
    offsets, mask, flat = list_parts(array)
    return join_elements(offsets, mask, render_quoted(flat, type_.inner, options), "[", ",", "]")


def _maps(array: pa.Array, type_: MapType, options: FormatOptions) -> pa.Array:
    offsets, mask, flat = list_parts(array)
    keys = render_quoted(flat.field(0), type_.key, options)
    pairs = pc.binary_join_element_wise(keys, render_quoted(flat.field(1), type_.value, options), ":")
    return join_elements(offsets, mask, pairs, "{", ",", "}")


def _tuples(array: pa.Array, type_: TupleType, options: FormatOptions) -> pa.Array:
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
