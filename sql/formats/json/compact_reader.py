"""Reads JSONCompactEachRow (rows as arrays), with or without headers, and formats of strings only.

Plain lines of arrays become objects (:mod:`line_rewriting`) and are read as those. Python's ``json`` decodes all else,
and columns are converted whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import DataType, StringType, strip_nullable
from sql.formats.column_names import ColumnNames, check_types
from sql.formats.converters.literal_parsing import parse_field
from sql.formats.converters.text_parsing import refuse_blanks
from sql.formats.format_options import BadValueError, FormatOptions, parse_error
from sql.formats.json.arrow_parser import has_arrow_form, parse_lines, parse_string_lines, read_null_texts
from sql.formats.json.line_rewriting import rewrite_as_objects
from sql.formats.json.object_reader import decode_utf8, object_chunks, object_rows
from sql.formats.json.value_decoding import (
    DECODER,
    PATIENT_DECODER,
    broken_json_error,
    convert_json,
    skip_blanks_and_marks,
    string_array,
)
from sql.formats.streams.row_chunks import parse_chunks, read_line, row_chunks, strip_byte_order_mark


def read_json_strings(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of JSONStringsEachRow: objects whose values are strings."""

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        table = parse_string_lines(chunk, columns, options)
        return read_strings_exactly(chunk, columns, options, first_row) if table is None else table

    yield from (table for table in parse_chunks(object_chunks(stream, options), parse) if table.num_rows)


def read_strings_exactly(chunk: bytes, columns: Sequence[Column], options: FormatOptions, first_row: int) -> pa.Table:
    """Parses the rows with Python's ``json``. Raises ``UserError`` naming the bad row."""
    rows = object_rows(chunk, columns, options, first_row)
    values = [[row.get(column.name) for row in rows] for column in columns]
    return _make_table(values, columns, options, first_row, is_strings=True)


def read_json_compact(
    stream: BinaryIO, columns: Sequence[Column], options: FormatOptions, *, header: int, strings: bool = False
) -> Iterator[pa.Table]:
    """Yields the rows of JSONCompactEachRow and its kin.

    ``header`` is 0 for none, 1 for a row of names, 2 for a row of types too.
    """
    rest = strip_byte_order_mark(stream.read(3))
    fields: list[Column | None] = list(columns)
    if header:
        rest = rest or stream.read(1)
        if not rest:
            return
        fields, rest = _read_header(stream, rest, columns, options, header)
    asked = [column for column in fields if column is not None]
    places = [place for place, column in enumerate(fields) if column is not None]

    unknown = "?" * (1 + max(len(column.name) for column in columns))
    keys = [f"{unknown}{place}" if column is None else column.name for place, column in enumerate(fields)]
    shapes = [
        (key, None if column is None or strings else column.type) for key, column in zip(keys, fields, strict=True)
    ]
    is_plain = strings or has_arrow_form(asked)
    read = parse_string_lines if strings else parse_lines

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        objects = rewrite_as_objects(chunk, shapes, is_compact=True) if is_plain else None
        table = read(objects, asked, options, is_header_read=True) if objects is not None else None
        if table is not None:
            return table
        rows = _decode_rows(chunk, len(fields), first_row)
        return _make_table(
            [[row[place] for row in rows] for place in places], asked, options, first_row, is_strings=strings
        )

    chunks = row_chunks(stream, _find_array_end, options.status, first=rest)
    yield from (table for table in parse_chunks(chunks, parse, 1 + header) if table.num_rows)


def _read_header(
    stream: BinaryIO, rest: bytes, columns: Sequence[Column], options: FormatOptions, header: int
) -> tuple[list[Column | None], bytes]:
    lines = []
    for _ in range(header):
        line, rest = read_line(stream, rest)
        lines.append(_parse_header_line(line))
    fields = ColumnNames(columns, options).match_header(lines[0], "JSONCompactEachRow")
    if header > 1:
        check_types(lines[1], fields)
    return fields, rest


def _parse_header_line(line: bytes) -> list[str]:
    try:
        values = json.loads(line.decode().strip().rstrip(","))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UserError("INCORRECT_DATA", f"A JSONCompactEachRow header is an array of strings, not {line[:100]!r}")
    return values


def _find_array_end(data: bytearray) -> int:
    """Returns where the last row that surely ends in the data ends.

    A row ends in ``]`` and a line end, and the next begins with ``[``. No line end inside a row is between these.
    """
    end = max(data.rfind(b"]\n["), data.rfind(b"]\r\n["))
    return data.index(b"[", end) if end >= 0 else 0


def _decode_rows(chunk: bytes, width: int, first_row: int) -> list[list[Any]]:
    text = decode_utf8(chunk, first_row)
    rows = _decode_lines(text)
    if rows is None:
        rows = []
        position, end = skip_blanks_and_marks(text, 0, ",;"), len(text)
        while position < end:
            try:
                row, position = PATIENT_DECODER.raw_decode(text, position)
            except (json.JSONDecodeError, RecursionError) as error:
                raise broken_json_error(
                    text, getattr(error, "pos", position), first_row + len(rows), str(error)
                ) from None
            if not isinstance(row, list):
                raise broken_json_error(text, position, first_row + len(rows), "expected an array")
            rows.append(row)
            position = skip_blanks_and_marks(text, position, ",;")
    for index, row in enumerate(rows):
        if len(row) != width:
            wanted = "','" if len(row) < width else "']'"
            raise UserError(
                "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
                f"Cannot parse input: expected {wanted}: the row has {len(row)} values instead of {width}: "
                f"(at row {first_row + index})",
            )
    return rows


def _decode_lines(text: str) -> list[list[Any]] | None:
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    try:
        rows = DECODER.decode("[" + ",\n".join(lines) + "]")
    except (json.JSONDecodeError, RecursionError):
        return None
    return rows if all(type(row) is list for row in rows) else None


def _make_table(
    values: list[list[Any]], columns: Sequence[Column], options: FormatOptions, first_row: int, *, is_strings: bool
) -> pa.Table:
    convert = _convert_strings if is_strings else convert_json
    arrays = []
    for column, column_values in zip(columns, values, strict=True):
        try:
            arrays.append(convert(column_values, column.type, options))
        except BadValueError as error:
            raise error.to_user_error(first_row, column.name, column.type) from None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _convert_strings(values: list[Any], type_: DataType, options: FormatOptions) -> pa.Array:
    for index, value in enumerate(values):
        if isinstance(value, (list, dict, bool)):
            raise parse_error(index, json.dumps(value, ensure_ascii=False), type_)
    is_text = strip_nullable(type_) == StringType() and not type_.is_nullable
    texts = string_array(values) if is_text else read_null_texts(string_array(values))
    refuse_blanks(texts, type_)
    return parse_field(texts, type_, options)
