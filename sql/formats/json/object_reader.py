"""Reads JSONEachRow with pyarrow's parser, and with Python's ``json`` what that refuses.

Chunks that pyarrow refuses (mixed forms, bad values) are read line by line by ``json.loads`` (about 200,000 rows a
second), which also finds the row that is wrong. A missing key and, where the column is not Nullable, an explicit
``null`` come out as null: "take the default".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column
from sql.formats.column_names import ColumnNames
from sql.formats.converters.null_filling import MISSING
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.json.arrow_parser import has_arrow_form, parse_lines
from sql.formats.json.lenient_numbers import normalize_numbers
from sql.formats.json.line_rewriting import needs_rewriting, rewrite_as_objects, rows_with_keys
from sql.formats.json.value_decoding import (
    DECODER,
    PATIENT_DECODER,
    broken_json_error,
    convert_json,
    list_pairs,
    skip_blanks_and_marks,
)
from sql.formats.streams.row_chunks import parse_chunks, row_chunks, strip_byte_order_mark

_ROW_WITH_COMMA = re.compile(rb"\s*+[^\n]*\},\r?\n")
"""Matches a first row with a comma behind it, as in an array."""
_BETWEEN = b" \t\r\n;"
_OPENING = re.compile(rb"\s*+\{")
_ROW_OPENING = re.compile(rb"[ ,]*+\{")


def read_json_each_row(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of JSONEachRow."""
    fields = [(column.name, column.type) for column in columns]
    has_other_shapes = any(needs_rewriting(column.type) for column in columns)
    needs_python = not has_arrow_form(columns) or options.column_name_matching_mode == "ignore_case"

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        objects: bytes | None = None if needs_python else chunk
        if objects is not None and (has_other_shapes or _ROW_WITH_COMMA.match(chunk)):
            objects = rewrite_as_objects(chunk, fields, is_compact=False)
        table = None if objects is None else parse_lines(objects, columns, options)
        table = None if table is None else _add_missing_columns(table, chunk, columns)
        return read_objects_exactly(chunk, columns, options, first_row) if table is None else table

    yield from (table for table in parse_chunks(object_chunks(stream, options), parse) if table.num_rows)


def object_chunks(stream: BinaryIO, options: FormatOptions) -> Iterator[bytes]:
    """Yields chunks of whole rows, of an array without its brackets.

    Raises 27 for an array without its end.
    """
    chunks = row_chunks(stream, find_row_end, options.status, first=strip_byte_order_mark(stream.read(3)))
    held = next(chunks, b"")
    if not held.lstrip().startswith(b"["):
        yield held
        yield from chunks
        return
    held = held.replace(b"[", b" ", 1)
    for chunk in chunks:
        yield held
        held = chunk
    end = held.rstrip(_BETWEEN)
    yield end.removesuffix(b"]")
    if not end.endswith(b"]"):
        raise UserError(
            "CANNOT_PARSE_INPUT_ASSERTION_FAILED", "Cannot parse input: expected ']' at the end of the data"
        )


def find_row_end(data: bytearray) -> int:
    """Returns where the last row in the data ends: behind ``}`` and a line end.

    A row of several lines may also hold that: see ``read_objects_exactly``.
    """
    for ending in (b"}\n", b"}\r\n", b"},\n"):
        end = data.rfind(ending)
        if end >= 0 and (data.rfind(b"\n{", 0, end) >= 0 or _OPENING.match(data)) and _line_is_row(data, end):
            return end + len(ending)
    return 0


def _line_is_row(data: bytearray, end: int) -> bool:
    return _ROW_OPENING.match(data, data.rfind(b"\n", 0, end) + 1, end) is not None


def read_objects_exactly(chunk: bytes, columns: Sequence[Column], options: FormatOptions, first_row: int) -> pa.Table:
    """Parses the rows with Python's ``json``. Raises ``UserError`` naming the bad row."""
    rows = object_rows(chunk, columns, options, first_row)
    arrays = []
    for column in columns:
        values = [row.get(column.name) for row in rows]
        try:
            arrays.append(convert_json(values, column.type, options))
        except BadValueError as error:
            raise error.to_user_error(first_row, column.name, column.type) from None
    names = [column.name for column in columns]
    for column in columns:
        if _distinguishes_missing(column):
            arrays.append(pa.array([column.name not in row for row in rows], pa.bool_()))
            names.append(MISSING + column.name)
    return pa.Table.from_arrays(arrays, names=names)


