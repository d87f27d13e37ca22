"""Reading JSONEachRow: pyarrow's parser on the good path, Python's ``json`` for what it refuses.

Every column is asked for in the form its first rows have: a number column whose first row quotes the number is read
as strings. Chunks that pyarrow refuses (mixed forms, maps, unnamed tuples, bad values) are read by ``json.loads``
line by line (about 200,000 rows a second), which also says which row is wrong.

A missing key and, where the column is not Nullable, an explicit ``null`` come out as null: "take the default".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import json as arrow_json

from parts.errors import UserError
from parts.schema import Column
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
    strip_nullable,
)
from sql.formats.chunks import parse_chunks, row_chunks, without_mark
from sql.formats.filling import MISSING
from sql.formats.json_values import DECODER, PATIENT_DECODER, broken, convert_json, skip
from sql.formats.options import BadValueError, FormatOptions
from sql.formats.wire import from_wire

_NUMBERS = (IntegerType, FloatType)
_SAMPLE_ROWS = 3
_BETWEEN = b" \t\r\n;"
_OPENING = re.compile(rb"\s*+\{")
_ROW_OPENING = re.compile(rb"[ ,]*+\{")


def read_json_each_row(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    needs_python = _needs_python(columns)

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        table = None if needs_python else read_arrow(chunk, columns, options)
        return _read_python(chunk, columns, options, first_row) if table is None else table

    yield from (table for table in parse_chunks(object_chunks(stream, options), parse) if table.num_rows)


def object_chunks(stream: BinaryIO, options: FormatOptions) -> Iterator[bytes]:
    """Chunks of whole rows; of an array of rows without its brackets. Raises 27 for an array without its end."""
    chunks = row_chunks(stream, row_end, options.status, first=without_mark(stream.read(3)))
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


def row_end(data: bytearray) -> int:
    """Rows end in ``}`` and a line end. (A row that spans lines may hold that too: see ``_read_python``.)"""
    for ending in (b"}\n", b"}\r\n", b"},\n"):
        end = data.rfind(ending)
        if end >= 0 and (data.rfind(b"\n{", 0, end) >= 0 or _OPENING.match(data)) and _line_is_row(data, end):
            return end + len(ending)
    return 0


def _line_is_row(data: bytearray, end: int) -> bool:
    return _ROW_OPENING.match(data, data.rfind(b"\n", 0, end) + 1, end) is not None


def _needs_python(columns: Sequence[Column]) -> bool:
    return any(json_type(column.type) is None for column in columns) or any(
        _tells_missing(column) for column in columns
    )


# pyarrow --------------------------------------------------------------------------------------------------------------


def json_type(type_: DataType) -> pa.DataType | None:
    """What pyarrow is asked for; ``None`` where it cannot read the type."""
    if isinstance(type_, (NullableType, LowCardinalityType)):
        return json_type(type_.inner)
    if isinstance(type_, (*_NUMBERS, BoolType)):
        return type_.arrow
    if isinstance(type_, ArrayType):
        inner = json_type(type_.inner)
        return None if inner is None else pa.list_(inner)
    if isinstance(type_, TupleType) and all(name for name, _ in type_.elements):
        fields = [(name, json_type(inner)) for name, inner in type_.elements]
        return None if any(kind is None for _, kind in fields) else pa.struct(fields)
    return None if isinstance(type_, (MapType, TupleType)) else pa.string()


def read_arrow(chunk: bytes, columns: Sequence[Column], options: FormatOptions) -> pa.Table | None:
    try:
        asked = _asked_types(chunk, columns)
        parse = arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(asked.items())),
            newlines_in_values=False,
            unexpected_field_behavior="ignore" if options.skip_unknown_fields else "error",
        )
        read = arrow_json.ReadOptions(block_size=len(chunk) + 1, use_threads=False)
        table = arrow_json.read_json(pa.BufferReader(chunk), read, parse)
        if table.num_rows == 0 or table.num_rows != _line_count(chunk):
            return None
        arrays = [_from_json(table.column(column.name), column, options) for column in columns]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, RecursionError, BadValueError, UserError):
        return None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _line_count(chunk: bytes) -> int:
    """Rows, if every line is one. Duplicate blank lines make the count differ, and the slow path decides."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _asked_types(chunk: bytes, columns: Sequence[Column]) -> dict[str, pa.DataType]:
    asked = {column.name: json_type(column.type) or pa.string() for column in columns}
    for line in chunk.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS]:
        row = json.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise ValueError("not an object")
        for column in columns:
            value = row.get(column.name)
            kind = strip_nullable(column.type)
            if isinstance(kind, _NUMBERS) and isinstance(value, str):
                asked[column.name] = pa.string()
            elif pa.types.is_string(asked[column.name]) and type(value) in (int, float):
                raise ValueError("a number where a text is asked for")
    return asked


