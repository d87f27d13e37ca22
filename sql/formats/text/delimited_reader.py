"""Reading TabSeparated and CSV: pyarrow splits the fields, :mod:`literals` makes values of them.

All fields are read as bytes first, so that a bad value can be named with its row, and so that one set of converters
serves all text formats. Null in a column that is not Nullable means "take the default" (``definitions.defaults`` fills
it): ``\\N`` in both formats, an empty unquoted field in CSV.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import DataType, FixedStringType, LowCardinalityType, TupleType, strip_nullable
from sql.formats.column_names import ColumnNames, check_types
from sql.formats.converters.literal_parsing import is_composite, parse_field
from sql.formats.converters.null_filling import MISSING, combine_chunks, fill_nulls, type_default
from sql.formats.converters.text_parsing import pad_fixed
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.streams.row_chunks import (
    CHUNK_BYTES,
    line_end,
    parse_chunks,
    read_line,
    row_chunks,
    strip_byte_order_mark,
)
from sql.formats.text.csv_grammar import empty_row_error, has_empty_lines, make_csv_rules
from sql.formats.text.text_writers import flatten_tuple_columns
from sql.grammar.text_escapes import (
    has_pattern,
    is_valid_utf8,
    shorten_for_message,
    unescape,
    unescape_bytes,
    view_as_text,
)

_ESCAPED_BREAK = re.compile(rb"(?<!\\)((?:\\\\)*+)\\([\n\t\r])")
_COLUMN_BYTES, _MOST_CHUNK_BYTES = 4 << 10, 16 << 20
"""A chunk has so much of each column, as far as it is not too long: a column costs the same however few its rows."""
_BREAK_LETTERS = {b"\n": b"n", b"\t": b"t", b"\r": b"r"}


@dataclass(frozen=True)
class _Dialect:
    name: str
    delimiter: str
    quote: str | bool
    cut: Callable[[bytearray], int]
    clean: Callable[[bytes], bytes]
    line_end: Callable[[bytes], int]
    check: Callable[[bytes, int, int], None]
    escaped: bool


def read_delimited(
    stream: BinaryIO, columns: Sequence[Column], options: FormatOptions, *, csv_rules: bool, names: bool, types: bool
) -> Iterator[pa.Table]:
    """Tables of the columns that the data has, chunk by chunk."""
    dialect = _csv_dialect(options.csv_delimiter) if csv_rules else _TSV
    first_row = 1
    rest = strip_byte_order_mark(stream.read(3))
    flat = _flat_columns(columns) if csv_rules else list(columns)
    fields: list[Column | None] = list(flat)
    if names:
        rest = rest or stream.read(1)
        if not rest:
            return  # no data at all, not even a header
        fields, rest = _header(stream, rest, flat, options, dialect, types)
        first_row += 1 + types
    size = max(CHUNK_BYTES, min(len(fields) * _COLUMN_BYTES, _MOST_CHUNK_BYTES))
    chunks = row_chunks(stream, dialect.cut, options.status, first=rest, size=size)
    if not csv_rules:
        chunks = _without_carriage_returns(chunks)

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        table = _chunk_table(dialect.clean(chunk), fields, first_row, dialect, options)
        return _fold_tuples(table, columns) if flat != list(columns) else table

    yield from parse_chunks(chunks, parse, first_row)


def _flat_columns(columns: Sequence[Column]) -> list[Column]:
    """In CSV the elements of a tuple are columns of their own."""
    flat: list[Column] = []
    for column in columns:
        if isinstance(column.type, TupleType):
            flat += [Column(name, type_) for name, type_ in flatten_tuple_columns([(column.name, column.type)])]
        else:
            flat.append(column)
    return flat


def _fold_tuples(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    arrays, names = [], []
    for column in columns:
        array = _fold(table, column.name, column.type)
        if array is not None:
            arrays.append(array)
            names.append(column.name)
        if MISSING + column.name in table.column_names:
            arrays.append(table.column(MISSING + column.name).combine_chunks())
            names.append(MISSING + column.name)
    return pa.Table.from_arrays(arrays, names=names)


def _fold(table: pa.Table, name: str, type_: DataType) -> pa.Array | None:
    if not isinstance(type_, TupleType):
        return table.column(name).combine_chunks() if name in table.column_names else None
    children = []
    for index, (label, inner) in enumerate(type_.elements, 1):
        child = _fold(table, f"{name}.{label or index}", inner)
        if child is None:
            child = combine_chunks(type_default(inner, table.num_rows))
        elif child.null_count and not inner.is_nullable:
            child = combine_chunks(fill_nulls(pa.chunked_array([child]), type_default(inner, table.num_rows)))
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(type_.arrow))


# Headers --------------------------------------------------------------------------------------------------------------


def _header(
    stream: BinaryIO, rest: bytes, columns: Sequence[Column], options: FormatOptions, dialect: _Dialect, types: bool
) -> tuple[list[Column | None], bytes]:
    line, rest = _header_line(stream, rest, dialect)
    names = _split_header(line, dialect)
    fields = ColumnNames(columns, options).of_header(names, dialect.name)
    if types:
        line, rest = _header_line(stream, rest, dialect)
        check_types(_split_header(line, dialect), fields)
    return fields, rest


def _header_line(stream: BinaryIO, rest: bytes, dialect: _Dialect) -> tuple[bytes, bytes]:
    """The first line; in CSV a quoted name may hold line ends."""
    line, rest = read_line(stream, rest, dialect.line_end)
    return line.removesuffix(b"\r") if dialect.quote else line, rest


def _split_header(line: bytes, dialect: _Dialect) -> list[str]:
    if not line.strip(b"\r"):
        raise UserError("INCORRECT_DATA", f"The {dialect.name} header line is empty")
    line = dialect.clean(line)
    dialect.check(line + b"\n", 1, 1)
    parse = csv.ParseOptions(
        delimiter=dialect.delimiter, quote_char=dialect.quote, double_quote=True, newlines_in_values=True
    )
    read = csv.ReadOptions(autogenerate_column_names=True, block_size=len(line) + 2)
    try:
        table = csv.read_csv(pa.BufferReader(line + b"\n"), read, parse, csv.ConvertOptions(column_types=None))
        convert = csv.ConvertOptions(column_types={name: pa.string() for name in table.column_names})
        table = csv.read_csv(pa.BufferReader(line + b"\n"), read, parse, convert)
    except pa.ArrowInvalid as error:
        raise UserError("INCORRECT_DATA", f"Cannot read the {dialect.name} header: {error}") from None
    values = pa.array([column[0].as_py() for column in table.columns], pa.string())
    return (unescape(values) if dialect.escaped else values).to_pylist()


# Chunks ---------------------------------------------------------------------------------------------------------------


def _chunk_table(
    chunk: bytes, fields: list[Column | None], first_row: int, dialect: _Dialect, options: FormatOptions
) -> pa.Table:
    names = [field.name if field is not None else f"\0{position}" for position, field in enumerate(fields)]
    dialect.check(chunk, first_row, len(fields))
    # An empty field of a Nullable column with an expression takes it, \N does not: then only the empty ones are read
    # as null, and \N is told by its text.
    make_names_distinct = {field.name for field in fields if field is not None and _takes_expression(field, dialect)}
    raw = _split_fields(chunk, names, first_row, dialect, only_empty=bool(make_names_distinct))
    arrays, kept = [], []
    for name, field in zip(names, fields, strict=True):
        if field is None:
            continue
        values = raw.column(name).combine_chunks()
        if field.name in make_names_distinct:
            arrays.append(pc.is_null(values))
            kept.append(MISSING + field.name)
        if make_names_distinct:
            values = pc.if_else(pc.equal(values, b"\\N"), None, values)
        arrays.append(_field_values(values, field, first_row, dialect, options))
        kept.append(field.name)
    return pa.Table.from_arrays(arrays, names=kept)


def _takes_expression(field: Column, dialect: _Dialect) -> bool:
    return not dialect.escaped and field.type.is_nullable and field.default_kind == "DEFAULT"


def _field_values(
    values: pa.Array, field: Column, first_row: int, dialect: _Dialect, options: FormatOptions
) -> pa.Array:
    kind = strip_nullable(field.type)
    if isinstance(kind, FixedStringType) and not isinstance(field.type, LowCardinalityType):
        if dialect.escaped:
            values = unescape_bytes(values)
        try:
            return pad_fixed(values, kind)
        except BadValueError as error:
            raise error.located(first_row, field.name, field.type) from None
    texts = decode_utf8(values, field, first_row)
    # Inside arrays, maps and tuples the backslash belongs to the quoted literals.
    if dialect.escaped and not is_composite(field.type):
        texts = unescape(texts)
    return convert_fields(texts, field, first_row, options)


def convert_fields(texts: pa.Array, field: Column, first_row: int, options: FormatOptions) -> pa.Array:
    try:
        return parse_field(texts, field.type, options)
    except BadValueError as error:
        raise error.located(first_row, field.name, field.type) from None


def decode_utf8(values: pa.Array, field: Column, first_row: int) -> pa.Array:
    """Bytes as text; 117 naming the first row that is not UTF-8."""
    if is_valid_utf8(values):
        return view_as_text(values)
    for index, value in enumerate(values.to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError as error:
            raise UserError(
                "INCORRECT_DATA",
                f"Invalid UTF-8 in column {field.name} at row {first_row + index}, byte {error.start} of "
                f"{shorten_for_message(repr(value))}: String columns hold valid UTF-8",
            ) from None
    raise AssertionError("is_text found a value that is not UTF-8")


def _split_fields(
    chunk: bytes, names: list[str], first_row: int, dialect: _Dialect, *, only_empty: bool = False
) -> pa.Table:
    parse = csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=dialect.quote,
        double_quote=True,
        escape_char=False,
        newlines_in_values=dialect.quote is not False and b'"' in chunk,
        ignore_empty_lines=False,
    )
    convert_options = csv.ConvertOptions(
        column_types={name: pa.binary() for name in names},
        null_values=["\\N"] if dialect.escaped else [""] if only_empty else ["\\N", ""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # One block and one thread: the chunks are what is read at the same time.
    read = csv.ReadOptions(column_names=names, block_size=len(chunk) + 1, use_threads=False)
    try:
        return csv.read_csv(pa.BufferReader(chunk), read, parse, convert_options)
    except pa.ArrowInvalid as error:
        raise _shape_error(chunk, names, first_row, dialect, parse, convert_options, error) from None


def _shape_error(
    chunk: bytes,
    names: list[str],
    first_row: int,
    dialect: _Dialect,
    parse: csv.ParseOptions,
    convert_options: csv.ConvertOptions,
    error: pa.ArrowInvalid,
) -> UserError:
    """Reads the chunk once more on one thread, to say which row has too few or too many fields."""
    bad: list[csv.InvalidRow] = []

    def remember(row: csv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    parse.invalid_row_handler = remember
    chunk = chunk.decode("utf-8", "replace").encode()  # the handler is given texts
    read = csv.ReadOptions(column_names=names, block_size=len(chunk) + (1 << 20), use_threads=False)
    try:
        csv.read_csv(pa.BufferReader(chunk), read, parse, convert_options)
    except pa.ArrowInvalid:
        bad = []
    if not bad:
        return UserError("CANNOT_PARSE_INPUT_ASSERTION_FAILED", f"Cannot parse {dialect.name}: {error}")
    row = bad[0]
    number = first_row + (row.number or 1) - 1
    wanted = repr(dialect.delimiter) if row.actual_columns < row.expected_columns else "the end of the row"
    return UserError(
        "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
        f"Cannot parse input: expected {wanted}: the row has {row.actual_columns} fields instead of "
        f"{row.expected_columns}: {shorten_for_message(row.text)!r}: (at row {number})",
    )


# The two dialects -----------------------------------------------------------------------------------------------------


def _cut_tsv(data: bytearray) -> int:
    end = data.rfind(b"\n")
    while end > 0 and _ends_in_backslash(data, end):
        end = data.rfind(b"\n", 0, end)
    return end + 1


def _ends_in_backslash(data: bytearray, end: int) -> bool:
    count = 0
    while count < end and data[end - 1 - count] == 0x5C:
        count += 1
    return count % 2 == 1


def _clean_tsv(chunk: bytes) -> bytes:
    """What pyarrow would take for the end of a row or field but TSV does not, written as an escape."""
    data = np.frombuffer(chunk, np.uint8)
    if any(has_pattern(data, b"\\" + mark) for mark in _BREAK_LETTERS):
        chunk = _ESCAPED_BREAK.sub(lambda match: match.group(1) + b"\\" + _BREAK_LETTERS[match.group(2)], chunk)
    return chunk.replace(b"\r", b"\\r") if b"\r" in chunk else chunk


def _without_carriage_returns(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks, when the first row does not end in a carriage return."""
    first = next(chunks, b"")
    end = first.find(b"\n")
    if end > 0 and first[end - 1] == 0x0D:
        raise UserError(
            "INCORRECT_DATA",
            "There is a carriage return (\\r) at the end of the first row: TabSeparated has Unix line ends. "
            "Convert the file, or write \\r where it belongs to a value",
        )
    if first:
        yield first
    yield from chunks


def _check_tsv(chunk: bytes, first_row: int, width: int) -> None:
    if width > 1 and has_empty_lines(chunk):
        lines = chunk.split(b"\n")
        empty = lines.index(b"")
        if empty < len(lines) - 1:
            raise empty_row_error(first_row + empty, width)


_TSV = _Dialect("TabSeparated", "\t", False, _cut_tsv, _clean_tsv, line_end, _check_tsv, True)


def _csv_dialect(delimiter: str) -> _Dialect:
    rules = make_csv_rules(delimiter)
    return _Dialect("CSV", delimiter, '"', rules.cut, rules.clean, rules.line_end, rules.check, False)
