"""Opening and reading parts.

Opening reads the small metadata and compares sizes of the data files; nothing else. Reading plans *batches*, runs of
rows whose frames begin together, decodes them from memory-mapped files on the pool's threads ahead of the consumer
(decompression releases the GIL), and yields them in row order. What is small is decoded by the consumer itself: handing
it over would cost more. Of a frame only the rows asked for are decoded.

Invariants
- A :class:`Part` may be used by many threads at once; nothing but its place on disk (:meth:`Part.move`) ever changes.
- No row is returned whose frame's checksum was not compared: wrong bytes raise ``CorruptionError`` with part, file,
  offset.
- Mapped files stay readable after the part's directory was renamed or deleted.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from parts.absent_columns import AbsentColumns
from parts.checksums import Checksums, check_bytes
from parts.disk import map_file
from parts.errors import CorruptionError
from parts.frames import decode_rows
from parts.layout import CHECKSUMS, DATA_FILE, META_FILE, PRIMARY_INDEX, column_file
from parts.marks import ColumnMarks
from parts.meta_files import MetaFiles
from parts.part_files import (
    COLUMNS_FILE,
    COUNT_FILE,
    MARKS_FILE,
    METADATA_VERSION_FILE,
    MINMAX_FILE,
    PARTITION_FILE,
    PRIMARY_INDEX_FILE,
    UUID_FILE,
    PartShape,
    SmallFile,
    data_file,
    is_small,
)
from parts.part_metadata import python_value
from parts.part_name import PartName
from parts.pool import THREADS, submit
from parts.primary_index import MarkRange, PrimaryIndex, granule_count, normalize_ranges
from parts.read_plan import RowRange, plan_batches, rows_of
from parts.schema import Column, TableSchema
from parts.types import DataType

__all__ = ["MarkRange", "Part", "PrimaryIndex", "RowRange", "open_part"]

_INLINE_VALUES = 300_000
_VALUES_PER_JOB = 1_000_000
TEMPORARY_NAME = PartName("tmp", 0, 0, 0)
T = TypeVar("T")


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
        columns = self._value(COLUMNS_FILE)
        self.schema = columns.schema
        self.granularity = columns.granularity
        self.rows = self._value(COUNT_FILE)
        self.marks = granule_count(self.rows, self.granularity)
        self._sorting_key = columns.sorting_key
        self.content_hash = self.checksums.content_hash
        self.data_uncompressed_bytes = self.checksums.uncompressed_bytes
        self.uuid = self._value(UUID_FILE)
        self.metadata_version = self._value(METADATA_VERSION_FILE)
        self.partition_arrays = self._value(PARTITION_FILE)
        self.partition: tuple[object, ...] = tuple(python_value(array[0]) for _, _, array in self.partition_arrays)
        self.minmax_arrays: dict[str, pa.Array] = {column: array for column, _, array in self._value(MINMAX_FILE)}
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
        entries = self._value(PRIMARY_INDEX_FILE)
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
        self,
        columns: Sequence[str],
        ranges: Sequence[MarkRange] | None = None,
        *,
        max_batch_rows: int = 65536 * 4,
        max_threads: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``columns`` in that order, rows in order; ``ranges`` are granules (all by default).

        A column the part lacks is computed from its DEFAULT, if the table's schema knows it (else error 16).
        Without columns the batches have only row counts. Granules are never cut unless one exceeds ``max_batch_rows``.
        At most ``max_threads`` of the pool's threads are kept busy (0: all); 1 leaves the work to the caller's.
        """
        chosen = rows_of(normalize_ranges(ranges, self.marks), self.rows, self.granularity)
        return self.read_rows(columns, chosen, max_batch_rows=max_batch_rows, max_threads=max_threads)

    def read_rows(
        self,
        columns: Sequence[str],
        ranges: Sequence[RowRange],
        *,
        max_batch_rows: int = 65536 * 4,
        max_threads: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read`, for rows: ``ranges`` are in order, disjoint and inside the part."""
        wanted = [self._column(name) for name in columns]
        absent = AbsentColumns(columns, self._positions, self._column)
        stored = list(absent.to_read)
        marks = [self._marks[self._positions[name]] for name in stored]
        widest = max((self.checksums.column_bytes[name][1] for name in stored), default=0)
        batches = plan_batches(ranges, self.granularity, marks, max_batch_rows, widest // max(self.rows, 1))
        schema = TableSchema(tuple(wanted)).arrow
        if max_threads == 1 or sum(batch.rows for batch in batches) * len(stored) <= _INLINE_VALUES:
            decoded: Iterator[list[pa.Array]] = (self._read_batch(batch, stored) for batch in batches)
        else:
            decoded = self._read_ahead(batches, stored, min(max_threads or THREADS, THREADS))
        for batch, arrays in zip(batches, decoded, strict=True):
            found = dict(zip(stored, arrays, strict=True))
            filled = absent.compute(found, batch.rows)
            yield from _sliced([filled[name] for name in columns], schema, batch.rows, max_batch_rows)

    def move(self, new_path: Path) -> None:
        """Renames the directory; readers that hold this part go on with the files at their new place."""
        with self._lock:
            self.path.rename(new_path)
            self.path = new_path
            self._meta.directory = new_path

    def verify(self, check: Callable[[], None] = lambda: None) -> None:
        """Reads every byte of every file. Raises ``CorruptionError`` for the first that differs from what was
        written, and what ``check`` raises, which is called before every frame."""
        meta = MetaFiles(self.path, self._label)
        checksums = Checksums.decode(meta.read(CHECKSUMS), self._label)
        if checksums != self.checksums:
            raise CorruptionError("Checksums changed since the part was opened", part=self._label, file=CHECKSUMS)
        for name in meta.packed if meta.is_packed else filter(is_small, checksums.files):
            if name != CHECKSUMS:
                check_bytes(meta.read(name), name, checksums, self._label)
        for file in self._data_files():
            self._verify_data(file, check)
        self._check_no_other_files()

    @cached_property
    def _marks(self) -> list[ColumnMarks]:
        return self._value(MARKS_FILE, PartShape(self._label, len(self.schema.columns), self.marks))

    def _column(self, name: str) -> Column:
        if name in self._positions:
            return self.schema.columns[self._positions[name]]
        return (self.table_schema or self.schema).column(name)

    def _value(self, file: SmallFile[T], shape: PartShape | None = None) -> T:
        """What a small file says."""
        if file.absent is not None and file.name not in self.checksums.files:
            return file.absent
        with self._lock:
            data = self._meta.read(file.name)
        check_bytes(data, file.name, self.checksums, self._label)
        return file.decode(data, shape or PartShape(self._label))

    def _file_of(self, column: str) -> str:
        return column_file(column) if self.part_type == "Wide" else DATA_FILE

    def _data_files(self) -> list[str]:
        """The files that are mapped, and those that this version does not know."""
        return [name for name in self.checksums.files if not is_small(name) and name not in self._meta.packed]

    def _check_sizes(self) -> int:
        """Every file is there with its size; returns the bytes on disk."""
        files = self.checksums.files
        for column in self.schema.columns:
            if self._file_of(column.name) not in files:
                message = f"The file of column {column.name!r} is not in the checksums"
                raise CorruptionError(message, part=self._label, file=CHECKSUMS, name="CORRUPTED_DATA")
        total = (self.path / (META_FILE if self._meta.is_packed else CHECKSUMS)).stat().st_size
        for name in files if not self._meta.is_packed else self._data_files():
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

    def _read_ahead(self, batches: list[RowRange], stored: list[str], threads: int) -> Iterator[list[pa.Array]]:
        """Decodes some batches ahead.

        A job is several small batches, because handing one over costs as much as decoding it; one batch is split by
        column when there are too few for all threads.
        """
        per_job = max(1, _VALUES_PER_JOB // (batches[0].rows * len(stored)))
        groups = [stored]
        ahead = threads if threads < THREADS else THREADS + 1
        if len(batches) < 2 * THREADS and threads == THREADS:
            per_job, groups = 1, [[name] for name in stored]
        runs = [batches[i : i + per_job] for i in range(0, len(batches), per_job)]
        waiting: deque[list[Future[list[list[pa.Array]]]]] = deque()

        def start(run: list[RowRange], group: list[str]) -> Future[list[list[pa.Array]]]:
            return submit(lambda: [self._read_batch(batch, group) for batch in run])

        def join(futures: list[Future[list[list[pa.Array]]]]) -> Iterator[list[pa.Array]]:
            results = [future.result() for future in futures]
            for parts_of_batch in zip(*results, strict=True):
                yield [array for arrays in parts_of_batch for array in arrays]

        try:
            for run in runs:
                waiting.append([start(run, group) for group in groups])
                if len(waiting) >= ahead:
                    yield from join(waiting.popleft())
            while waiting:
                yield from join(waiting.popleft())
        finally:
            for futures in waiting:
                for future in futures:
                    future.cancel()

    def _read_batch(self, batch: RowRange, stored: list[str]) -> list[pa.Array]:
        return [self._read_column(name, batch) for name in stored]

    def _read_column(self, name: str, chosen: RowRange) -> pa.Array:
        position = self._positions[name]
        type_ = self.schema.columns[position].type.arrow
        file = self._file_of(name)
        data = self._mapped(file)
        pieces = [
            decode_rows(data, offset, type_, self._label, file, first, rows)
            for offset, first, rows in self._frames_of(self._marks[position], chosen)
        ]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(_same_dictionary(pieces))

    def _frames_of(self, marks: ColumnMarks, chosen: RowRange) -> Iterator[tuple[int, int, int]]:
        """The frames that hold the rows: offset of the frame, first row in it, number of rows."""
        granule = chosen.begin // self.granularity
        end_granule = -(-chosen.end // self.granularity)
        offsets = marks.offsets[granule:end_granule]
        begins = [0, *(np.flatnonzero(offsets[1:] != offsets[:-1]) + 1).tolist(), len(offsets)]
        row = chosen.begin
        for begin, end in itertools.pairwise(begins):
            first = int(marks.rows[granule + begin]) + row - (granule + begin) * self.granularity
            next_row = min(chosen.end, (granule + end) * self.granularity)
            yield int(offsets[begin]), first, next_row - row
            row = next_row

    def _verify_data(self, file: str, check: Callable[[], None]) -> None:
        """Piece by piece first, for the offset; then the whole file against the checksums."""
        data = self._mapped(file)
        check()
        entry = data_file(file)
        if entry is not None:
            entry.check(data, self._label, file, check)
        check_bytes(memoryview(data), file, self.checksums, self._label)  # type: ignore[arg-type]

    def _check_no_other_files(self) -> None:
        known = {META_FILE, *self._data_files()} if self._meta.is_packed else {CHECKSUMS, *self.checksums.files}
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
