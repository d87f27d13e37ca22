"""Run a merge: slices of all sources, each sorted and reduced by the table's mode, in key order.

A few threads prepare slices (``parts.merge.slice_plan``) ahead of their consumer. So memory is bounded by a few slices
and the rows of the sources decoded beyond them (``parts.merge.source_reader``). A key with more rows than a slice may
have comes in blocks and is reduced as a stream. A slice of one source is not sorted. The output depends only on the
rows and their order: every replica writes the same bytes.

:func:`merge_parts` appends the blocks to a writer; ``parts.merge.final_read`` passes them to a reader.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks, decode_dictionary_columns, encode_repetitive_columns
from parts.common import thread_pool
from parts.common.errors import CancelledError, UnavailableError
from parts.merge.last_writer import ConflictCounter, LastWriter, OldestTombstone
from parts.merge.slice_plan import Slice, plan_slices
from parts.merge.source_reader import SourceReader
from parts.merge.ttl_expiry import apply_ttl
from parts.merge.written_columns import describe_written_columns
from parts.read.part_reader import Part
from parts.table.block_number_column import describe_merge_result
from parts.table.merge_mode import MergeMode, SortedRows
from parts.table.row_exists_column import ROW_EXISTS_COLUMN
from parts.table.row_version import (
    MIXED_PLACES,
    NO_ROW_VERSION,
    RowVersion,
    combine_row_versions,
    make_row_place_columns,
    make_row_version_columns,
)
from parts.table.table_description import TableDescription, TableSchema
from parts.table.ttl_rules import TtlCollector
from parts.types import LowCardinalityType
from parts.write.block_preparation import sort_block_by_key
from parts.write.part_writer import PartWriter, WrittenPart

TARGET_SLICE_ROWS = 1024 * 1024
TARGET_SLICE_BYTES = 64 * 1024 * 1024
DENSE_ENCODING_MIN_BYTES = 100 * 1024 * 1024
"""Uncompressed bytes from which on a merged part is encoded densely. ClickHouse uses ZSTD(3) for merged parts whose
sources have that many bytes on disk, but replicas may differ in bytes on disk."""
_THREADS = 2


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """The progress of a merge, as ``system.merges`` shows it."""

    rows_read: int
    rows_written: int
    total_rows: int

    @property
    def fraction(self) -> float:
        """The progress from 0 to 1."""
        return self.rows_read / self.total_rows if self.total_rows else 1.0


def merge_parts(
    sources: Sequence[Part],
    directory: Path,
    description: TableDescription,
    *,
    mode: MergeMode | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    on_progress: Callable[[MergeProgress], None] | None = None,
    target_slice_rows: int | None = None,
    expire_at: int = 0,
) -> WrittenPart:
    """Merges ``sources`` (of one partition, in block order) into a new part in ``directory``.

    ``mode`` is the table's unless another is given. Rows that have expired at the time ``expire_at`` are removed; 0:
    none. Raises ``CancelledError``; then, and on any other error, ``directory`` is removed. Raises ``UnavailableError``
    342 (METADATA_MISMATCH) for a source that was written under a newer schema: it may have columns that the result
    would lose.
    """
    assert sources, "a merge has sources"
    _check_schema_is_known(sources, description)
    description, version = _describe_result(sources, description)
    has_versions, ttl = description.merge_mode.has_row_versions, description.ttl
    facts = [source.get_applicable_ttl(ttl) for source in sources]
    expires = bool(expire_at) and any(ttl.may_have_expired(known, expire_at) for known in facts)
    whole = ttl.combine_parts(facts)
    codec = ttl.choose_codec(whole, expire_at) if expire_at else whole.codec
    mode = mode or description.merge_mode
    conflicts, tombstones = ConflictCounter(), OldestTombstone()
    if isinstance(mode, LastWriter):
        mode = mode.count_conflicts(conflicts)
    all_sources = sources
    if expires:  # fully expired parts are not read
        expired = [ttl.has_every_row_expired(known, expire_at) for known in facts]
        sources = [source for source, is_gone in zip(sources, expired, strict=True) if not is_gone]
    total_rows, total_bytes = sum(each.rows for each in sources), sum(each.data_uncompressed_bytes for each in sources)
    expired_at = expire_at if expires else 0
    is_wide = description.settings.is_wide(total_bytes, total_rows)
    written = describe_written_columns(all_sources, facts, description, mode, expired_at, is_wide=is_wide)
    writer = PartWriter(
        directory,
        written,
        [array[0] for _, _, array in all_sources[0].partition_arrays],
        expected_bytes=total_bytes,
        expected_rows=total_rows,
        is_dense=total_bytes >= DENSE_ENCODING_MIN_BYTES and not codec,
        with_dictionaries=True,
        ttl=TtlCollector(ttl, expired_at or None, codec, None if expires else whole),
        row_version=version,
    )
    run = _start_run(sources, description, mode, is_cancelled)
    target = target_slice_rows or choose_slice_rows(sources)
    try:
        blocks = run.read_blocks(plan_slices(sources, description.sorting_key, target), target)
        for block in apply_ttl(blocks, description, expire_at) if expires else blocks:
            _stop_if(is_cancelled)
            if has_versions:
                tombstones.add(block)
            writer.append_conformed(block.select(written.schema.stored.names))
            if on_progress is not None:
                on_progress(MergeProgress(run.rows_read, writer.rows, total_rows))
        _stop_if(is_cancelled)
        if has_versions:
            writer.row_version = replace(
                writer.row_version, conflicts=conflicts.rows, tombstones=_note_tombstones(description, tombstones)
            )
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _describe_result(sources: Sequence[Part], description: TableDescription) -> tuple[TableDescription, RowVersion]:
    """Returns what the merged part has: the table's columns and hidden ones, and the version of its rows."""
    description = describe_merge_result(description, [(source.name, source.schema) for source in sources])
    if description.merge_mode.has_row_versions:
        description = _add_row_versions(description, has_deleted=any(source.has_deleted_rows for source in sources))
    version = _combine_versions(sources, description)
    if version.has_places:
        columns = *description.schema.stored.columns, *make_row_place_columns()
        description = replace(description, schema=TableSchema(columns))
    return description, version


