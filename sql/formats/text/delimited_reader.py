"""Reads TabSeparated and CSV: pyarrow splits the fields, :mod:`literal_parsing` converts them.

All fields are read as bytes first, so that a bad value can be named with its row, and so that one set of converters
serves all text formats. Null in a column that is not Nullable means "take the default"
(``sql.definitions.column_defaults`` fills it): ``\\N`` in both formats, an empty unquoted field in CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from parts.blocks.default_values import type_default
from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    DataType,
    FixedStringType,
    LowCardinalityType,
    TupleType,
    strip_nullable,
)
from sql.formats.column_names import ColumnNames, check_types
from sql.formats.converters.literal_parsing import parse_field
from sql.formats.converters.null_filling import MISSING, combine_chunks, fill_nulls
from sql.formats.converters.scalars.all_formats import is_textual
from sql.formats.converters.scalars.string_formats import pad_fixed
from sql.formats.converters.text_parsing import refuse_blanks
from sql.formats.detected_header import peek_row, tells_names, tells_types
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.streams.row_chunks import (
    CHUNK_BYTES,
    parse_chunks,
    read_line,
    row_chunks,
    strip_byte_order_mark,
)
from sql.formats.text.csv_grammar import make_csv_rules
from sql.formats.text.text_writers import flatten_tuple_columns
from sql.formats.text.tsv_grammar import (
    check_tsv,
    clean_tsv,
    cut_tsv,
    find_tsv_line_end,
    refuse_carriage_returns,
)
from sql.grammar.text_escapes import (
    is_valid_utf8,
    shorten_for_message,
    unescape,
    unescape_bytes,
    view_as_text,
)

_COLUMN_BYTES, _MOST_CHUNK_BYTES = 4 << 10, 16 << 20
"""Bytes of a chunk for each column, and at most: a column has a fixed cost for each chunk."""
_LAST = "\0last"


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
    """Yields tables of the columns that the data have, chunk by chunk."""
    dialect = _csv_dialect(options.csv_delimiter) if csv_rules else _TSV
    first_row = 1
    rest = strip_byte_order_mark(stream.read(3))
    flat = _flatten_columns(columns) if csv_rules else list(columns)
    fields: list[Column | None] = list(flat)
    if names:
        rest = rest or stream.read(1)
        if not rest:
            return  # no data at all, not even a header
        fields, rest = _read_header(stream, rest, flat, options, dialect, types)
        first_row += 1 + types
    elif options.csv_detect_header if csv_rules else options.tsv_detect_header:
        found, rest, rows = _detect_header(stream, rest, columns, options, dialect)
        if rows:
            fields = _flat_fields(found) if csv_rules else found
        first_row += rows
    size = max(CHUNK_BYTES, min(len(fields) * _COLUMN_BYTES, _MOST_CHUNK_BYTES))
    chunks = row_chunks(stream, dialect.cut, options.status, first=rest, size=size)
    if not csv_rules:
        chunks = refuse_carriage_returns(chunks)

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        table = _read_chunk(dialect.clean(chunk), fields, first_row, dialect, options)
        return _fold_tuples(table, columns) if flat != list(columns) else table

    yield from parse_chunks(chunks, parse, first_row)


def _flatten_columns(columns: Sequence[Column]) -> list[Column]:
    """Returns the columns with tuples flattened: in CSV each element is a column."""
    flat: list[Column] = []
    for column in columns:
        if isinstance(column.type, TupleType):
            flat += [Column(name, type_) for name, type_ in flatten_tuple_columns([(column.name, column.type)])]
        else:
            flat.append(column)
    return flat


def _flat_fields(fields: Sequence[Column | None]) -> list[Column | None]:
    return [flat for field in fields for flat in (_flatten_columns([field]) if field is not None else [None])]


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
    found = [_fold(table, f"{name}.{label or index}", inner) for index, (label, inner) in enumerate(type_.elements, 1)]
    if all(child is None for child in found):
        return None
    for child, (_, inner) in zip(found, type_.elements, strict=True):
        if child is None:
            child = combine_chunks(type_default(inner, table.num_rows))
        elif child.null_count and not inner.is_nullable:
            child = combine_chunks(fill_nulls(pa.chunked_array([child]), type_default(inner, table.num_rows)))
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(type_.arrow))


# Headers --------------------------------------------------------------------------------------------------------------


def _read_header(
    stream: BinaryIO, rest: bytes, columns: Sequence[Column], options: FormatOptions, dialect: _Dialect, types: bool
) -> tuple[list[Column | None], bytes]:
    line, rest = _read_header_line(stream, rest, dialect)
    names = _split_header(line, dialect)
    fields = ColumnNames(columns, options).match_header(names, dialect.name)
    if types:
        line, rest = _read_header_line(stream, rest, dialect)
        check_types(_split_header(line, dialect), fields)
    return fields, rest


def _detect_header(
    stream: BinaryIO, data: bytes, columns: Sequence[Column], options: FormatOptions, dialect: _Dialect
) -> tuple[list[Column | None], bytes, int]:
    """The fields that a header tells, the data behind it, and how many rows it has: 0 if the data has none."""
    names, data, end = _peek_fields(stream, data, dialect)
    if names is None or not tells_names(names, columns):
        return [], data, 0
    fields = ColumnNames(columns, options).match_header(names, dialect.name)
    types, data, type_end = _peek_fields(stream, data[end + 1 :], dialect)
    if types is None or not tells_types(types):
        return fields, data, 1
    check_types(types, fields)
    return fields, data[type_end + 1 :], 2


def _peek_fields(stream: BinaryIO, data: bytes, dialect: _Dialect) -> tuple[list[str] | None, bytes, int]:
    """The fields of the first row, the data from there on, and where the row ends.

    There are no fields if the row is empty or wrong: who reads the data says so, with its number.
    """
    data, end = peek_row(stream, data, dialect.line_end)
    line = data[: max(end, 0)]
    if dialect.quote:
        line = line.removesuffix(b"\r")
    if not line or line.endswith(b"\r"):
        return None, data, end
    try:
        return _split_header(line, dialect), data, end
    except UserError:
        return None, data, end


def _read_header_line(stream: BinaryIO, rest: bytes, dialect: _Dialect) -> tuple[bytes, bytes]:
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


def _read_chunk(
    chunk: bytes, fields: list[Column | None], first_row: int, dialect: _Dialect, options: FormatOptions
) -> pa.Table:
    names = [field.name if field is not None else f"\0{position}" for position, field in enumerate(fields)]
    dialect.check(chunk, first_row, len(fields))
    # An empty field of a Nullable column with an expression takes it, \N does not: then only the empty ones are read
    # as null, and \N is told by its text.
    distinguished = {field.name for field in fields if field is not None and _distinguishes_empty(field, dialect)}
    raw = _split_fields(chunk, names, first_row, dialect, only_empty=bool(distinguished))
    arrays, kept = [], []
    for name, field in zip(names, fields, strict=True):
        if field is None:
            continue
        values = raw.column(name).combine_chunks()
        if field.name in distinguished:
            arrays.append(pc.is_null(values))
            kept.append(MISSING + field.name)
        if distinguished:
            values = pc.if_else(pc.equal(values, b"\\N"), None, values)
        arrays.append(_convert_field(values, field, first_row, dialect, options))
        kept.append(field.name)
    return pa.Table.from_arrays(arrays, names=kept)


def _distinguishes_empty(field: Column, dialect: _Dialect) -> bool:
    return not dialect.escaped and field.type.is_nullable and field.default_kind == "DEFAULT"


def _convert_field(
    values: pa.Array, field: Column, first_row: int, dialect: _Dialect, options: FormatOptions
) -> pa.Array:
    kind = strip_nullable(field.type)
    if isinstance(kind, FixedStringType) and not isinstance(field.type, LowCardinalityType):
        if dialect.escaped:
            values = unescape_bytes(values)
        try:
            return pad_fixed(values, kind)
        except BadValueError as error:
            raise error.to_user_error(first_row, field.name, field.type) from None
    texts = decode_utf8(values, field, first_row)
    # Inside arrays, maps and tuples the backslash belongs to the quoted literals, and in no number is there one.
    if dialect.escaped and is_textual(field.type):
        texts = unescape(texts)
    try:
        if dialect.escaped:
            refuse_blanks(texts, field.type)
        return parse_field(texts, field.type, options)
    except BadValueError as error:
        raise error.to_user_error(first_row, field.name, field.type) from None


def decode_utf8(values: pa.Array, field: Column, first_row: int) -> pa.Array:
    """Returns bytes as text; raises 117 naming the first row that is not UTF-8."""
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
    null_values = ["\\N"] if dialect.escaped else [""] if only_empty else ["\\N", ""]
    try:
        return _parse_fields(chunk, names, parse, null_values)
    except pa.ArrowInvalid as error:
        shorter = None if dialect.escaped else _parse_without_last(chunk, names, parse, null_values)
        if shorter is not None:
            return shorter
        raise _shape_error(chunk, names, first_row, dialect, parse, null_values, error) from None


def _parse_fields(
    chunk: bytes, names: list[str], parse: csv.ParseOptions, null_values: list[str], more_bytes: int = 1
) -> pa.Table:
    convert = csv.ConvertOptions(
        column_types={name: pa.binary() for name in names},
        null_values=null_values,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # One block and one thread: different chunks are read at the same time.
    read = csv.ReadOptions(column_names=names, block_size=len(chunk) + more_bytes, use_threads=False)
    return csv.read_csv(pa.BufferReader(chunk), read, parse, convert)


def _parse_without_last(
    chunk: bytes, names: list[str], parse: csv.ParseOptions, null_values: list[str]
) -> pa.Table | None:
    """Reads CSV whose rows all end in one delimiter more, as spreadsheets write it; ``None`` if they do not."""
    if b"\\N\n" in chunk or not chunk.rstrip(b"\r\n").endswith(parse.delimiter.encode()):
        return None
    try:
        wider = _parse_fields(chunk, [*names, _LAST], parse, null_values)
    except pa.ArrowInvalid:
        return None
    return wider.drop_columns(_LAST) if wider.column(_LAST).null_count == wider.num_rows else None


def _shape_error(
    chunk: bytes,
    names: list[str],
    first_row: int,
    dialect: _Dialect,
    parse: csv.ParseOptions,
    null_values: list[str],
    error: pa.ArrowInvalid,
) -> UserError:
    """Reads the chunk again on one thread to find the row with too few or too many fields."""
    bad: list[csv.InvalidRow] = []

    def remember(row: csv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    parse.invalid_row_handler = remember
    chunk = chunk.decode("utf-8", "replace").encode()  # the handler is given texts
    try:
        _parse_fields(chunk, names, parse, null_values, more_bytes=1 << 20)
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


_TSV = _Dialect("TabSeparated", "\t", False, cut_tsv, clean_tsv, find_tsv_line_end, check_tsv, True)


def _csv_dialect(delimiter: str) -> _Dialect:
    rules = make_csv_rules(delimiter)
    return _Dialect("CSV", delimiter, '"', rules.cut, rules.clean, rules.line_end, rules.check, False)
