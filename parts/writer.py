"""Writing a part: sorted blocks in, a directory of fsynced files out.

Rows are cut into *windows*: whole granules, about 131072 rows, fewer when they hold 64 MiB. Where windows and frames
end depends on the rows alone, never on how they were appended, so every replica writes the same bytes. Columns of a
window are hashed, encoded and (in wide parts) written in parallel.

Invariants
- Blocks come in sorting-key order, within and across calls (the caller's duty; not checked again).
- At most one window and one block are in memory.
- A part of long rows has smaller granules than the settings say; every part knows its own.
- After ``finish`` all files and the directory are fsynced (``fsync_after_insert``); after ``abort`` the directory is
  gone.
"""

from __future__ import annotations

import functools
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from parts.arrays import content_bytes
from parts.blocks import PartitionBlock, conform_block, sort_block, split_by_partition
from parts.checksums import Checksums, FileChecksum
from parts.codecs import Codec, parse_codec
from parts.column_writer import ColumnWriter
from parts.content_hash import combine
from parts.disk import HashedFile, sync_files
from parts.layout import CHECKSUMS, DATA_FILE, META_FILE, column_file
from parts.meta_files import pack
from parts.part_files import PartContent, encode_small_files, version_of
from parts.part_metadata import ColumnsFile, MinMax
from parts.partition import partition_id
from parts.pool import map_parallel
from parts.schema import Column, TableDescription
from parts.types import DataType
from parts.value_file import plain_array, plain_type

__all__ = ["PartWriter", "PartitionBlock", "WrittenPart", "sort_block", "split_by_partition", "write_part"]

WINDOW_ROWS = 131_072
WINDOW_BYTES = 64 * 1024 * 1024
_SMALL_ROWS = 2_000


@dataclass(frozen=True)
class WrittenPart:
    """A finished part that has no name yet."""

    path: Path
    partition_id: str
    rows: int
    part_type: str
    content_hash: str
    checksums: Checksums
    bytes_on_disk: int

    @property
    def data_uncompressed_bytes(self) -> int:
        return self.checksums.uncompressed_bytes


def write_part(
    directory: Path,
    block: pa.Table,
    description: TableDescription,
    values: Sequence[object],
    *,
    part_uuid: uuid.UUID | None = None,
) -> WrittenPart:
    """Writes one sorted block of one partition as a part in ``directory`` (an empty or new directory)."""
    block = conform_block(block, description.schema)
    size = _expected_bytes(block, description.settings.min_bytes_for_wide_part)
    writer = PartWriter(
        directory, description, values, expected_bytes=size, expected_rows=block.num_rows, part_uuid=part_uuid
    )
    try:
        writer.append_conformed(block)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