def _add_missing_columns(table: pa.Table, chunk: bytes, columns: Sequence[Column]) -> pa.Table | None:
    names = [column.name for column in columns if _distinguishes_missing(column)]
    found = rows_with_keys(chunk, names) if names else []
    if found is None or any(len(rows) != table.num_rows for rows in found):
        return None
    for name, rows in zip(names, found, strict=True):
        table = table.append_column(MISSING + name, pa.array(~rows))
    return table


def _distinguishes_missing(column: Column) -> bool:
    """Returns whether a missing key and an explicit null differ for the column.

    A Nullable column with an expression takes it where the key is missing, but not where it is null.
    """
    return column.type.is_nullable and column.default_kind == "DEFAULT"


def object_rows(
    chunk: bytes, columns: Sequence[Column], options: FormatOptions, first_row: int
) -> list[dict[str, Any]]:
    """Returns the chunk's rows by the columns' names.

    Raises 117 for an unknown key that must not be skipped, a key that may mean several columns, and a column that is
    there twice.
    """
    names = ColumnNames(columns, options)
    return [
        row if type(row) is dict and names.are_exact(row) else _match_keys(row, names, first_row + index)
        for index, row in enumerate(_decode_rows(chunk, first_row))
    ]


def _match_keys(row: dict[str, Any], names: ColumnNames, number: int) -> dict[str, Any]:
    """Returns the row by the columns' names.

    Once it has all columns, the keys that follow are not checked, as in ClickHouse.
    """
    found: dict[str, Any] = {}
    for key, value in list_pairs(row):
        is_complete = len(found) == len(names.listed)
        column = None if is_complete else names.find(key)
        if column is None:
            if not names.skips_unknown:
                raise _unexpected_field_error("Unknown", key, number)
            if is_complete:
                break
        elif column.name in found:
            raise _unexpected_field_error("Duplicate", column.name, number)
        else:
            found[column.name] = value
    return found


def _unexpected_field_error(what: str, key: str, row: int) -> UserError:
    message = f"{what} field found while parsing JSONEachRow format: {key}: (at row {row})"
    return UserError("INCORRECT_DATA", message)


def decode_utf8(chunk: bytes, first_row: int) -> str:
    """Decodes the chunk, with numbers as JSON allows them. Raises 117 for bytes that are not UTF-8."""
    try:
        return normalize_numbers(chunk.decode())
    except UnicodeDecodeError as error:
        row = first_row + chunk.count(b"\n", 0, error.start)
        raise UserError(
            "INCORRECT_DATA",
            f"Invalid UTF-8 in JSON data at row {row}: {chunk[error.start : error.start + 8]!r}",
        ) from None


def _decode_rows(chunk: bytes, first_row: int) -> list[dict[str, Any]]:
    text = decode_utf8(chunk, first_row)
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    try:
        # The line ends stay, so that a line end inside a string is refused, not taken for the end of a row.
        rows = DECODER.decode("[" + ",\n".join(lines) + "]")
        if all(isinstance(row, dict) for row in rows):
            return rows
    except (json.JSONDecodeError, RecursionError):
        pass  # not one object a line: decoded object by object, to name the bad row
    rows = list[dict[str, Any]]()
    # A chunk may begin with marks between two rows, or behind the last one.
    position, end = skip_blanks_and_marks(text, 0, ",;"), len(text)
    while position < end:
        try:
            row, position = PATIENT_DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise broken_json_error(text, error.pos, first_row + len(rows), error.msg) from None
        except RecursionError:
            raise broken_json_error(text, position, first_row + len(rows), "too deeply nested") from None
        if not isinstance(row, dict):
            raise broken_json_error(text, position, first_row + len(rows), "expected an object")
        rows.append(row)
        position = skip_blanks_and_marks(text, position, ",;")
    return rows