def _start_run(
    sources: Sequence[Part], description: TableDescription, mode: MergeMode, is_cancelled: Callable[[], bool]
) -> SliceReducer:
    columns, with_deleted = description.schema.stored.names, description.merge_mode.has_row_versions
    rows = [
        SourceReader(source, columns, len(sources), with_dictionaries=True, with_deleted=with_deleted)
        for source in sources
    ]
    return SliceReducer(rows, description, mode, is_cancelled, with_dictionaries=True)


def _combine_versions(sources: Sequence[Part], description: TableDescription) -> RowVersion:
    """Returns the version of the merged part. It keeps the rows' places if one of the sources knows them."""
    if description.merge_mode.has_row_versions:
        return combine_row_versions(source.row_version for source in sources)
    if not any(source.row_version.has_places for source in sources):
        return NO_ROW_VERSION
    return MIXED_PLACES


def _add_row_versions(description: TableDescription, *, has_deleted: bool) -> TableDescription:
    """Adds the columns of versions, and the mark of deleted rows, which stay as long as an older row may come."""
    marks = [ROW_EXISTS_COLUMN] if has_deleted else []
    columns = (*description.schema.stored.columns, *make_row_version_columns(), *marks)
    return replace(description, schema=TableSchema(columns))


def _note_tombstones(description: TableDescription, found: OldestTombstone) -> int | None:
    """Returns what the version of a merged part says of tombstones: nothing if the part marks no row as deleted."""
    return found.commit_time if ROW_EXISTS_COLUMN.name in description.schema else None


def _check_schema_is_known(sources: Sequence[Part], description: TableDescription) -> None:
    for source in sources:
        if source.metadata_version > description.metadata_version:
            raise UnavailableError(
                "METADATA_MISMATCH",
                f"Part {source.name} was written under schema version {source.metadata_version}, this replica has "
                f"applied {description.metadata_version}: merge again when the ALTER is applied",
            )


def _computed_from(description: TableDescription) -> set[str]:
    """Returns the string columns that key expressions compute from: these need plain strings."""
    key, schema = description.sorting_key, description.schema
    if set(key.columns) == set(key.expressions):
        return set()
    return {name for name in key.columns if not isinstance(schema.column(name).type, LowCardinalityType)}


def _stop_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise CancelledError("Merge was cancelled")


