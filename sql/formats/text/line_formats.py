"""Simple formats: lines as they are, a body as one value, Markdown tables, TSKV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import (
    DataType,
    FixedStringType,
    StringType,
    strip_nullable,
)
from sql.formats.converters.fixed_width_values import to_bytes
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.scalars.string_formats import pad_fixed
from sql.formats.converters.value_checks import decode_utf8
from sql.formats.format_options import BadValueError, FormatOptions
from sql.formats.streams.byte_source import ByteSource
from sql.formats.streams.length_prefixed_strings import slice_bytes as byte_slices
from sql.formats.streams.row_chunks import MAX_ROW_BYTES, parse_chunks, row_chunks
from sql.formats.text.text_writers import Batches, Columns, RunStatistics, join_row, render_tsv_fields, slice_rows
from sql.grammar.text_escapes import TSV_ESCAPES, concatenate_bytes, escape


def read_lines(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Reads LineAsString: each line is the value of the only column."""
    column = _get_only_column(columns, "LineAsString")

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        data = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        if not len(ends) or ends[-1] != len(data) - 1:
            ends = np.append(ends, len(data))
        return _make_table(byte_slices(data, np.append(0, ends[:-1] + 1), ends), column, first_row)

    chunks = row_chunks(stream, lambda data: data.rfind(b"\n") + 1, options.status)
    yield from parse_chunks(chunks, parse)


def read_raw_blob(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Reads RawBLOB: all data are the value of the only column."""
    column = _get_only_column(columns, "RawBLOB")
    source = ByteSource(stream, "RawBLOB", options.status)
    data = bytes(source.window(MAX_ROW_BYTES + 1))
    if len(data) > MAX_ROW_BYTES:
        raise UserError("TOO_LARGE_STRING_SIZE", f"RawBLOB data have more than {MAX_ROW_BYTES} bytes")
    yield _make_table(pa.array([data], pa.binary()), column, 1)


def _get_only_column(columns: Sequence[Column], name: str) -> Column:
    if len(columns) != 1 or not isinstance(strip_nullable(columns[0].type), (StringType, FixedStringType)):
        raise UserError(
            "BAD_ARGUMENTS", f"{name} is for one column of type String: INSERT INTO t (column) FORMAT {name}"
        )
    return columns[0]


def _make_table(values: pa.Array, column: Column, first_row: int) -> pa.Table:
    kind = strip_nullable(column.type)
    try:
        array = pad_fixed(values, kind) if isinstance(kind, FixedStringType) else decode_utf8(values)
    except BadValueError as error:
        raise error.to_user_error(first_row, column.name, column.type) from None
    return pa.table({column.name: array if array.type == column.type.arrow else array.dictionary_encode()})


def write_raw_blob(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Writes RawBLOB: the values' bytes without anything between."""
    for batch in slice_rows(batches):
        cells = [_memory_bytes(batch.column(index), type_) for index, (_, type_) in enumerate(columns)]
        yield concatenate_bytes(pc.binary_join_element_wise(*cells, b""))


def _memory_bytes(array: pa.Array, type_: DataType) -> pa.Array:
    """Returns the bytes of each value as they are in ClickHouse's memory; nothing for null."""
    kind = strip_nullable(type_)
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if isinstance(kind, StringType):
        return pc.cast(array.fill_null(""), pa.binary())
    width = kind.memory_width_bytes
    if width is None:
        raise UserError("NOT_IMPLEMENTED", f"RawBLOB cannot write {type_}")
    cells = pc.cast(
        pa.Array.from_buffers(
            pa.binary(width), len(array), [None, pa.py_buffer(np.ascontiguousarray(to_bytes(array, kind)))]
        ),
        pa.binary(),
    )
    return pc.if_else(array.is_null(), b"", cells) if array.null_count else cells


def write_markdown(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Writes a Markdown table."""
    names = escape(pa.array([name for name, _ in columns], pa.string()), TSV_ESCAPES).to_pylist()
    formats = [scalar_format(strip_nullable(type_)) for _, type_ in columns]
    marks = ["-:" if format_ is not None and format_.is_right_aligned else ":-" for format_ in formats]
    yield f"| {' | '.join(names)} |\n|{'|'.join(marks)}|\n".encode()
    for batch in slice_rows(batches):
        texts = [render_tsv_fields(batch.column(i), type_, options, False) for i, (_, type_) in enumerate(columns)]
        yield concatenate_bytes(join_row("| ", texts, " | ", " |\n"))


def write_tskv(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Writes ``name=value`` pairs with tabs between; a ``=`` in a name is escaped."""
    escapes = TSV_ESCAPES | {"=": "\\="}
    keys = [f"{name}=" for name in escape(pa.array([name for name, _ in columns], pa.string()), escapes).to_pylist()]
    for batch in slice_rows(batches):
        texts = [render_tsv_fields(batch.column(i), type_, options, False) for i, (_, type_) in enumerate(columns)]
        pairs = [pc.binary_join_element_wise(key, text, "") for key, text in zip(keys, texts, strict=True)]
        yield concatenate_bytes(join_row("", pairs, "\t", "\n"))
