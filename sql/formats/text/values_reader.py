"""Reads VALUES: :mod:`row_splitting` parts the rows; columns are converted as literals.

Fields that are not a literal of their column's type are SQL expressions: see :mod:`values_expressions`. The word
``DEFAULT`` stands for the column's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    strip_nullable,
)
from sql.formats.converters.literal_parsing import may_contain_null, parse_literals, unquote_literals
from sql.formats.converters.null_filling import MISSING
from sql.formats.converters.row_splitting import RowShapeError, SplitRows, split_rows
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_parsing import parse_texts, refuse_blanks
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.small_inserts import parse_small_values
from sql.formats.streams.row_chunks import next_read_size, strip_byte_order_mark
from sql.formats.text.delimited_reader import decode_utf8
from sql.formats.text.values_expressions import evaluate_expressions
from sql.grammar.text_escapes import shorten_for_message

CHUNK_BYTES = 2 << 20
_PLAIN_NUMBERS = (IntegerType, FloatType, DecimalType)
_END = re.compile(rb"[\s,]*+;?+\s*+\Z")


def read_values(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of VALUES."""
    rest = strip_byte_order_mark(stream.read(3))
    first_row = 1
    wanted = CHUNK_BYTES
    while True:
        options.status.check()
        data = stream.read(max(wanted - len(rest), 1 << 16))
        rest += data
        if data and len(rest) < wanted:
            continue
        try:
            split = split_rows(rest, len(columns))
        except RowShapeError as error:
            raise _shape_error(rest, error, columns, first_row) from None
        if split.rows:
            yield _make_table(split, columns, options, first_row)
            first_row += split.rows
            rest, wanted = rest[split.end :], CHUNK_BYTES
        else:
            wanted = next_read_size(len(rest), CHUNK_BYTES)
        if rest.lstrip(b" \t\r\n,")[:1] not in (b"(", b";", b""):
            raise _unexpected_error(rest, first_row)
        if not data:
            break
    if not _END.match(rest):
        raise _unexpected_error(rest, first_row)


def parse_few_values(data: bytes, columns: Sequence[Column], options: FormatOptions) -> pa.Table | None:
    """Parses a few plain rows (see :mod:`small_inserts`)."""
    return parse_small_values(data, columns, options, _convert_column)


def _shape_error(rest: bytes, error: RowShapeError, columns: Sequence[Column], first_row: int) -> UserError:
    row, start, count = first_row + error.index, rest[error.position :], error.fields
    if count < 0:
        return _unexpected_error(start, row)
    column = columns[min(count, len(columns)) - 1]
    wanted = "','" if count < len(columns) else "')'"
    return UserError(
        "SYNTAX_ERROR",
        f"Expected {wanted} after the value of column {column.name} of type {column.type}: the row has {count} values "
        f"instead of {len(columns)}: {_text(start)!r}: (at row {row})",
    )


def _unexpected_error(rest: bytes, row: int) -> UserError:
    start = rest.lstrip(b" \t\r\n,")
    wanted = "a complete row" if start[:1] == b"(" else "'('"
    return UserError(
        "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
        f"Cannot parse input: expected {wanted} before: {_text(start)!r}: (at row {row})",
    )


def _text(data: bytes) -> str:
    return shorten_for_message(data[:240].decode("utf-8", "replace"))


def _make_table(split: SplitRows, columns: Sequence[Column], options: FormatOptions, first_row: int) -> pa.Table:
    arrays, names = [], []
    for column, values in zip(columns, split.columns, strict=True):
        texts = decode_utf8(values, column, first_row)
        is_default = _find_defaults(texts)
        if is_default is not None:
            texts = pc.if_else(is_default, None, texts)
            if column.type.is_nullable and column.default_kind == "DEFAULT":
                arrays.append(is_default)
                names.append(MISSING + column.name)
        try:
            arrays.append(_convert_column(texts, column.type, options))
        except BadValueError as error:
            raise error.to_user_error(first_row, column.name, column.type) from None
        names.append(column.name)
    return pa.Table.from_arrays(arrays, names)


def _find_defaults(texts: pa.Array) -> pa.Array | None:
    """Returns a mask of the texts that are the word DEFAULT; ``None`` if none is."""
    if not pc.any(pc.equal(pc.binary_length(texts), len("DEFAULT")), min_count=0).as_py():
        return None
    return pc.match_substring_regex(texts, "(?i)^default$")


# Columns --------------------------------------------------------------------------------------------------------------


def _convert_column(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(type_, LowCardinalityType):
        return pc.dictionary_encode(_convert_column(texts, type_.inner, options))
    if type_.is_composite:
        try:
            return parse_literals(texts, type_, options)
        except BadValueError:
            return _convert_mixed(texts, _find_non_literals(texts, type_, options), type_, options)
    quoted = _find_quoted(texts)
    is_null = pc.match_substring_regex(texts, "(?i)^null$") if may_contain_null(texts) else pa.scalar(False)
    bare = pc.invert(pc.or_(quoted, is_null))
    if not pc.any(bare, min_count=0).as_py():
        return _parse_quoted(texts, type_, options)
    if isinstance(strip_nullable(type_), _PLAIN_NUMBERS):
        try:
            return parse_texts(unquote_literals(texts), type_, options)
        except BadValueError:
            pass  # perhaps an expression
    format_ = scalar_format(strip_nullable(type_))
    if format_ is not None and format_.bare_literal is not None:
        expressions = pc.and_(bare, pc.invert(pc.match_substring_regex(texts, format_.bare_literal)))
    else:
        expressions = bare
    if isinstance(expressions, pa.Array) and pc.any(expressions, min_count=0).as_py():
        return _convert_mixed(texts, expressions, type_, options)
    return _parse_quoted(texts, type_, options)


def _parse_quoted(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    values = unquote_literals(texts)
    refuse_blanks(values, type_)
    return parse_texts(values, type_, options)


def _find_quoted(texts: pa.Array) -> pa.Array:
    """Returns a mask of the texts that are one string literal.

    Two quotes make one; more need a closer look ('it''s' against 'a' || 'b').
    """
    edges = pc.and_(pc.starts_with(texts, "'"), pc.ends_with(texts, "'"))
    quotes = pc.count_substring(texts, "'")
    simple = pc.and_(edges, pc.equal(quotes, 2))
    others = pc.and_(edges, pc.greater(quotes, 2))
    if not pc.any(others, min_count=0).as_py():
        return simple
    whole = pc.match_substring_regex(pc.if_else(others, texts, ""), r"(?s)^'(?:[^'\\]|\\.|'')*'$")
    return pc.or_(simple, whole)


def _find_non_literals(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Returns a mask of the texts that are no literal of a composite type; each distinct one is tried."""
    encoded = pc.dictionary_encode(texts)
    wrong: list[bool] = []
    for index in range(len(encoded.dictionary)):
        try:
            parse_literals(encoded.dictionary.slice(index, 1), type_, options)
            wrong.append(False)
        except BadValueError:
            wrong.append(True)
    return pa.array(wrong, pa.bool_()).take(encoded.indices)


def _convert_mixed(texts: pa.Array, expressions: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Converts a column of literals and expressions."""
    literals = parse_literals(pc.if_else(expressions, None, texts), type_, options)
    rows = np.flatnonzero(np.asarray(expressions))
    try:
        values = evaluate_expressions(pc.filter(texts, expressions), type_, options)
    except BadValueError as error:
        raise error.with_index(int(rows[error.index])) from None
    places = np.arange(len(texts))
    places[rows] = len(texts) + np.arange(len(rows))
    return pa.concat_arrays([literals, values]).take(pa.array(places))
