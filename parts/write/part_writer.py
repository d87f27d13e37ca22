"""Writing a part: sorted blocks in, a directory of fsynced files out.

Rows are cut into *windows*: whole granules, about 131072 rows, fewer when they hold 64 MiB. The ends of windows and
frames depend only on the rows, never on how they were appended, so every replica writes the same bytes. Columns of a
window are hashed, encoded and (in wide parts) written in parallel.

Invariants
- Blocks come in sorting-key order, within and across calls (the caller's duty; not checked again).
- At most one window and one block are in memory.
- A part of long rows has granules of fewer rows than others (``parts.write.index_granularity``); every part stores its
  granularity.
- After ``finish`` all files and the directory are fsynced (``fsync_after_insert``); after ``abort`` the directory is
  removed.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks, count_text_bytes
from parts.blocks.partition_ids import compute_partition_id
from parts.common.thread_pool import map_parallel
from parts.format.array_file import to_plain_array
from parts.format.checksums import Checksums
from parts.format.columns_file import ColumnsFile, MinMaxCollector
from parts.format.file_names import DATA_FILE, META_FILE, get_column_file_name
from parts.format.flat_arrays import count_content_bytes
from parts.format.hashed_file import HashedFile, InMemoryFile, sync_files
from parts.format.packed_metadata import pack_files
from parts.format.part_files import PartMetadata
from parts.skip_indexes.index_builder import SkipIndexBuilder
from parts.table.row_version import NO_ROW_VERSION, RowVersion
from parts.table.table_description import PartSettings, TableDescription
from parts.table.ttl_rules import TtlCollector
from parts.types import DataType, strip_low_cardinality
from parts.write.block_preparation import conform_block
from parts.write.column_writer import ColumnWriter, make_encoders, parse_codecs
from parts.write.index_granularity import choose_granularity
from parts.write.part_summary import WrittenColumns, compute_checksum, encode_metadata
from parts.write.small_part import encode_small_part, make_partition_arrays, to_contiguous_array

WINDOW_ROWS = 131_072
WINDOW_BYTES = 64 * 1024 * 1024
_SMALL_ROWS = 2_000
_NIL = uuid.UUID(int=0)


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
    meta: bytes = b""
    """The bytes of a packed part's ``meta.bin``, with which it can be opened without reading it."""

    @property
    def data_uncompressed_bytes(self) -> int:
        """The uncompressed size of all columns."""
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
    settings = description.settings
    size = _expected_bytes(block, settings)
    is_packed = not settings.is_wide(size, block.num_rows) and size < settings.min_bytes_for_full_part_storage
    granularity = choose_granularity(settings, description.schema.stored, block.num_rows, size, WINDOW_BYTES)
    if is_packed and 0 < block.num_rows <= granularity:
        return _write_small_part(Path(directory), block, description, values, part_uuid or _NIL, granularity)
    writer = PartWriter(
        directory, description, values, expected_bytes=size, expected_rows=block.num_rows, part_uuid=part_uuid
    )
    try:
        writer.append_conformed(block)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _write_small_part(
    directory: Path,
    block: pa.Table,
    description: TableDescription,
    values: Sequence[object],
    part_uuid: uuid.UUID,
    granularity: int,
) -> WrittenPart:
    settings = description.settings
    partition = _scalars(values, description.partition_key.types)
    codecs = parse_codecs(description.schema.stored, settings.default_compression_codec)
    packed, checksums = encode_small_part(block, description, partition, codecs, part_uuid, granularity)
    try:
        file = HashedFile(directory / META_FILE)
    except FileNotFoundError:
        directory.mkdir(parents=True)
        file = HashedFile(directory / META_FILE)
    try:
        file.write([packed])
        sync_files([file] if settings.fsync_after_insert else (), directory if settings.fsync_part_directory else None)
        file.close()
    except BaseException:
        file.discard()
        shutil.rmtree(directory, ignore_errors=True)
        raise
    id_ = compute_partition_id(partition, description.partition_key.types)
    content_hash = checksums.content_hash
    return WrittenPart(directory, id_, block.num_rows, "Compact", content_hash, checksums, len(packed), packed)


