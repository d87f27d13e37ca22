"""Read the rows of one source of a merge, slice after slice.

A slice needs a few rows of every source, but a frame is decoded whole. So a source is read in chunks, and the rest of a
chunk is kept for the next slice. Without that, with dozens of sources every frame was decoded for a dozen slices.

Invariants

- One thread at a time reads a source (the merge's duty). Slices may be read in any order; their own order is fastest.
- All sources of a merge together keep at most about ``MAX_KEPT_BYTES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks
from parts.format.primary_index import MarkRange
from parts.read.batch_plan import RowRange
from parts.read.part_reader import Part
from parts.table.row_exists_column import ROW_EXISTS, get_existing_rows

MAX_KEPT_BYTES = 256 * 1024 * 1024
CHUNK_ROWS = 131_072
"""The most rows of a frame (``parts.write.part_writer``)."""


class SourceReader:
    """Reads ``columns`` of one of ``sources`` sources, without deleted rows unless ``with_deleted``."""

    def __init__(
        self,
        source: Part,
        columns: Sequence[str],
        sources: int,
        *,
        chunk_rows: int = CHUNK_ROWS,
        with_dictionaries: bool = False,
        with_deleted: bool = False,
    ) -> None:
        self._source = source
        self._is_filtered = source.has_deleted_rows and not with_deleted
        self._with_deleted = with_deleted
        self._columns = [*columns, ROW_EXISTS] if self._is_filtered else list(columns)
        self._with_dictionaries = with_dictionaries
        row_bytes = source.data_uncompressed_bytes // max(source.rows, 1) + 1
        granules = min(chunk_rows, MAX_KEPT_BYTES // sources // row_bytes) // source.granularity
        self._chunk_rows = granules * source.granularity
        self._kept: pa.Table | None = None
        self._kept_from = 0

    def read(self, begin: int, end: int) -> pa.Table:
        """Returns rows ``begin`` to ``end - 1``. The range is not empty."""
        table = self._read(begin, end)
        if not self._is_filtered:
            return table
        mask = get_existing_rows(table.column(ROW_EXISTS).combine_chunks())
        table = table.drop_columns([ROW_EXISTS])
        return table if mask is None else table.filter(mask)

    def blocks(self, begin: int, end: int, most_rows: int) -> Iterator[pa.Table]:
        """Yields the same rows in blocks of at most ``most_rows``, read without the kept chunk."""
        columns = self._columns[:-1] if self._is_filtered else self._columns
        batches = self._source.read_rows(
            columns,
            [RowRange(begin, end)],
            max_batch_rows=most_rows,
            with_dictionaries=self._with_dictionaries,
            with_deleted=self._with_deleted,
        )
        return (pa.Table.from_batches([batch]) for batch in batches)

    def _read(self, begin: int, end: int) -> pa.Table:
        kept, self._kept = self._kept, None
        tables: list[pa.Table] = []
        position = begin
        if kept is not None and self._kept_from <= begin < self._kept_from + kept.num_rows:
            tables.append(kept.slice(begin - self._kept_from))
            position += tables[0].num_rows
        if position < end:
            tables.append(self._decoded(position, self._end_of_chunk(end)))
        table = concat_blocks(tables)
        if table.num_rows > end - begin:
            self._kept, self._kept_from = table.slice(end - begin), end
        return table.slice(0, end - begin)

    def _end_of_chunk(self, end: int) -> int:
        """Returns the end of the chunk that has the row before ``end``."""
        chunk = self._chunk_rows
        return min(-(-end // chunk) * chunk, self._source.rows) if chunk else end

    def _decoded(self, begin: int, end: int) -> pa.Table:
        granularity = self._source.granularity
        first, last = begin // granularity, -(-end // granularity)
        read = self._source.read(
            self._columns,
            [MarkRange(first, last)],
            with_dictionaries=self._with_dictionaries,
            with_deleted=True,
        )
        table = concat_blocks([pa.Table.from_batches([batch]) for batch in read])
        return table.slice(begin - first * granularity, end - begin)
