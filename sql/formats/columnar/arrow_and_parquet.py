"""Reads and writes Parquet, Arrow (file) and ArrowStream. Columns are matched by name.

The Arrow types are those of ClickHouse 26: Enum as its name, DateTime with its zone, LowCardinality as plain values,
UUID and IPv6 as 16 bytes, IPv4 as a 32-bit number.
"""

from __future__ import annotations

import io
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.table.table_description import Column
from parts.types import DataType
from sql.formats.columnar.arrow_validation import (
    check_batch,
    check_schema,
    largest_dictionary_value_bytes,
    map_columns,
    split_by_bytes,
)
from sql.formats.columnar.ipc_messages import CheckedIpcStream, check_arrow_file
from sql.formats.converters.arrow_type_mapping import arrow_file_field, from_arrow_file, to_arrow_file
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.text_escapes import shorten_for_message

if TYPE_CHECKING:
    import pyarrow.parquet as pq

READ_ROWS = 1 << 16
_SPOOL_BYTES = 64 << 20
_STREAMED_BYTES = 1 << 20
_BATCH_BYTES = 256 << 20


def read_parquet(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of Parquet data."""
    with _open_seekable(stream, options.status) as source, _user_errors("Parquet"):
        file = _parquet_file(source())
        names = _match_names(file.schema_arrow, columns, options, "Parquet")
        batches = parquet_batches(file, source, names)
        yield from _read_tables(batches, names, columns, options, "Parquet")


def read_arrow(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of an Arrow file."""
    with _read_whole(stream, options.status) as data, _user_errors("Arrow"):
        check_arrow_file(memoryview(data).cast("B"), options.status)
        reader = pa.ipc.open_file(pa.BufferReader(data))
        names = _match_names(reader.schema, columns, options, "Arrow")
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        yield from _read_tables(batches, names, columns, options, "Arrow")


def read_arrow_stream(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
    """Yields the rows of an Arrow stream."""
    with _user_errors("ArrowStream"):
        reader = pa.ipc.open_stream(pa.PythonFile(CheckedIpcStream(stream, options.status), mode="r"))
        names = _match_names(reader.schema, columns, options, "ArrowStream")
        yield from _read_tables(iter(reader), names, columns, options, "ArrowStream")


def count_parquet_rows(stream: BinaryIO, options: FormatOptions) -> int:
    """Returns the number of rows of Parquet data, without reading them."""
    with _open_seekable(stream, options.status) as source, _user_errors("Parquet"):
        return int(_parquet_file(source()).metadata.num_rows)


def read_schema(name: str, stream: BinaryIO, options: FormatOptions) -> pa.Schema:
    """Returns the Arrow schema of Parquet, Arrow or ArrowStream data."""
    with _user_errors(name):
        if name == "ArrowStream":
            return pa.ipc.open_stream(pa.PythonFile(CheckedIpcStream(stream, options.status), mode="r")).schema
        if name == "Arrow":
            with _read_whole(stream, options.status) as data:
                check_arrow_file(memoryview(data).cast("B"), options.status)
                return pa.ipc.open_file(pa.BufferReader(data)).schema
        with _open_seekable(stream, options.status) as source:
            return _parquet_file(source()).schema_arrow


def _parquet_file(source: pa.NativeFile, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Opens Parquet data; a file is streamed page by page, so that little of it is in memory."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        source,
        buffer_size=_STREAMED_BYTES if isinstance(source, pa.PythonFile) else 0,
        page_checksum_verification=True,
        read_dictionary=list(dictionaries),
        thrift_string_size_limit=1 << 26,
        thrift_container_size_limit=1 << 22,
    )


def parquet_batches(
    file: pq.ParquetFile, source: Callable[[], pa.NativeFile], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches of bounded memory.

    They stay small also where a few bytes refer many times to a long string of a dictionary.
    """
    # Column chunk metadata are not used: if they contradict themselves, pyarrow ends the process.
    leaves = [file.schema.column(index) for index in range(len(file.schema))]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    for group in range(file.num_row_groups):
        largest = max((leaf.length for leaf in leaves), default=0)
        if texts:  # one row is read to see the dictionaries
            first = _parquet_file(source(), texts).iter_batches(1, row_groups=[group], columns=list(names))
            for array in (array for batch in islice(first, 1) for array in batch.columns):
                largest = max(largest, largest_dictionary_value_bytes(array, "Parquet"))
        rows = max(min(READ_ROWS, _BATCH_BYTES // max(largest, 1)), 1)
        yield from file.iter_batches(rows, row_groups=[group], columns=list(names))


@contextmanager
def _user_errors(name: str) -> Iterator[None]:
    """Raises pyarrow's errors about unreadable data as ``UserError`` 117."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError, KeyError) as error:
        raise UserError("INCORRECT_DATA", f"Cannot read {name} data: {shorten_for_message(str(error), 300)}") from error


@contextmanager
def _open_seekable(stream: BinaryIO, status: QueryStatus) -> Iterator[Callable[[], pa.NativeFile]]:
    """Gives readers that seek the bytes of the stream; a file is read where it lies."""
    raw = stream.raw if isinstance(stream, io.BufferedReader) else None
    if isinstance(raw, io.FileIO) and raw.seekable() and stream.tell() == 0:
        yield lambda: pa.PythonFile(_PositionedFile(raw.fileno()), mode="r")
        return
    with _read_whole(stream, status) as data:
        yield lambda: pa.BufferReader(data)


class _PositionedFile(io.RawIOBase):
    """One of several readers of an open file.

    The file is not mapped: a process that maps a file dies when somebody shortens it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._size = os.fstat(descriptor).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count


@contextmanager
def _read_whole(stream: BinaryIO, status: QueryStatus) -> Iterator[pa.Buffer]:
    """Gives all bytes of the stream: in memory, or mapped from a temporary file when they are many."""
    if isinstance(stream, io.BytesIO):
        yield pa.py_buffer(stream.read())
        return
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as copy:
        while data := stream.read(1 << 20):
            status.check()
            copy.write(data)
        size = copy.tell()
        copy.seek(0)
        if size <= _SPOOL_BYTES:
            with status.memory.hold(size, "reading a file of columns"):
                yield pa.py_buffer(copy.read())
            return
        yield pa.py_buffer(mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ))


def _match_names(schema: pa.Schema, columns: Sequence[Column], options: FormatOptions, name: str) -> list[str]:
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
    check_schema(schema, found, name)
    return found


def _read_tables(
    batches: Iterator[pa.RecordBatch],
    names: Sequence[str],
    columns: Sequence[Column],
    options: FormatOptions,
    name: str,
) -> Iterator[pa.Table]:
    asked = [column for column in columns if column.name in names]
    first_row = 1
    while True:
        options.status.check()
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise UserError("INCORRECT_DATA", f"Cannot read {name} data behind row {first_row - 1}: {error}") from error
        if batch is None:
            return
        whole = check_batch(batch, [column.name for column in asked], name, first_row)
        for piece in split_by_bytes(whole, name):
            yield _make_table(piece, asked, options, first_row)
            first_row += piece.num_rows


def _make_table(batch: pa.RecordBatch, columns: Sequence[Column], options: FormatOptions, first_row: int) -> pa.Table:
    def converted(column: Column) -> pa.Array:
        array = batch.column(column.name)
        try:
            return from_arrow_file(array, column.type, options)
        except BadValueError as error:
            raise error.to_user_error(first_row, column.name, column.type) from None
        except UserError as error:
            raise UserError(error.name, f"{error.message} (column {column.name})") from None
        except pa.ArrowException as error:
            raise UserError(
                "CANNOT_CONVERT_TYPE",
                f"Cannot convert Arrow type {array.type} to {column.type} (column {column.name}): "
                f"{shorten_for_message(str(error), 300)}",
            ) from None

    arrays = map_columns(converted, columns, batch.num_rows)
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


# Writing --------------------------------------------------------------------------------------------------------------


class OutputPieces(io.RawIOBase):
    """A file that collects what a writer writes, to be taken piece by piece."""

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
        """Returns what was written since the last call."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def write_arrow_or_parquet(
    kind: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], options: FormatOptions
) -> Iterator[bytes]:
    """Yields the batches in the format ``kind``: Parquet, Arrow or ArrowStream."""
    schema = pa.schema([arrow_file_field(name, type_) for name, type_ in columns])
    sink = OutputPieces()
    if kind == "Parquet":
        import pyarrow.parquet as pq

        try:
            writer = pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=True)
        except pa.ArrowNotImplementedError as error:
            raise UserError("BAD_ARGUMENTS", f"Parquet cannot hold an empty tuple: {error}") from None
    else:
        writer = (pa.ipc.new_stream if kind == "ArrowStream" else pa.ipc.new_file)(sink, schema)
    for batch in batches:
        arrays = [to_arrow_file(batch.column(index), type_) for index, (_, type_) in enumerate(columns)]
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        if data := sink.take():
            yield data
    writer.close()
    yield sink.take()
