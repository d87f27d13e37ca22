"""Renders values as JSON, whole columns at a time.

``indent`` is the number of tabs before the value's line in the ``JSON`` format, which spreads maps and tuples over
lines. ``None`` writes everything on one line.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    MapType,
    TupleType,
)
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_rendering import join_columns, join_elements, render_plain, unwrap_array
from sql.formats.format_options import FormatOptions
from sql.grammar.text_escapes import concatenate_bytes, escape

_CONTROLS = {chr(code): f"\\u{code:04X}" for code in range(32)}
_ESCAPES = _CONTROLS | {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
                        "\u2028": "\\u2028", "\u2029": "\\u2029"}  # fmt: skip
_MARKS = [mark.encode() for mark in ('"', "\\", "/", "\u2028", "\u2029")]


def render_json(array: pa.Array, type_: DataType, options: FormatOptions, indent: int | None = None) -> pa.Array:
    """Renders the values as JSON texts, never null."""
    array, type_ = unwrap_array(array, type_)
    if isinstance(type_, ArrayType):
        texts = _array(array, type_, options, indent)
    elif isinstance(type_, MapType):
        texts = _map(array, type_, options, indent)
    elif isinstance(type_, TupleType):
        texts = _tuple(array, type_, options, indent)
    else:
        texts = _scalar(array, type_, options)
    return pc.fill_null(texts, "null") if texts.null_count else texts


def quote_json(texts: pa.Array, options: FormatOptions) -> pa.Array:
    """Renders texts as JSON strings."""
    data = concatenate_bytes(texts)
    escapes = _ESCAPES | {"/": "\\/"} if options.escape_forward_slashes else _ESCAPES
    if any(mark in data for mark in _MARKS) or (np.frombuffer(data, np.uint8) < 32).any():
        texts = escape(texts, escapes)
    return pc.binary_join_element_wise('"', texts, '"', "")


def json_string(text: str, options: FormatOptions) -> str:
    """Renders one text as a JSON string."""
    return _json_string(text, options.escape_forward_slashes)


@lru_cache(maxsize=1024)  # caches names and types of the last queries' columns
def _json_string(text: str, escape_forward_slashes: bool) -> str:
    options = FormatOptions(escape_forward_slashes=escape_forward_slashes)
    return str(quote_json(pa.array([text], pa.string()), options)[0].as_py())


def _scalar(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    if format_.needs_quotes:
        return quote_json(format_.render(array, type_, options), options)
    return format_.render_json_number(array, type_, options)


def _deeper(indent: int | None) -> int | None:
    return None if indent is None else indent + 1


def _brackets(opener: str, closer: str, indent: int | None) -> tuple[str, str, str]:
    """Returns opening, separator and closing of a list that is spread over lines (or not)."""
    if indent is None:
        return opener, ",", closer
    inner = "\n" + "\t" * (indent + 1)
    return opener + inner, "," + inner, "\n" + "\t" * indent + closer


def _array(array: pa.Array, type_: ArrayType, options: FormatOptions, indent: int | None) -> pa.Array:
    offsets, mask, flat = list_parts(array)
    if indent is None or not type_.inner.is_composite:
        return join_elements(offsets, mask, render_json(flat, type_.inner, options), "[", ",", "]")
    opener, separator, closer = _brackets("[", "]", indent)
    texts = join_elements(offsets, mask, render_json(flat, type_.inner, options, indent + 1), opener, separator, closer)
    return pc.if_else(pc.equal(texts, opener + closer), "[]", texts)


def _map(array: pa.Array, type_: MapType, options: FormatOptions, indent: int | None) -> pa.Array:
    offsets, mask, flat = list_parts(array)
    keys = quote_json(render_plain(flat.field(0), type_.key, options), options)
    values = render_json(flat.field(1), type_.value, options, _deeper(indent))
    pairs = pc.binary_join_element_wise(keys, values, ":" if indent is None else ": ")
    opener, separator, closer = _brackets("{", "}", indent)
    texts = join_elements(offsets, mask, pairs, opener, separator, closer)
    empty = pc.equal(texts, opener + closer)
    return pc.if_else(empty, "{}", texts) if indent is not None else texts


def _tuple(array: pa.Array, type_: TupleType, options: FormatOptions, indent: int | None) -> pa.Array:
    named = type_.is_named and options.named_tuples_as_objects
    children = []
    for child, (name, inner) in zip(array.flatten(), type_.elements, strict=True):
        texts = render_json(child, inner, options, _deeper(indent))
        if named:
            key = json_string(name or "", options) + (":" if indent is None else ": ")
            texts = pc.binary_join_element_wise(key, texts, "")
        children.append(texts)
    opener, separator, closer = _brackets("{" if named else "[", "}" if named else "]", indent)
    if not children and indent is not None:
        opener = "[\n"
    texts = pc.binary_join_element_wise(opener, join_columns(children, separator, len(array)), closer, "")
    return pc.if_else(pc.is_valid(array), texts, None) if array.null_count else texts
