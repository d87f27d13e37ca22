"""Parses a few plain rows, as most small INSERTs have them (see :mod:`small_insert_values`).

Each reader takes all data of an INSERT, at most :data:`MAX_SMALL_INSERT_BYTES`. It returns ``None`` for what it leaves
to the readers of any number of rows: escapes, expressions, defaults, and all errors.
"""

from __future__ import annotations

import functools
import json
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from parts.table.table_description import Column
from parts.types import (
    DataType,
    DateTimeType,
    DateType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    StringType,
    strip_nullable,
)
from sql.formats.detected_header import tells_names
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.small_insert_values import (
    date_array,
    datetime_array,
    float_array,
    integer_array,
    plain_text_parser,
    string_array,
)
from sql.grammar.text_escapes import is_valid_utf8

MAX_SMALL_INSERT_BYTES = 4096
_MOST_COLUMNS = 64
_BLANK = r"[ \t\r\n]*+"
_FIELD = r"('[^'\\]*+'|-?[0-9][0-9.]*+)"
_END = re.compile(rf";?{_BLANK}")
_LONG_TEXT = 0x80


def parse_small_values(
    data: bytes,
    columns: Sequence[Column],
    options: FormatOptions,
    convert: Callable[[pa.Array, DataType, FormatOptions], pa.Array],
) -> pa.Table | None:
    """Parses ``(1, 'a'), (2, 'b')``: numbers and strings without escapes.

    ``convert`` converts literals of types that are not plain.
    """
    text = _decode(data)
    if text is None or not 0 < len(columns) <= _MOST_COLUMNS:
        return None
    row = _row_pattern(len(columns))
    rows: list[tuple[str, ...]] = []
    position = 0
    while match := row.match(text, position):
        rows.append(match.groups())
        position = match.end()
    if not rows or not _END.fullmatch(text, position):
        return None
    arrays = []
    for column, texts in zip(columns, zip(*rows, strict=True), strict=True):
        array = _parse_literals(texts, column.type, options, convert)
        if array is None:
            return None
        arrays.append(array)
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


@functools.lru_cache(maxsize=_MOST_COLUMNS)
def _row_pattern(columns: int) -> re.Pattern[str]:
    fields = rf"{_BLANK},{_BLANK}".join([_FIELD] * columns)
    return re.compile(rf"{_BLANK}\({_BLANK}{fields}{_BLANK}\){_BLANK},?{_BLANK}")


def _parse_literals(
    texts: Sequence[str],
    type_: DataType,
    options: FormatOptions,
    convert: Callable[[pa.Array, DataType, FormatOptions], pa.Array],
) -> pa.Array | None:
    read = plain_text_parser(type_, options.timezone)
    if read is None:
        try:
            return convert(pa.array(texts, pa.string()), type_, options)
        except BadValueError:
            return None  # the normal reader reports it with its row
    quoted = [text[0] == "'" for text in texts]
    if all(quoted):
        return read([text[1:-1] for text in texts])
    is_number = isinstance(strip_nullable(type_), (IntegerType, FloatType))
    return read(texts) if is_number and not any(quoted) else None


def parse_small_tsv(data: bytes, columns: Sequence[Column], options: FormatOptions) -> pa.Table | None:
    """Parses lines of as many fields as there are columns, without escapes."""
    text = _decode(data)
    if not text or "\\" in text or "\r" in text:
        return None
    rows = [line.split("\t") for line in text.removesuffix("\n").split("\n")]
    if any(len(row) != len(columns) for row in rows):
        return None
    if options.tsv_detect_header and tells_names(rows[0], columns):
        return None
    arrays = []
    for column, texts in zip(columns, zip(*rows, strict=True), strict=True):
        read = plain_text_parser(column.type, options.timezone)
        array = None if read is None else read(texts)
        if array is None:
            return None
        arrays.append(array)
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


def parse_small_json_rows(data: bytes, columns: Sequence[Column], options: FormatOptions) -> pa.Table | None:
    """Parses an object a line, each with every column and nothing else."""
    text = _decode(data)
    if not text or options.column_name_matching_mode == "ignore_case":
        return None
    try:
        rows = [_DECODER.decode(line) for line in text.removesuffix("\n").split("\n")]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(row, tuple) and len(row) == len(columns) for row in rows):
        return None
    objects = [dict(row) for row in rows]
    arrays = []
    for column in columns:
        if any(column.name not in row for row in objects) or (column.type.is_nullable and column.default_kind):
            return None
        array = _json_values([row[column.name] for row in objects], column.type, options)
        if array is None:
            return None
        arrays.append(array)
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse_constant)
"""Decodes objects to tuples of pairs, arrays to lists."""


def _json_values(values: Sequence[Any], type_: DataType, options: FormatOptions) -> pa.Array | None:
    if isinstance(type_, LowCardinalityType):
        return None
    bare = strip_nullable(type_)
    if isinstance(bare, IntegerType):
        return integer_array(bare, values) if all(type(value) is int for value in values) else None
    if isinstance(bare, FloatType):
        is_plain = bare.bits == _DOUBLE and all(type(value) is float for value in values)
        return float_array(values) if is_plain else None
    read = plain_text_parser(type_, options.timezone)
    return read(values) if read is not None and all(type(value) is str for value in values) else None


def parse_small_row_binary(data: bytes, columns: Sequence[Column], options: FormatOptions) -> pa.Table | None:
    """Parses integers, short strings, dates and times."""
    kinds = [_BINARY.get(type(column.type)) for column in columns]
    if None in kinds or not columns:
        return None
    widths = [0 if kind == _TEXT else _width(column.type) for kind, column in zip(kinds, columns, strict=True)]
    fields: list[list[bytes]] = [[] for _ in columns]
    position, end = 0, len(data)
    while position < end:
        for width, values in zip(widths, fields, strict=True):
            if not width:
                width = data[position] if position < end else _LONG_TEXT
                position += 1
                if width >= _LONG_TEXT:
                    return None
            values.append(data[position : position + width])
            position += width
    if position != end or not fields[0]:
        return None
    arrays = [_binary_values(values, column.type) for column, values in zip(columns, fields, strict=True)]
    if not all(is_valid_utf8(array) for array in arrays if pa.types.is_string(array.type)):
        return None
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


_TEXT = "text"
_BINARY: dict[type, str] = {IntegerType: "", StringType: _TEXT, DateType: "H", DateTimeType: "I"}
_DOUBLE = 64


def _width(type_: DataType) -> int:
    if isinstance(type_, IntegerType):
        return type_.bits // 8
    return struct.calcsize(_BINARY[type(type_)])


def _binary_values(values: Sequence[bytes], type_: DataType) -> pa.Array:
    if isinstance(type_, StringType):
        return string_array(values)
    joined = b"".join(values)
    if isinstance(type_, IntegerType):
        return pa.Array.from_buffers(type_.arrow, len(values), [None, pa.py_buffer(joined)])
    numbers = struct.unpack(f"<{len(values)}{_BINARY[type(type_)]}", joined)
    return date_array(numbers) if isinstance(type_, DateType) else datetime_array(numbers)


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
