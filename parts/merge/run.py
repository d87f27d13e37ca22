"""Runs a merge: slices of all sources, each sorted and reduced by the table's mode, in key order.

Slices (``parts.merge.slices``) are prepared on a few threads ahead of the one that takes them, so memory is bounded by
a few slices and what is decoded of the sources beyond them (``parts.merge.source_rows``); a key of more rows than a
slice may have comes in blocks and is reduced as a stream. A slice fed by one source, or whose sources follow each
other, is not sorted. The output depends on the rows and their order alone: every replica writes the same bytes.

:func:`merge_parts` appends the blocks to a writer; :func:`read_final` hands them to a reader.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from parts import pool
from parts.block_number import merged_description
from parts.blocks import sort_by_key
from parts.errors import CancelledError, UnavailableError
from parts.merge.expiry import expired_out
from parts.merge.slices import Slice, plan_slices
from parts.merge.source_rows import SourceRows
from parts.merge_mode import MergeMode, SortedRows
from parts.read_plan import RowRange
from parts.reader import Part
from parts.repeated_texts import joined, plain_columns, repeated_columns
from parts.schema import Key, TableDescription
from parts.ttl import TtlCollector
from parts.types import LowCardinalityType
from parts.writer import PartWriter, WrittenPart

TARGET_SLICE_ROWS = 1024 * 1024
TARGET_SLICE_BYTES = 64 * 1024 * 1024
DENSE_BYTES = 100 * 1024 * 1024
"""Uncompressed bytes from which on a merged part is stored densely. ClickHouse writes ZSTD(3) into merged parts whose
sources have as many bytes on disk, which replicas need not agree on."""
_THREADS = 2


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """How far a merge is, as ``system.merges`` shows it."""

    rows_read: int
    rows_written: int
    total_rows: int

    @property
    def fraction(self) -> float:
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

    ``mode`` is the table's unless another is given. What has expired at the time ``expire_at`` goes; 0: nothing does.
    Raises ``CancelledError``; then, and on any other error, ``directory`` is removed. Raises ``UnavailableError`` 342
    (METADATA_MISMATCH) for a source that was written under a newer schema: it may have columns that the result would
    lose.
    """
    assert sources, "a merge has sources"
    _check_schema_is_known(sources, description)
    description = merged_description(description, [(source.name, source.schema) for source in sources])
    ttl = description.ttl
    facts = [source.known_ttl(ttl) for source in sources]
    expires = bool(expire_at) and any(ttl.may_have_expired(known, expire_at) for known in facts)
    whole = ttl.together(facts)
    codec = ttl.codec_at(whole, expire_at) if expire_at else whole.codec
    partition = [array[0] for _, _, array in sources[0].partition_arrays]
    if expires:  # what is known to be gone is not read
        sources = [source for source, known in zip(sources, facts, strict=True) if not ttl.is_gone(known, expire_at)]
    total_rows = sum(source.rows for source in sources)
    total_bytes = sum(source.data_uncompressed_bytes for source in sources)
    writer = PartWriter(
        directory,
        description,
        partition,
        expected_bytes=total_bytes,
        expected_rows=total_rows,
        is_dense=total_bytes >= DENSE_BYTES and not codec,
        with_dictionaries=True,
        ttl=TtlCollector(ttl, expire_at if expires else None, codec, None if expires else whole),
    )
    columns = description.schema.stored.names
    run = _MergeRun(
        sources, description.sorting_key, mode or description.merge_mode, columns, is_cancelled,
        with_dictionaries=True, computed_from=_computed_from(description),
    )  # fmt: skip
    try:
        blocks = run.blocks(target_slice_rows or _target_rows(sources))
        for block in expired_out(blocks, description, expire_at) if expires else blocks:
            _stop_if(is_cancelled)
            writer.append_conformed(block)
            if on_progress is not None:
                on_progress(MergeProgress(run.rows_read, writer.rows, total_rows))
        _stop_if(is_cancelled)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def read_final(
    sources: Sequence[Part],
    description: TableDescription,
    columns: Sequence[str],
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    target_slice_rows: int | None = None,
) -> Iterator[pa.Table]:
    """The rows that a merge of ``sources`` would leave, in key order, as blocks of ``columns``: SELECT … FINAL.

    Sources come in the order of their insertion. Raises ``CancelledError``.
    """
    key, mode = description.sorting_key, description.merge_mode
    needed = tuple(dict.fromkeys((*columns, *key.columns, *mode.columns)))
    run = _MergeRun(sources, key, mode, needed, is_cancelled)
    for block in run.blocks(target_slice_rows or _target_rows(sources)):
        yield block.select(list(columns))


