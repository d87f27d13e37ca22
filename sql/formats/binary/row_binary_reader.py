"""Reads RowBinary, RowBinaryWithNames and RowBinaryWithNamesAndTypes, window by window.

The layout is in :mod:`row_binary_writer`. With types in the data, columns of another type are cast and unknown ones
skipped. Without types the length of an unknown column is not known, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import DataType, parse_type
from sql.formats.binary.native_reader import convert_column
from sql.formats.binary.row_binary_offsets import ValueEnds, read_values
from sql.formats.column_names import ColumnNames
from sql.formats.converters.fixed_width_values import from_bytes
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.streams.byte_source import MAX_COLUMNS, ByteSource, pad_for_varints
from sql.formats.streams.row_chunks import MAX_ROW_BYTES

_WINDOW_BYTES = 1 << 16
_TABLE_BYTES = 64
"""Memory for each byte of a window: some tables of :mod:`row_binary_offsets`."""
Fields = Sequence[tuple[str, DataType]]


def read_row_binary(
    stream: BinaryIO, columns: Sequence[Column], options: FormatOptions, *, header: int
) -> Iterator[pa.Table]:
    """Yields the data's rows. ``header`` is 0 for none, 1 for names, 2 for names and types."""
    source = ByteSource(stream, "RowBinary", options.status)
    if source.is_at_end():
        return
    fields = _read_header(source, columns, header, options) if header else [(c.name, c.type) for c in columns]
    wanted = {column.name: column for column in columns}
    first_row = 1
    for arrays in _read_rows(source, fields):
        table = {}
        for (name, type_), read in zip(fields, arrays, strict=True):
            if name not in wanted:
                continue
            try:
                table[name] = convert_column(read(), type_, wanted[name], options, first_row)
            except BadValueError as error:
                raise error.to_user_error(first_row, name, type_) from None
        yield pa.table(table)
        first_row += len(next(iter(table.values())))


def _read_header(source: ByteSource, columns: Sequence[Column], header: int, options: FormatOptions) -> Fields:
    count = source.number()
    if not 0 < count <= MAX_COLUMNS:
        raise source.make_malformed_error(f"a header of {count} columns")
    names = [source.text() for _ in range(count)]
    types = [parse_type(source.text()) for _ in range(count)] if header > 1 else None
    found = ColumnNames(columns, options).match_header(names, "RowBinary", skips_unknown=types is not None)
    names = ["" if column is None else column.name for column in found]
    return list(zip(names, types or [column.type for column in found if column is not None], strict=True))


def _read_rows(source: ByteSource, fields: Fields) -> Iterator[list]:
    """Yields per window, for each field, a function that reads its values in all whole rows."""
    types = [type_ for _, type_ in fields]
    widths = [type_.memory_width_bytes for type_ in types]
    cut = _cut_fixed if None not in widths else _cut_followed
    size = max(_WINDOW_BYTES, sum(width or 0 for width in widths))
    while not source.is_at_end():
        source.status.check()
        window = source.window(size)
        with source.status.memory.hold(_TABLE_BYTES * len(window), "reading rows of RowBinary"):
            used, arrays = cut(types, pad_for_varints(window), len(window))
            if used:
                yield arrays
        if used:
            source.take(used)
            size = _WINDOW_BYTES
        elif len(window) < size:
            raise UserError("CANNOT_READ_ALL_DATA", "RowBinary data are cut off inside a row")
        elif size > MAX_ROW_BYTES:
            raise UserError("INCORRECT_DATA", f"A row of RowBinary data is longer than {MAX_ROW_BYTES} bytes")
        else:
            size *= 2


def _cut_fixed(types: Sequence[DataType], buffer: np.ndarray, size: int) -> tuple[int, list]:
    """Cuts rows in which all columns have one width, as a matrix."""
    bounds = np.cumsum([0] + [type_.memory_width_bytes for type_ in types])
    rows = size // int(bounds[-1])
    used = rows * int(bounds[-1])
    matrix = buffer[:used].reshape(rows, int(bounds[-1]))
    parts = zip(types, bounds[:-1], bounds[1:], strict=True)
    return used, [lambda t=type_, a=begin, b=end: from_bytes(matrix[:, a:b], t) for type_, begin, end in parts]


def _cut_followed(types: Sequence[DataType], buffer: np.ndarray, size: int) -> tuple[int, list]:
    ends = ValueEnds(buffer, size)
    rows = ends.find_rows(types)
    places, readers = rows[:-1], []
    for type_ in types:
        readers.append(lambda t=type_, p=places: read_values(t, p, ends))
        places = ends.table_of(type_)[places]
    return int(rows[-1]), readers
