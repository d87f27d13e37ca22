"""Parquet, Arrow (file) and ArrowStream, both ways. Columns are matched by name.

The types on the wire are those of ClickHouse 26: Enum as its name, DateTime with its zone, LowCardinality as plain
values, UUID and IPv6 as 16 bytes, IPv4 as a 32-bit number.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from parts.errors import UserError
from parts.schema import Column
from parts.types import DataType
from sql.formats.options import BadValueError, FormatOptions
from sql.formats.wire import from_wire, to_wire, wire_type

READ_ROWS = 1 << 16
_SPOOL_BYTES = 64 << 20


def read_parquet(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    with _seekable(stream) as source:
        try:
            file = pq.ParquetFile(source)
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError("INCORRECT_DATA", f"Not a Parquet file: {error}") from error
        names = _names(file.schema_arrow, columns, options, "Parquet")
        batches = file.iter_batches(batch_size=READ_ROWS, columns=names)
        yield from _tables(batches, columns, options, "Parquet")


def read_arrow(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    with _seekable(stream) as source:
        try:
            reader = pa.ipc.open_file(_arrow_file(source))
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError("INCORRECT_DATA", f"Not an Arrow file: {error}") from error
        _names(reader.schema, columns, options, "Arrow")
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        yield from _tables(batches, columns, options, "Arrow")


def read_arrow_stream(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    try:
        reader = pa.ipc.open_stream(_arrow_file(stream))
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError("INCORRECT_DATA", f"Not an Arrow stream: {error}") from error
    _names(reader.schema, columns, options, "ArrowStream")
    yield from _tables(iter(reader), columns, options, "ArrowStream")


def _arrow_file(stream: BinaryIO) -> pa.NativeFile:
    """Data that is in memory already is not copied: the batches are slices of it."""
    return pa.BufferReader(stream.read()) if isinstance(stream, io.BytesIO) else pa.PythonFile(stream, mode="r")


def _seekable(stream: BinaryIO) -> BinaryIO:
    """The stream itself if it can seek, else a copy of it (on disk when it is large)."""
    if stream.seekable():
        return stream
    copy = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 — the caller closes it
    while data := stream.read(1 << 20):
        copy.write(data)
    copy.seek(0)
    return copy  # type: ignore[return-value]


def _names(schema: pa.Schema, columns: Sequence[Column], options: FormatOptions, name: str) -> list[str]:
    known = {column.name for column in columns}
    found = [field for field in schema.names if field in known]
    unknown = [field for field in schema.names if field not in known]
    if unknown and not options.skip_unknown_fields:
        raise UserError("INCORRECT_DATA", f"Unknown column found in {name} data: {unknown[0]!r}")
    if len(set(found)) < len(found):
        raise UserError("INCORRECT_DATA", f"A column is twice in the {name} data: {', '.join(found)}")
    if not found:
        raise UserError(
            "THERE_IS_NO_COLUMN",
            f"None of the {name} data's columns ({', '.join(schema.names)}) is asked for ({', '.join(sorted(known))})",
        )
    return found


def _tables(
    batches: Iterator[pa.RecordBatch], columns: Sequence[Column], options: FormatOptions, name: str
) -> Iterator[pa.Table]:
    first_row = 1
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError("INCORRECT_DATA", f"Cannot read {name} data behind row {first_row - 1}: {error}") from error
        if batch is None:
            return
        arrays, names = [], []
        for column in columns:
            if column.name not in batch.schema.names:
                continue
            try:
                arrays.append(from_wire(batch.column(column.name), column.type, options))
            except BadValueError as error:
                raise error.located(first_row, column.name, column.type) from None
            except UserError as error:
                raise UserError(error.name, f"{error.message} (column {column.name})") from None
            names.append(column.name)
        yield pa.Table.from_arrays(arrays, names=names)
        first_row += batch.num_rows


# Writing --------------------------------------------------------------------------------------------------------------


class PieceSink(io.RawIOBase):
    """Collects what a writer writes, to be handed on piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def write_arrow_like(
    kind: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], options: FormatOptions
) -> Iterator[bytes]:
    schema = pa.schema([pa.field(name, wire_type(type_), type_.is_nullable) for name, type_ in columns])
    sink = PieceSink()
    if kind == "Parquet":
        writer = pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=True)
    else:
        writer = (pa.ipc.new_stream if kind == "ArrowStream" else pa.ipc.new_file)(sink, schema)
    for batch in batches:
        arrays = [to_wire(batch.column(index), type_) for index, (_, type_) in enumerate(columns)]
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        if data := sink.take():
            yield data
    writer.close()
    yield sink.take()