class PartWriter:
    """Streams sorted blocks into a part. ``expected_bytes`` and ``expected_rows`` choose compact or wide."""

    def __init__(
        self,
        directory: Path,
        description: TableDescription,
        values: Sequence[object],
        *,
        expected_bytes: int | None = None,
        expected_rows: int | None = None,
        part_uuid: uuid.UUID | None = None,
    ) -> None:
        settings = description.settings
        self._directory = Path(directory)
        self._description = description
        self._schema = description.schema.stored
        self._values = _scalars(values, description.partition_key.types)
        self._uuid = part_uuid or uuid.UUID(int=0)
        self._granularity = _granularity(settings.index_granularity, expected_bytes, expected_rows)
        self._is_wide = (expected_bytes is None or expected_bytes >= settings.min_bytes_for_wide_part) and (
            expected_rows is None or expected_rows >= settings.min_rows_for_wide_part
        )
        self._directory.mkdir(parents=True, exist_ok=True)
        fields = list(self._schema.arrow)
        self._columns = [
            ColumnWriter(
                fields[i],
                _column_codec(column, settings.default_compression_codec),
                self._granularity,
            )
            for i, column in enumerate(self._schema.columns)
        ]
        self._opened: list[HashedFile] = []
        self._files = self._open_files()
        self._minmax = MinMax(self._schema, description.partition_key.columns)
        self._index: list[list[pa.Array]] = []
        self._last_row: pa.Table | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0

    def append(self, block: pa.Table) -> None:
        """Adds the next rows in sorting-key order."""
        self.append_conformed(conform_block(block, self._description.schema))

    def append_conformed(self, block: pa.Table) -> None:
        """As :meth:`append` for what ``conform_block`` returned."""
        if not block.num_rows:
            return
        self._minmax.update(block)
        for piece in _pieces(block):
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += piece.nbytes
            while self._pending_rows >= self._window_rows or self._pending_bytes >= WINDOW_BYTES:
                if not self._flush(is_last=False):
                    break

    def finish(self) -> WrittenPart:
        """Writes what is left and all metadata; everything is fsynced."""
        while self._pending_rows:
            self._flush(is_last=True)
        meta = encode_small_files(self._content())
        files = dict.fromkeys(self._files)
        checksums = self._checksums({file.path.name: file for file in files}, meta)
        meta[CHECKSUMS] = checksums.encode()
        for name, data in ({META_FILE: pack(meta)} if not self._is_wide else meta).items():
            small = self._open(name)
            files[small] = None
            small.write([data])
        settings = self._description.settings
        sync_files(
            files if settings.fsync_after_insert else (), self._directory if settings.fsync_part_directory else None
        )
        for file in files:
            file.close()
        return WrittenPart(
            self._directory,
            partition_id(self._values, self._description.partition_key.types),
            self.rows,
            "Wide" if self._is_wide else "Compact",
            checksums.content_hash,
            checksums,
            sum(file.size for file in files),
        )

    def abort(self) -> None:
        """Removes what was written."""
        for file in self._opened:
            file.discard()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _window_rows(self) -> int:
        return max(1, WINDOW_ROWS // self._granularity) * self._granularity

    def _open_files(self) -> list[HashedFile]:
        try:
            if not self._is_wide:
                return [self._open(DATA_FILE)] * len(self._columns)
            return [self._open(column_file(column.name)) for column in self._schema.columns]
        except BaseException:
            self.abort()
            raise

    def _open(self, name: str) -> HashedFile:
        file = HashedFile(self._directory / name)
        self._opened.append(file)
        return file

    def _flush(self, is_last: bool) -> bool:
        """Writes the next window; False when more rows are needed to know where it ends."""
        pending = pa.concat_tables(self._pending) if len(self._pending) > 1 else self._pending[0]
        candidate = pending.slice(0, self._window_rows)
        if not is_last and candidate.num_rows < self._window_rows:
            candidate = candidate.slice(0, candidate.num_rows // self._granularity * self._granularity)
        window = [_contiguous(column) for column in candidate.columns]
        boundaries = np.append(np.arange(0, candidate.num_rows, self._granularity), candidate.num_rows)
        sizes = [content_bytes(column, boundaries) for column in window]
        total = np.cumsum(np.sum(sizes, axis=0)) if sizes else np.zeros(0)
        full = int(np.searchsorted(total, WINDOW_BYTES)) + 1
        granules = len(boundaries) - 1
        if full > granules and not is_last and candidate.num_rows < self._window_rows:
            self._pending = [pending]
            # Arrow's count of bytes may differ from ours: wait for a window's rows or visibly more bytes.
            self._pending_bytes = 0
            return False
        granules = min(full, granules)
        rows = int(boundaries[granules])
        self._write_window([column.slice(0, rows) for column in window], [int(s[:granules].sum()) for s in sizes], rows)
        rest = pending.slice(rows)
        self._pending = [rest] if rest.num_rows else []
        self._pending_rows = rest.num_rows
        self._pending_bytes = rest.nbytes
        return True

    def _write_window(self, window: list[pa.Array], sizes: list[int], rows: int) -> None:
        self._note_keys(window, rows)

        def encode_and_place(position: int) -> None:
            writer = self._columns[position]
            writer.place(writer.encode(window[position], sizes[position]), self._files[position])

        positions = range(len(window))
        if rows <= _SMALL_ROWS:
            for position in positions:
                encode_and_place(position)
        elif self._is_wide:
            map_parallel(encode_and_place, positions)
        else:
            frames = map_parallel(lambda i: self._columns[i].encode(window[i], sizes[i]), positions)
            for writer, encoded, file in zip(self._columns, frames, self._files, strict=True):
                writer.place(encoded, file)
        self.rows += rows

    def _note_keys(self, window: list[pa.Array], rows: int) -> None:
        """Keeps the sorting key of the first row of every granule, and the last row seen."""
        key = self._description.sorting_key
        if not key:
            return
        block = pa.Table.from_arrays(window, schema=self._schema.arrow).select(list(dict.fromkeys(key.columns)))
        firsts = block.take(pa.array(np.arange(0, rows, self._granularity)))
        self._index.append(self._plain_keys(firsts))
        self._last_row = block.slice(rows - 1, 1)

    def _plain_keys(self, block: pa.Table) -> list[pa.Array]:
        key = self._description.sorting_key
        return [plain_array(array, type_) for array, type_ in zip(key.evaluate(block), key.types, strict=True)]

    def _content(self) -> PartContent:
        key = self._description.sorting_key
        if self._last_row is not None:
            self._index.append(self._plain_keys(self._last_row))
        index = [
            pa.concat_arrays([entry[k] for entry in self._index]) if self._index else _empty(t)
            for k, t in enumerate(key.types)
        ]
        partition = self._description.partition_key
        return PartContent(
            columns=ColumnsFile(self._schema, self._granularity, key.expressions),
            rows=self.rows,
            partition=[
                (text, type_, pa.array([value], plain_type(type_).arrow))
                for text, type_, value in zip(partition.expressions, partition.types, self._values, strict=True)
            ],
            minmax=self._minmax.entries() if self.rows else [],
            primary_index=list(zip(key.expressions, key.types, index, strict=True)),
            marks=[column.marks() for column in self._columns],
            part_uuid=self._uuid,
            metadata_version=self._description.metadata_version,
        )

    def _checksums(self, data: dict[str, HashedFile], meta: dict[str, bytes]) -> Checksums:
        files = {name: file.checksum for name, file in data.items()}
        files |= {name: _checksum(content) for name, content in meta.items()}
        columns = {writer.field.name: (writer.stored_bytes, writer.uncompressed_bytes) for writer in self._columns}
        fields = [writer.field for writer in self._columns]
        content = combine(fields, [writer.hasher.digest() for writer in self._columns], self.rows)
        return Checksums(files, content, sum(raw for _, raw in columns.values()), columns, version_of(files))


def _granularity(rows_wanted: int, expected_bytes: int | None, expected_rows: int | None) -> int:
    """Rows in a granule: those of the settings, halved as long as a granule of average rows would exceed a window.

    A granule is never divided, so with rows of 300 KB one of 8192 would be more than a string array can hold.
    """
    granularity = rows_wanted
    if expected_bytes and expected_rows and expected_bytes > WINDOW_BYTES:
        while granularity > 1 and expected_bytes * granularity > WINDOW_BYTES * expected_rows:
            granularity //= 2
    return granularity


def _pieces(block: pa.Table) -> list[pa.Table]:
    """The block; one of many windows in pieces, because a window must fit one array."""
    if block.nbytes <= 4 * WINDOW_BYTES:
        return [block]
    step = max(1, block.num_rows * WINDOW_BYTES // block.nbytes)
    return [block.slice(start, step) for start in range(0, block.num_rows, step)]


def _expected_bytes(block: pa.Table, limit: int) -> int:
    """Uncompressed bytes of the block; roughly when certainly below ``limit`` (Arrow packs bools 8 to a byte)."""
    rough = block.nbytes
    if rough * 8 < limit:
        return rough
    chunks = [chunk for column in block.columns for chunk in column.chunks]
    return sum(int(content_bytes(chunk, np.array([0, len(chunk)]))[0]) for chunk in chunks)


def _checksum(data: bytes) -> FileChecksum:
    return FileChecksum(len(data), xxhash.xxh3_128_hexdigest(data))


def _empty(type_: DataType) -> pa.Array:
    return pa.nulls(0, plain_type(type_).arrow)


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    return pa.concat_arrays(column.chunks)


def _scalars(values: Sequence[object], types: Sequence[DataType]) -> tuple[pa.Scalar, ...]:
    """Partition values as plain scalars; Python values are accepted too."""
    scalars = []
    for value, type_ in zip(values, types, strict=True):
        target = plain_type(type_).arrow
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, target)
        scalars.append(scalar if scalar.type == target else scalar.cast(target))
    return tuple(scalars)


@functools.lru_cache(maxsize=4096)
def _column_codec(column: Column, default: str) -> Codec:
    return parse_codec(column.codec, column.type, default)