def _from_json(values: pa.ChunkedArray, column: Column, options: FormatOptions) -> pa.Array:
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    _refuse_nested_nulls(array, column.type)
    return from_wire(array, column.type, options)


def _refuse_nested_nulls(array: pa.Array, type_: DataType) -> None:
    """Only at the top level does null mean "take the default"; inside it is left to the exact reader."""
    if isinstance(type_, ArrayType):
        inner = [(array.flatten(), type_.inner)]
    elif isinstance(type_, TupleType):
        inner = [(child, kind) for child, (_, kind) in zip(array.flatten(), type_.elements, strict=True)]
    else:
        return
    if isinstance(type_, TupleType) and array.null_count:
        raise ValueError("a missing tuple")
    for child, kind in inner:
        if child.null_count and (isinstance(type_, TupleType) or not kind.is_nullable):
            raise ValueError("null or a missing element")
        _refuse_nested_nulls(child, kind)


# json.loads -----------------------------------------------------------------------------------------------------------


class _Missing:
    pass


_MISSING = _Missing()


def _read_python(chunk: bytes, columns: Sequence[Column], options: FormatOptions, first_row: int) -> pa.Table:
    rows = object_rows(chunk, columns, options, first_row)
    arrays = []
    for column in columns:
        values = [row.get(column.name, _MISSING) for row in rows]
        try:
            arrays.append(_column(values, column, options))
        except BadValueError as error:
            raise error.located(first_row, column.name, column.type) from None
    names = [column.name for column in columns]
    for column in columns:
        if _tells_missing(column):
            arrays.append(pa.array([column.name not in row for row in rows], pa.bool_()))
            names.append(MISSING + column.name)
    return pa.Table.from_arrays(arrays, names=names)


def _tells_missing(column: Column) -> bool:
    """A Nullable column with an expression takes it where the key is missing, but not where it is null."""
    return column.type.is_nullable and column.default_kind == "DEFAULT"


def _column(values: list[Any], column: Column, options: FormatOptions) -> pa.Array:
    plain = [None if value is _MISSING else value for value in values]
    return convert_json(plain, column.type, options)


def object_rows(
    chunk: bytes, columns: Sequence[Column], options: FormatOptions, first_row: int
) -> list[dict[str, Any]]:
    """The chunk's rows. Raises 117 for a key that is no column, where those are not skipped."""
    rows = _rows(chunk, first_row)
    if not options.skip_unknown_fields:
        _refuse_unknown(rows, columns, first_row)
    return rows


def decoded_text(chunk: bytes, first_row: int) -> str:
    """Raises 117 for bytes that are no UTF-8."""
    try:
        return chunk.decode()
    except UnicodeDecodeError as error:
        row = first_row + chunk.count(b"\n", 0, error.start)
        raise UserError(
            "INCORRECT_DATA",
            f"Invalid UTF-8 in JSON data at row {row}: {chunk[error.start : error.start + 8]!r}",
        ) from None


def _rows(chunk: bytes, first_row: int) -> list[dict[str, Any]]:
    text = decoded_text(chunk, first_row)
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    try:
        # The line ends stay, so that one inside a string is refused here and not taken for the end of a row.
        rows = DECODER.decode("[" + ",\n".join(lines) + "]")
        if all(isinstance(row, dict) for row in rows):
            return rows
    except (json.JSONDecodeError, RecursionError):
        pass  # not one object a line: read object by object, to name the row that is wrong
    rows = list[dict[str, Any]]()
    # A chunk may begin with what stands between two rows, or behind the last one.
    position, end = skip(text, 0, ",;"), len(text)
    while position < end:
        try:
            row, position = PATIENT_DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise broken(text, error.pos, first_row + len(rows), error.msg) from None
        except RecursionError:
            raise broken(text, position, first_row + len(rows), "too deeply nested") from None
        if not isinstance(row, dict):
            raise broken(text, position, first_row + len(rows), "expected an object")
        rows.append(row)
        position = skip(text, position, ",;")
    return rows


def _refuse_unknown(rows: list[dict[str, Any]], columns: Sequence[Column], first_row: int) -> None:
    known = {column.name for column in columns}
    for index, row in enumerate(rows):
        unknown = row.keys() - known
        if unknown:
            raise UserError(
                "INCORRECT_DATA",
                f"Unknown field found while parsing JSONEachRow format: {min(unknown)}: (at row {first_row + index})",
            )