def choose_slice_rows(sources: Sequence[Part]) -> int:
    """Returns the target number of rows of a slice, by rows and bytes."""
    rows = sum(source.rows for source in sources)
    size = sum(source.data_uncompressed_bytes for source in sources)
    return max(1, min(TARGET_SLICE_ROWS, TARGET_SLICE_BYTES * rows // max(size, 1)))


class SliceSource(Protocol):
    """A source of slices, for one thread at a time."""

    def read(self, begin: int, end: int) -> pa.Table | None:
        """Returns the wanted and existing rows ``begin`` to ``end - 1``; ``None`` if none is wanted."""

    def blocks(self, begin: int, end: int, most_rows: int) -> Iterator[pa.Table]:
        """Yields the same rows in blocks of at most ``most_rows``."""


class SliceReducer:
    """Reduces slices of several sources. ``rows_read`` counts the source rows of the blocks so far."""

    def __init__(
        self,
        sources: Sequence[SliceSource],
        description: TableDescription,
        mode: MergeMode,
        is_cancelled: Callable[[], bool],
        *,
        with_dictionaries: bool = False,
    ) -> None:
        self._sources = sources
        self._key = description.sorting_key
        self._mode, self._across = mode.slice_mode, mode.reduce_across_slices
        self._is_cancelled = is_cancelled
        self.rows_read = 0
        self._with_dictionaries = with_dictionaries
        self._computed_from = _computed_from(description) if with_dictionaries else set()
        self._turn = threading.Condition()
        self._next_to_read = 0

    def read_blocks(self, plan: Sequence[Slice], target_rows: int) -> Iterator[pa.Table]:
        """Yields the reduced blocks in key order."""
        return self._across(self._slices(plan, target_rows))

    def _slices(self, plan: Sequence[Slice], target_rows: int) -> Iterator[pa.Table]:
        with thread_pool.make_executor(_THREADS, "merge") as threads:
            waiting: deque[tuple[Slice, Future[pa.Table | None] | None]] = deque()
            turn = itertools.count()
            try:
                for item in plan:
                    _stop_if(self._is_cancelled)
                    future = None if item.is_one_key else threads.submit(self._reduced, item, next(turn))
                    waiting.append((item, future))
                    if len(waiting) > _THREADS:
                        yield from self._finished(*waiting.popleft(), target_rows)
                while waiting:
                    yield from self._finished(*waiting.popleft(), target_rows)
            finally:
                for _, future in reversed(waiting):  # from the last: one whose turn never comes must not begin
                    if future is not None:
                        future.cancel()

    def _finished(self, item: Slice, future: Future[pa.Table | None] | None, target_rows: int) -> Iterator[pa.Table]:
        if future is None:
            yield from self._mode.reduce_one_key(self._streamed(item, target_rows))
            return
        table = future.result()
        self.rows_read += item.rows
        if table is not None:
            yield table

    def _streamed(self, item: Slice, target_rows: int) -> Iterator[pa.Table]:
        """Yields the blocks of a slice of one key, source by source, which is their order."""
        for source, begin, end in zip(self._sources, item.begins, item.ends, strict=True):
            for block in source.blocks(begin, end, target_rows):
                _stop_if(self._is_cancelled)
                self.rows_read += block.num_rows
                yield block

    def _read(self, item: Slice, turn: int) -> list[pa.Table]:
        """Returns the slice's rows of every source that has some.

        Slices are read one after the other, in their order. Jobs start in order too, so a job only waits for running
        ones.
        """
        with self._turn:
            while self._next_to_read != turn:
                self._turn.wait()
        try:
            found = [
                source.read(begin, end)
                for source, begin, end in zip(self._sources, item.begins, item.ends, strict=True)
                if end > begin
            ]
            return [table for table in found if table is not None]
        finally:
            with self._turn:
                self._next_to_read += 1
                self._turn.notify_all()

    def _reduced(self, item: Slice, turn: int) -> pa.Table | None:
        tables = self._read(item, turn)
        if not tables:
            return None
        table = concat_blocks(tables)
        if not table.num_rows:  # a lightweight DELETE took them all
            return table
        table = decode_dictionary_columns(table, self._computed_from)
        if len(tables) > 1:
            if self._with_dictionaries:
                table = encode_repetitive_columns(table, self._computed_from)
            table = sort_block_by_key(table, self._key)
        return self._mode.reduce(SortedRows(table, self._key.evaluate))
