"""The Ordinary merge: all rows of the sources, stably sorted; with DEDUPLICATE the first of equal rows only.

Slices (``parts.merge.slices``) are prepared on a few threads ahead of the one that appends them to the writer in key
order, so memory is bounded by a few slices. A slice fed by one source, or whose sources follow each other, is copied
without sorting. The output depends on the rows and their order alone: every replica writes the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from parts.blocks import sort_by_key
from parts.errors import CancelledError, UserError
from parts.merge.deduplicate import drop_duplicates
from parts.merge.slices import Slice, plan_slices
from parts.primary_index import MarkRange
from parts.reader import Part
from parts.schema import TableDescription
from parts.writer import PartWriter, WrittenPart

TARGET_SLICE_ROWS = 512 * 1024
TARGET_SLICE_BYTES = 64 * 1024 * 1024
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
    deduplicate: bool = False,
    deduplicate_by: Sequence[str] = (),
    is_cancelled: Callable[[], bool] = lambda: False,
    on_progress: Callable[[MergeProgress], None] | None = None,
    target_slice_rows: int | None = None,
) -> WrittenPart:
    """Merges ``sources`` (of one partition, in block order) into a new part in ``directory``.

    ``deduplicate_by`` are column names (all columns when empty). Raises ``CancelledError``; then, and on any other
    error, ``directory`` is removed.
    """
    assert sources, "a merge has sources"
    if description.merge_mode != "Ordinary":
        raise UserError("NOT_IMPLEMENTED", f"Merging in mode {description.merge_mode} is not supported yet")
    total_rows = sum(source.rows for source in sources)
    writer = PartWriter(
        directory,
        description,
        [array[0] for _, _, array in sources[0].partition_arrays],
        expected_bytes=sum(source.data_uncompressed_bytes for source in sources),
        expected_rows=total_rows,
    )
    run = _MergeRun(sources, description, deduplicate, tuple(deduplicate_by))
    rows_read = 0
    try:
        for rows, blocks in run.slices(target_slice_rows or _target_rows(sources), is_cancelled):
            for block in blocks:
                _stop_if(is_cancelled)
                writer.append(block)
            rows_read += rows
            if on_progress is not None:
                on_progress(MergeProgress(rows_read, writer.rows, total_rows))
        _stop_if(is_cancelled)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _stop_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise CancelledError("Merge was cancelled")


def _target_rows(sources: Sequence[Part]) -> int:
    rows = sum(source.rows for source in sources)
    size = sum(source.data_uncompressed_bytes for source in sources)
    return max(1, min(TARGET_SLICE_ROWS, TARGET_SLICE_BYTES * rows // max(size, 1)))


class _MergeRun:
    """One merge's slices, prepared ahead."""

    def __init__(
        self, sources: Sequence[Part], description: TableDescription, deduplicate: bool, deduplicate_by: tuple[str, ...]
    ) -> None:
        self._sources = sources
        self._description = description
        self._deduplicate = deduplicate
        self._deduplicate_by = deduplicate_by
        self._columns = list(description.schema.stored.names)

    def slices(self, target_rows: int, is_cancelled: Callable[[], bool]) -> Iterator[tuple[int, list[pa.Table]]]:
        """(rows read, sorted blocks) of every slice in key order."""
        if not self._description.sorting_key and not self._deduplicate:
            yield from self._concatenated()
            return
        plan = plan_slices(self._sources, self._description.sorting_key, target_rows)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="merge") as threads:
            waiting: deque[tuple[Slice, Future[pa.Table] | None]] = deque()
            try:
                for item in plan:
                    _stop_if(is_cancelled)
                    is_streamed = item.is_one_key and not self._deduplicate
                    waiting.append((item, None if is_streamed else threads.submit(self._prepare, item)))
                    if len(waiting) > _THREADS:
                        yield from self._finished(*waiting.popleft(), target_rows)
                while waiting:
                    yield from self._finished(*waiting.popleft(), target_rows)
            finally:
                for _, future in waiting:
                    if future is not None:
                        future.cancel()

    def _finished(
        self, item: Slice, future: Future[pa.Table] | None, target_rows: int
    ) -> Iterator[tuple[int, list[pa.Table]]]:
        """A prepared slice; one of a single key is in order source by source, and is copied in bounded steps."""
        if future is not None:
            yield item.rows, [future.result()]
            return
        for source, begin, end in zip(self._sources, item.begins, item.ends, strict=True):
            for start in range(begin, end, target_rows):
                table = read_rows(source, self._columns, start, min(start + target_rows, end))
                yield table.num_rows, [table]

    def _concatenated(self) -> Iterator[tuple[int, list[pa.Table]]]:
        """Without a sorting key the order is that of the sources."""
        for source in self._sources:
            for batch in source.read(self._columns):
                yield batch.num_rows, [pa.Table.from_batches([batch])]

    def _prepare(self, item: Slice) -> pa.Table:
        tables = [
            read_rows(source, self._columns, begin, end)
            for source, begin, end in zip(self._sources, item.begins, item.ends, strict=True)
            if end > begin
        ]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if len(tables) > 1:
            table = sort_by_key(table, self._description.sorting_key)
        return drop_duplicates(table, self._deduplicate_by or self._columns) if self._deduplicate else table


def read_rows(source: Part, columns: Sequence[str], begin: int, end: int) -> pa.Table:
    """Rows ``begin`` to ``end - 1``."""
    first = begin // source.granularity
    last = -(-end // source.granularity)
    table = pa.Table.from_batches(list(source.read(columns, [MarkRange(first, last)])))
    return table.slice(begin - first * source.granularity, end - begin)