def _check_schema_is_known(sources: Sequence[Part], description: TableDescription) -> None:
    for source in sources:
        if source.metadata_version > description.metadata_version:
            raise UnavailableError(
                "METADATA_MISMATCH",
                f"Part {source.name} was written under schema version {source.metadata_version}, this replica has "
                f"applied {description.metadata_version}: merge again when the ALTER is applied",
            )


def _computed_from(description: TableDescription) -> set[str]:
    """The strings that the key computes something of: it wants them as they are stored."""
    key, schema = description.sorting_key, description.schema
    if set(key.columns) == set(key.expressions):
        return set()
    return {name for name in key.columns if not isinstance(schema.column(name).type, LowCardinalityType)}


def _stop_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise CancelledError("Merge was cancelled")


def _target_rows(sources: Sequence[Part]) -> int:
    rows = sum(source.rows for source in sources)
    size = sum(source.data_uncompressed_bytes for source in sources)
    return max(1, min(TARGET_SLICE_ROWS, TARGET_SLICE_BYTES * rows // max(size, 1)))


class _MergeRun:
    """One merge's reduced slices. ``rows_read`` counts the rows of the sources behind the blocks given so far."""

    def __init__(
        self,
        sources: Sequence[Part],
        key: Key,
        mode: MergeMode,
        columns: Sequence[str],
        is_cancelled: Callable[[], bool],
        *,
        with_dictionaries: bool = False,
        computed_from: Collection[str] = (),
    ) -> None:
        self._sources = sources
        self._key = key
        self._mode = mode
        self._columns = list(columns)
        self._is_cancelled = is_cancelled
        self.rows_read = 0
        self._with_dictionaries = with_dictionaries
        self._computed_from = computed_from
        self._rows = [
            SourceRows(source, self._columns, len(sources), with_dictionaries=with_dictionaries) for source in sources
        ]
        self._turn = threading.Condition()
        self._next_to_read = 0

    def blocks(self, target_rows: int) -> Iterator[pa.Table]:
        """In key order."""
        plan = plan_slices(self._sources, self._key, target_rows)
        with pool.threads(_THREADS, "merge") as threads:
            waiting: deque[tuple[Slice, Future[pa.Table] | None]] = deque()
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
                for _, future in reversed(waiting):  # or one might begin whose turn never comes
                    if future is not None:
                        future.cancel()

    def _finished(self, item: Slice, future: Future[pa.Table] | None, target_rows: int) -> Iterator[pa.Table]:
        if future is None:
            yield from self._mode.reduce_one_key(self._streamed(item, target_rows))
            return
        table = future.result()
        self.rows_read += item.rows
        yield table

    def _streamed(self, item: Slice, target_rows: int) -> Iterator[pa.Table]:
        """A slice of one key is in order source by source."""
        for source, begin, end in zip(self._sources, item.begins, item.ends, strict=True):
            batches = source.read_rows(
                self._columns,
                [RowRange(begin, end)],
                max_batch_rows=target_rows,
                with_dictionaries=self._with_dictionaries,
            )
            for batch in batches:
                _stop_if(self._is_cancelled)
                self.rows_read += batch.num_rows
                yield pa.Table.from_batches([batch])

    def _read(self, item: Slice, turn: int) -> list[pa.Table]:
        """The slice's rows of every source that has some. Slices are read one after the other, in their order; jobs
        start in order too, so those that a job waits for are running."""
        with self._turn:
            while self._next_to_read != turn:
                self._turn.wait()
        try:
            return [
                rows.read(begin, end)
                for rows, begin, end in zip(self._rows, item.begins, item.ends, strict=True)
                if end > begin
            ]
        finally:
            with self._turn:
                self._next_to_read += 1
                self._turn.notify_all()

    def _reduced(self, item: Slice, turn: int) -> pa.Table:
        tables = self._read(item, turn)
        table = joined(tables)
        if not table.num_rows:  # a lightweight DELETE took them all
            return table
        table = plain_columns(table, self._computed_from)
        if len(tables) > 1:
            if self._with_dictionaries:
                table = repeated_columns(table, self._computed_from)
            table = sort_by_key(table, self._key)
        return self._mode.reduce(SortedRows(table, self._key.evaluate))
