"""SELECT … FINAL: the rows that a merge would leave, restricted to those that a query may want.

The sources are cut into slices as for a merge (``parts.merge.part_merge``). Only the rows of a slice that pruning left
are read. Pruning keeps all rows of a key or none, so that pruned rows would not have replaced any others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRING, concat_blocks
from parts.merge.part_merge import SliceReducer, choose_slice_rows
from parts.merge.slice_plan import Slice, plan_slices
from parts.merge.source_reader import SourceReader
from parts.read.batch_plan import RowRange
from parts.read.part_reader import Part
from parts.table.table_description import TableDescription

MAX_BLOCK_ROWS = 1 << 18
"""Rows in a block of a part that needs no merging."""


@dataclass(frozen=True)
class FinalSource:
    """A part, the rows to read of it (``None``: all), and constant columns by name."""

    part: Part
    ranges: Sequence[RowRange] | None = None
    constant_columns: dict[str, str] = field(default_factory=dict)
    with_deleted: bool = False
    """Whether deleted rows are read too, for a mode with versions."""

    @property
    def rows(self) -> int:
        """The number of rows to read."""
        return self.part.rows if self.ranges is None else sum(chosen.rows for chosen in self.ranges)

    def blocks(
        self, columns: Sequence[str], begin: int = 0, end: int | None = None, most_rows: int = MAX_BLOCK_ROWS
    ) -> Iterator[pa.Table]:
        """Yields the chosen rows from ``begin`` to ``end - 1``, with constant columns appended."""
        ranges = self.clip_ranges(begin, self.part.rows if end is None else end)
        batches = self.part.read_rows(
            columns, ranges, max_batch_rows=most_rows, with_dictionaries=True, with_deleted=self.with_deleted
        )
        return (self.append_constant_columns(pa.Table.from_batches([batch])) for batch in batches)

    def append_constant_columns(self, table: pa.Table) -> pa.Table:
        """Appends the constant columns."""
        for name, value in self.constant_columns.items():
            indices = pa.array(np.zeros(table.num_rows, np.int32))
            column = pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))
            table = table.append_column(pa.field(name, DICTIONARY_STRING, nullable=False), column)
        return table

    def clip_ranges(self, begin: int, end: int) -> list[RowRange]:
        """Returns the chosen rows from ``begin`` to ``end - 1``."""
        if self.ranges is None:
            return [RowRange(begin, end)]
        cut = [(max(chosen.begin, begin), min(chosen.end, end)) for chosen in self.ranges]
        return [RowRange(first, last) for first, last in cut if first < last]


def read_final(
    sources: Sequence[FinalSource],
    description: TableDescription,
    columns: Sequence[str],
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    target_slice_rows: int | None = None,
) -> Iterator[pa.Table]:
    """Yields the rows that a merge of ``sources`` would leave, in key order, as blocks of ``columns``.

    Sources come in the order of their insertion. Raises ``CancelledError``.
    """
    key, mode = description.sorting_key, description.merge_mode.for_final()
    sources = [replace(source, with_deleted=mode.has_row_versions) for source in sources if source.rows]
    if not sources:
        return
    given = set(sources[0].constant_columns)
    needed = [name for name in dict.fromkeys((*columns, *key.columns, *mode.columns)) if name not in given]
    target = target_slice_rows or choose_slice_rows([source.part for source in sources])
    rows = [_ChosenRows(source, needed, len(sources)) for source in sources]
    run = SliceReducer(rows, description, mode, is_cancelled, with_dictionaries=True)
    for block in run.read_blocks(_slices(sources, description, target), target):
        yield block.select(list(columns))


def _slices(sources: Sequence[FinalSource], description: TableDescription, target: int) -> list[Slice]:
    key, totals = description.sorting_key, tuple(source.part.rows for source in sources)
    if key and sum(source.rows for source in sources) <= target:
        return [Slice(tuple(0 for _ in sources), totals)]
    slices = plan_slices([source.part for source in sources], key, target)
    return [item for item in slices if any(map(FinalSource.clip_ranges, sources, item.begins, item.ends))]


class _ChosenRows:
    """The chosen rows of one source, slice after slice. Implements ``SliceSource``."""

    def __init__(self, source: FinalSource, columns: Sequence[str], sources: int) -> None:
        self._source = source
        self._columns = list(columns)
        is_whole = source.ranges is None
        self._whole = (
            SourceReader(source.part, columns, sources, with_dictionaries=True, with_deleted=source.with_deleted)
            if is_whole
            else None
        )

    def read(self, begin: int, end: int) -> pa.Table | None:
        """Returns the chosen rows in one block; ``None`` if there are none."""
        if self._whole is not None:
            return self._source.append_constant_columns(self._whole.read(begin, end))
        tables = list(self.blocks(begin, end, end - begin))
        return concat_blocks(tables) if tables else None

    def blocks(self, begin: int, end: int, most_rows: int) -> Iterator[pa.Table]:
        """Yields the chosen rows in blocks."""
        return self._source.blocks(self._columns, begin, end, most_rows)