class PartWriter:
    """Streams sorted blocks into a part. ``expected_bytes`` and ``expected_rows`` choose compact or wide.

    With ``is_dense`` columns of the default codec are encoded densely (``parts.format.codecs.dense_encoder``).
    ``with_dictionaries`` stores repetitive strings as ``parts.blocks.dictionary_strings``. ``ttl`` collects the times
    at which the rows expire, and names the default codec if it is not the table's. ``row_version`` is that of the rows.
    """

    def __init__(
        self,
        directory: Path,
        description: TableDescription,
        values: Sequence[object],
        *,
        expected_bytes: int | None = None,
        expected_rows: int | None = None,
        part_uuid: uuid.UUID | None = None,
        is_dense: bool = False,
        with_dictionaries: bool = False,
        ttl: TtlCollector | None = None,
        row_version: RowVersion = NO_ROW_VERSION,
    ) -> None:
        settings = description.settings
        self._directory = Path(directory)
        self._description = description
        self._schema = description.schema.stored
        self._values = _scalars(values, description.partition_key.types)
        self._uuid = part_uuid or _NIL
        self.row_version = row_version
        self._granularity = choose_granularity(
            settings, self._schema, expected_rows or 0, expected_bytes or 0, WINDOW_BYTES
        )
        self._is_wide = settings.is_wide(expected_bytes, expected_rows)
        limit = settings.min_bytes_for_full_part_storage
        is_packed = not self._is_wide and expected_bytes is not None and expected_bytes < limit
        self._directory.mkdir(parents=True, exist_ok=True)
        self._ttl = ttl or TtlCollector(description.ttl.limit_to_columns(self._schema.names))
        encoders = make_encoders(self._schema, self._ttl.codec or settings.default_compression_codec, is_dense)
        self._columns = [
            ColumnWriter(field, encoder, self._granularity, with_dictionaries=with_dictionaries)
            for field, encoder in zip(self._schema.arrow, encoders, strict=True)
        ]
        self._opened: list[HashedFile] = []
        self._packed = InMemoryFile(DATA_FILE) if is_packed else None
        self._files = self._open_files()
        self._minmax = MinMaxCollector(self._schema, description.partition_key.columns)
        self._index: list[list[pa.Array]] = []
        self._skip_indexes = SkipIndexBuilder(description.indexes, self._schema, self._granularity)
        self._packed_files: dict[str, bytes] = {}
        self._last_row: pa.Table | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0

    def append(self, block: pa.Table) -> None:
        """Adds the next rows in sorting-key order."""
        self.append_conformed(conform_block(block, self._description.schema))

    def append_conformed(self, block: pa.Table) -> None:
        """Appends a result of ``conform_block``; strings may be ``parts.blocks.dictionary_strings``."""
        if not block.num_rows:
            return
        self._minmax.update(block)
        self._ttl.update(block)
        for piece in _pieces(block):
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += piece.nbytes
            while self._pending_rows >= self._window_rows or self._pending_bytes >= WINDOW_BYTES:
                if not self._flush(is_last=False):
                    break

    def finish(self) -> WrittenPart:
        """Writes the remaining rows and all metadata. Everything is fsynced."""
        return self.finish_with_columns(self.finish_columns())

    def finish_columns(self) -> WrittenColumns:
        """Writes the remaining rows of the columns."""
        while self._pending_rows:
            self._flush(is_last=True)
        for name, data in self._skip_indexes.encode_files().items():
            self.add_file(name, data)
        sums = {file.path.name: file.checksum for file in self._opened}
        if self._packed is not None:
            self._packed_files[DATA_FILE] = self._packed.content
            sums = {name: compute_checksum(content) for name, content in self._packed_files.items()}
        facts = [writer.summarize() for writer in self._columns]
        return WrittenColumns(self._content(), facts, sums)

    def add_file(self, name: str, data: bytes) -> None:
        """Adds another file to the part, before :meth:`finish_columns`."""
        if self._packed is None:
            self._open(name).write([data])
        else:
            self._packed_files[name] = data

    def finish_with_columns(self, columns: WrittenColumns) -> WrittenPart:
        """Writes all metadata and fsyncs everything.

        Files of some ``columns`` may be links made by the caller.
        """
        meta, checksums = encode_metadata(columns, is_packed=self._packed is not None, is_wide=self._is_wide)
        packed = pack_files(meta | self._packed_files) if not self._is_wide else b""
        for name, data in {META_FILE: packed}.items() if packed else meta.items():
            self._open(name).write([data])
        settings = self._description.settings
        directory = self._directory if settings.fsync_part_directory else None
        sync_files(self._opened if settings.fsync_after_insert else (), directory)
        for file in self._opened:
            file.close()
        return WrittenPart(
            self._directory,
            compute_partition_id(self._values, self._description.partition_key.types),
            self.rows,
            "Wide" if self._is_wide else "Compact",
            checksums.content_hash,
            checksums,
            sum(file.size for file in self._opened),
            packed if self._packed is not None else b"",
        )

    def abort(self) -> None:
        """Removes everything written."""
        for file in self._opened:
            file.discard()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _window_rows(self) -> int:
        return max(1, WINDOW_ROWS // self._granularity) * self._granularity

    def _open_files(self) -> Sequence[HashedFile | InMemoryFile]:
        if self._packed is not None:
            return [self._packed] * len(self._columns)
        try:
            if not self._is_wide:
                return [self._open(DATA_FILE)] * len(self._columns)
            return [self._open(get_column_file_name(column.name)) for column in self._schema.columns]
        except BaseException:
            self.abort()
            raise

    def _open(self, name: str) -> HashedFile:
        file = HashedFile(self._directory / name)
        self._opened.append(file)
        return file

    def _flush(self, is_last: bool) -> bool:
        """Writes the next window. Returns ``False`` when more rows are needed to find its end."""
        pending = concat_blocks(self._pending)
        candidate = pending.slice(0, self._window_rows)
        if not is_last and candidate.num_rows < self._window_rows:
            candidate = candidate.slice(0, candidate.num_rows // self._granularity * self._granularity)
        window = [to_contiguous_array(column) for column in candidate.columns]
        boundaries = np.append(np.arange(0, candidate.num_rows, self._granularity), candidate.num_rows)
        sizes = [
            count_text_bytes(column, boundaries)
            if column.type != field.type
            else count_content_bytes(column, boundaries)
            for column, field in zip(window, self._schema.arrow, strict=True)
        ]
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
        block = pa.Table.from_arrays(window, self._schema.names)
        self._note_keys(block)
        self._skip_indexes.add(block)

        def encode_and_place(position: int) -> None:
            """Encodes and writes one column of the window."""
            writer = self._columns[position]
            writer.write_frames(writer.encode(window[position], sizes[position]), self._files[position])

        if rows <= _SMALL_ROWS:
            list(map(encode_and_place, range(len(window))))
        elif self._is_wide:
            map_parallel(encode_and_place, range(len(window)))
        else:
            frames = map_parallel(lambda i: self._columns[i].encode(window[i], sizes[i]), range(len(window)))
            for writer, encoded, file in zip(self._columns, frames, self._files, strict=True):
                writer.write_frames(encoded, file)
        self.rows += rows

    def _note_keys(self, block: pa.Table) -> None:
        """Keeps the sorting key of the first row of every granule, and the last row seen."""
        key = self._description.sorting_key
        if not key:
            return
        block = block.select(list(dict.fromkeys(key.columns)))
        firsts = block.take(pa.array(np.arange(0, block.num_rows, self._granularity)))
        self._index.append(self._plain_keys(firsts))
        self._last_row = block.slice(block.num_rows - 1, 1)

    def _plain_keys(self, block: pa.Table) -> list[pa.Array]:
        key = self._description.sorting_key
        block = block.cast(pa.schema([self._schema.arrow.field(name) for name in block.column_names]))
        return [to_plain_array(array, type_) for array, type_ in zip(key.evaluate(block), key.types, strict=True)]

    def _content(self) -> PartMetadata:
        key = self._description.sorting_key
        if self._last_row is not None:
            self._index.append(self._plain_keys(self._last_row))
        index = [
            pa.concat_arrays([entry[k] for entry in self._index]) if self._index else _empty(t)
            for k, t in enumerate(key.types)
        ]
        return PartMetadata(
            columns=ColumnsFile(self._schema, self._granularity, key.expressions),
            rows=self.rows,
            partition=make_partition_arrays(self._description.partition_key, self._values),
            minmax=self._minmax.to_named_arrays() if self.rows else [],
            primary_index=list(zip(key.expressions, key.types, index, strict=True)),
            marks=[column.build_marks() for column in self._columns],
            part_uuid=self._uuid,
            metadata_version=self._description.metadata_version,
            ttl=self._ttl.to_part_ttl(),
            row_version=self.row_version,
        )


def _pieces(block: pa.Table) -> list[pa.Table]:
    """Returns the block, cut into pieces if it has many windows: a window must fit one array."""
    if block.nbytes <= 4 * WINDOW_BYTES:
        return [block]
    step = max(1, block.num_rows * WINDOW_BYTES // block.nbytes)
    return [block.slice(start, step) for start in range(0, block.num_rows, step)]


def _expected_bytes(block: pa.Table, settings: PartSettings) -> int:
    """Returns the uncompressed bytes of the block, roughly if that certainly makes no difference.

    Arrow packs 8 bools into a byte, and ClickHouse needs at most twice as much memory for a short text.
    """
    rough = block.nbytes
    limit = min(settings.min_bytes_for_wide_part, (settings.index_granularity_bytes or WINDOW_BYTES) // 2)
    if rough * 8 < limit:
        return rough
    chunks = [chunk for column in block.columns for chunk in column.chunks]
    return sum(int(count_content_bytes(chunk, np.array([0, len(chunk)]))[0]) for chunk in chunks)


def _empty(type_: DataType) -> pa.Array:
    return pa.nulls(0, strip_low_cardinality(type_).arrow)


def _scalars(values: Sequence[object], types: Sequence[DataType]) -> tuple[pa.Scalar, ...]:
    """Returns partition values as plain scalars. Python values are accepted too."""
    scalars = []
    for value, type_ in zip(values, types, strict=True):
        target = strip_low_cardinality(type_).arrow
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, target)
        scalars.append(scalar if scalar.type == target else scalar.cast(target))
    return tuple(scalars)
