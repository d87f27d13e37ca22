"""Opening and reading parts.

Opening reads the small metadata and compares sizes of the data files; nothing else. Reading plans *batches*, runs of
granules whose frames begin together, decodes them on the pool's threads ahead of the consumer (decompression
releases the GIL) from memory-mapped files, and yields them in row order.

Invariants
- A :class:`Part` may be used by many threads at once; nothing but its place on disk (:meth:`Part.move`) ever changes.
- No row is returned whose frame's checksum was not compared: wrong bytes raise ``CorruptionError`` with part, file,
  offset.
- Mapped files stay readable after the part's directory was renamed or deleted.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from parts.checksums import Checksums, check_bytes
from parts.disk import map_file
from parts.errors import CorruptionError
from parts.frames import check_frame, decode_frame
from parts.layout import (
    CHECKSUMS,
    COLUMNS,
    COUNT,
    DATA_FILE,
    MARKS,
    META_FILE,
    META_NAMES,
    MINMAX,
    PARTITION,
    PRIMARY_INDEX,
    UUID,
    column_file,
)
from parts.marks import ColumnMarks, decode_marks
from parts.meta_files import MetaFiles
from parts.part_metadata import ColumnsFile, decode_count, python_value
from parts.part_name import PartName
from parts.pool import THREADS, submit
from parts.primary_index import MarkRange, PrimaryIndex, granule_count, normalize_ranges
from parts.read_plan import Batch, plan_batches
from parts.schema import Column, TableSchema
from parts.types import DataType
from parts.value_file import decode_values

__all__ = ["MarkRange", "Part", "PrimaryIndex", "open_part"]

_READ_AHEAD = THREADS + 1
_INLINE_VALUES = 100_000
_VALUES_PER_JOB = 1_000_000
TEMPORARY_NAME = PartName("tmp", 0, 0, 0)


def open_part(path: Path, *, name: PartName | None = None, table_schema: TableSchema | None = None) -> Part:
    """Opens the part in directory ``path``; reads and checks the small metadata only.

    ``name`` defaults to the directory's name. ``table_schema`` gives the types of columns added after the part was
    written.
    """
    return Part(Path(path), name, table_schema)


class Part:
    """A part on disk."""

    def __init__(self, path: Path, name: PartName | None = None, table_schema: TableSchema | None = None) -> None:
        self.path = path
        self.name = name or PartName.try_parse(path.name) or TEMPORARY_NAME
        self.table_schema = table_schema
        self._lock = threading.Lock()
        self._maps: dict[str, pa.Buffer] = {}
        if not path.is_dir():
            raise CorruptionError("Directory is missing", part=self._label, name="NO_FILE_IN_DATA_PART")
        self._meta = MetaFiles(path, self._label)
        self.part_type = "Compact" if self._meta.is_packed else "Wide"
        self.checksums = Checksums.decode(self._meta.read(CHECKSUMS), self._label)
        columns = ColumnsFile.decode(self._small(COLUMNS), self._label)
        self.schema = columns.schema
        self.granularity = columns.granularity
        self.rows = decode_count(self._small(COUNT), self._label)
        self.marks = granule_count(self.rows, self.granularity)
        self._sorting_key = columns.sorting_key
        self.content_hash = self.checksums.content_hash
        self.data_uncompressed_bytes = self.checksums.uncompressed_bytes
        self.uuid = uuid.UUID(self._small(UUID).decode())
        self.partition_arrays = decode_values(self._small(PARTITION), self._label, PARTITION)
        self.partition: tuple[object, ...] = tuple(python_value(array[0]) for _, _, array in self.partition_arrays)
        self.minmax_arrays: dict[str, pa.Array] = {
            column: array for column, _, array in decode_values(self._small(MINMAX), self._label, MINMAX)
        }
        self.minmax: dict[str, tuple[object, object]] = {
            column: (python_value(array[0]), python_value(array[1], upper=True))
            for column, array in self.minmax_arrays.items()
        }
        self._positions = {column.name: position for position, column in enumerate(self.schema.columns)}
        self.bytes_on_disk = self._check_sizes()
        self.modification_time = (path / (META_FILE if self._meta.is_packed else CHECKSUMS)).stat().st_mtime

    def __repr__(self) -> str:
        return f"Part({self.path.name}, {self.rows} rows)"

    @property
    def _label(self) -> str:
        return self.path.name if self.name is TEMPORARY_NAME else str(self.name)

    @cached_property
    def primary_index(self) -> PrimaryIndex:
        """Loaded on first use."""
        entries = decode_values(self._small(PRIMARY_INDEX), self._label, PRIMARY_INDEX)
        types: tuple[DataType, ...] = tuple(type_ for _, type_, _ in entries)
        keys = [array for _, _, array in entries]
        if any(len(array) != (self.marks + 1 if self.rows else 0) for array in keys):
            message = f"Index is not of {self.marks} granules"
            raise CorruptionError(message, part=self._label, file=PRIMARY_INDEX, offset=0, name="CORRUPTED_DATA")
        return PrimaryIndex(self._sorting_key, types, keys, self.rows, self.granularity)

    def column_sizes(self) -> dict[str, tuple[int, int]]:
        """Column → (bytes on disk, uncompressed bytes)."""
        return dict(self.checksums.column_bytes)

    def read(
        self, columns: Sequence[str], ranges: Sequence[MarkRange] | None = None, *, max_batch_rows: int = 65536 * 4
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``columns`` in that order, rows in order; ``ranges`` are granules (all by default).

        A column the part lacks has its type's default in every row, if the table's schema knows it (else error 16).
        Without columns the batches have only row counts. Granules are never cut unless one exceeds ``max_batch_rows``.
        """
        wanted = [self._column(name) for name in columns]
        stored = [column.name for column in wanted if column.name in self._positions]
        marks = [self._marks[self._positions[name]] for name in stored]
        batches = plan_batches(normalize_ranges(ranges, self.marks), self.rows, self.granularity, marks, max_batch_rows)
        schema = TableSchema(tuple(wanted)).arrow
        if sum(batch.rows for batch in batches) * len(stored) <= _INLINE_VALUES:
            decoded: Iterator[list[pa.Array]] = (self._read_batch(batch, stored) for batch in batches)
        else:
            decoded = self._read_ahead(batches, stored)
        for batch, arrays in zip(batches, decoded, strict=True):
            found = dict(zip(stored, arrays, strict=True))
            filled = [found[c.name] if c.name in found else _defaults(c, batch.rows) for c in wanted]
            yield from _sliced(filled, schema, batch.rows, max_batch_rows)

    def move(self, new_path: Path) -> None:
        """Renames the directory; readers that hold this part go on with the files at their new place."""
        with self._lock:
            self.path.rename(new_path)
            self.path = new_path
            self._meta.directory = new_path

    def verify(self) -> None:
        """Reads every byte of every file. Raises ``CorruptionError`` for the first that differs from what was
        written."""
        meta = MetaFiles(self.path, self._label)
        checksums = Checksums.decode(meta.read(CHECKSUMS), self._label)
        if checksums != self.checksums:
            raise CorruptionError("Checksums changed since the part was opened", part=self._label, file=CHECKSUMS)
        for name in META_NAMES:
            if name != CHECKSUMS:
                check_bytes(meta.read(name), name, checksums, self._label)
        for file in self._data_files():
            self._verify_data(file)
        self._check_no_other_files()

    @cached_property
    def _marks(self) -> list[ColumnMarks]:
        return decode_marks(self._small(MARKS), len(self.schema.columns), self.marks, self._label, MARKS)

    def _column(self, name: str) -> Column:
        if name in self._positions:
            return self.schema.columns[self._positions[name]]
        return (self.table_schema or self.schema).column(name)

    def _small(self, name: str) -> bytes:
        with self._lock:
            data = self._meta.read(name)
        check_bytes(data, name, self.checksums, self._label)
        return data

    def _file_of(self, column: str) -> str:
        return column_file(column) if self.part_type == "Wide" else DATA_FILE

    def _data_files(self) -> list[str]:
        return [name for name in self.checksums.files if name not in META_NAMES]

    def _check_sizes(self) -> int:
        """Every file is there with its size; returns the bytes on disk."""
        files = self.checksums.files
        for column in self.schema.columns:
            if self._file_of(column.name) not in files:
                message = f"The file of column {column.name!r} is not in the checksums"
                raise CorruptionError(message, part=self._label, file=CHECKSUMS, name="CORRUPTED_DATA")
        total = (self.path / (META_FILE if self._meta.is_packed else CHECKSUMS)).stat().st_size
        for name in self._data_files() if self._meta.is_packed else files:
            try:
                size = (self.path / name).stat().st_size
            except FileNotFoundError:
                raise CorruptionError(
                    "File is missing", part=self._label, file=name, name="NO_FILE_IN_DATA_PART"
                ) from None
            if size != files[name].size:
                message = f"File has {size} bytes instead of {files[name].size}"
                raise CorruptionError(message, part=self._label, file=name, offset=min(size, files[name].size))
            total += size
        return total

    def _mapped(self, file: str) -> pa.Buffer:
        with self._lock:
            if file not in self._maps:
                self._maps[file] = map_file(self.path / file, self.checksums.files[file].size, self._label)
            return self._maps[file]

    def _read_ahead(self, batches: list[Batch], stored: list[str]) -> Iterator[list[pa.Array]]:
        """Decodes some batches ahead.

        A job is several small batches, because handing one over costs as much as decoding it; one batch is split by
        column when there are too few for all threads.
        """
        per_job = max(1, _VALUES_PER_JOB // (batches[0].rows * len(stored)))
        groups = [stored]
        if len(batches) < 2 * THREADS:
            per_job, groups = 1, [[name] for name in stored]
        runs = [batches[i : i + per_job] for i in range(0, len(batches), per_job)]
        waiting: deque[list[Future[list[list[pa.Array]]]]] = deque()

        def start(run: list[Batch], group: list[str]) -> Future[list[list[pa.Array]]]:
            return submit(lambda: [self._read_batch(batch, group) for batch in run])

        def join(futures: list[Future[list[list[pa.Array]]]]) -> Iterator[list[pa.Array]]:
            results = [future.result() for future in futures]
            for parts_of_batch in zip(*results, strict=True):
                yield [array for arrays in parts_of_batch for array in arrays]

        try:
            for run in runs:
                waiting.append([start(run, group) for group in groups])
                if len(waiting) >= _READ_AHEAD:
                    yield from join(waiting.popleft())
            while waiting:
                yield from join(waiting.popleft())
        finally:
            for futures in waiting:
                for future in futures:
                    future.cancel()

    def _read_batch(self, batch: Batch, stored: list[str]) -> list[pa.Array]:
        return [self._read_column(name, batch.begin, batch.end) for name in stored]

    def _read_column(self, name: str, begin: int, end: int) -> pa.Array:
        """The rows of granules ``begin`` to ``end - 1``."""
        position = self._positions[name]
        marks = self._marks[position]
        type_ = self.schema.columns[position].type.arrow
        file = self._file_of(name)
        data = self._mapped(file)
        offsets = np.unique(marks.offsets[begin:end])
        frames = [decode_frame(data, int(offset), type_, self._label, file) for offset in offsets]
        array = frames[0] if len(frames) == 1 else pa.concat_arrays(_same_dictionary(frames))
        first = int(marks.rows[begin])
        rows = min(end * self.granularity, self.rows) - begin * self.granularity
        if first + rows > len(array):
            message = f"Frames hold {len(array)} rows, {first + rows} are needed"
            raise CorruptionError(message, part=self._label, file=file, offset=int(offsets[0]), name="CORRUPTED_DATA")
        return array if first == 0 and rows == len(array) else array.slice(first, rows)

    def _verify_data(self, file: str) -> None:
        """Frame by frame first, for the offset; then the whole file against the checksums."""
        data = self._mapped(file)
        offset = 0
        while offset < data.size:
            offset += check_frame(data, offset, self._label, file)
        check_bytes(memoryview(data), file, self.checksums, self._label)  # type: ignore[arg-type]

    def _check_no_other_files(self) -> None:
        known = set(self._data_files()) | ({META_FILE} if self._meta.is_packed else set(META_NAMES))
        for path in self.path.iterdir():
            if path.name not in known:
                raise CorruptionError(
                    "File does not belong to the part",
                    part=self._label,
                    file=path.name,
                    name="UNEXPECTED_FILE_IN_DATA_PART",
                )


def _same_dictionary(frames: list[pa.Array]) -> list[pa.Array]:
    if pa.types.is_dictionary(frames[0].type):
        return pa.chunked_array(frames).unify_dictionaries().chunks
    return frames


def _defaults(column: Column, rows: int) -> pa.Array:
    scalar = pa.scalar(column.type.default, column.type.arrow)
    return pa.repeat(scalar, rows)


def _sliced(arrays: list[pa.Array], schema: pa.Schema, rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    if not arrays:
        yield from _empty_batches(rows, limit)
        return
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for start in range(0, rows, limit):
        yield batch if rows <= limit else batch.slice(start, limit)


def _empty_batches(rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    """Batches of rows without columns, as for ``SELECT count()``."""
    for start in range(0, rows, limit):
        count = min(limit, rows - start)
        yield pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
