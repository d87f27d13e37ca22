"""Build the skip indexes of a part from its rows, window by window.

A run of granules may begin in one window and end in another: its summary is kept until it ends. Indexes are in memory
until the part is finished: for a bloom_filter about a byte per row, for a text index its size. They depend only on the
rows and the definition, so replicas write the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from parts.format.file_names import SKIP_INDEXES
from parts.skip_indexes.bloom_filters import BloomFilterIndex, TextBloomFilterIndex
from parts.skip_indexes.minmax_index import MinMaxIndex, NamedArrays
from parts.skip_indexes.set_index import SetIndex
from parts.skip_indexes.skip_index_file import EncodedSkipIndex, encode_index, encode_index_file
from parts.skip_indexes.text_index import TextIndexWriter
from parts.table.table_description import SkipIndex, TableSchema


class RunIndexKind(Protocol):
    """A kind of summary of runs of rows. Summaries are tables with one row for each run."""

    def summarize(self, arrays: list[pa.Array], cuts: np.ndarray) -> pa.Table:
        """Summarises the keys of rows. ``cuts`` are where the runs, none of them empty, begin and end."""

    def merge_runs(self, runs: pa.Table) -> pa.Table:
        """Merges the summaries of several pieces of one run."""

    def finish_runs(self, runs: pa.Table) -> pa.Table:
        """Completes the summaries of runs that get no more rows."""

    def to_named_arrays(self, runs: pa.Table) -> NamedArrays:
        """Returns the arrays to write for all runs, after :meth:`finish_runs`."""


class SkipIndexWriter(Protocol):
    """Builds one index."""

    index: SkipIndex

    def add(self, block: pa.Table) -> None:
        """Adds the next rows."""

    def to_named_arrays(self) -> NamedArrays | None:
        """Returns the arrays to write for all rows; ``None`` if the index would be too large."""


_KINDS: dict[str, Callable[[SkipIndex], RunIndexKind]] = {
    "minmax": MinMaxIndex,
    "set": SetIndex,
    "bloom_filter": BloomFilterIndex,
    "ngrambf_v1": TextBloomFilterIndex,
    "tokenbf_v1": TextBloomFilterIndex,
}


class SkipIndexBuilder:
    """Builds those indexes of a part whose columns it has. Not thread-safe."""

    def __init__(self, indexes: Sequence[SkipIndex], schema: TableSchema, granularity: int) -> None:
        there = [index for index in indexes if set(index.key.columns) <= set(schema.names)]
        self._indexes: list[SkipIndexWriter] = [
            TextIndexWriter(index, granularity) if index.kind == "text" else _Runs(index, granularity)
            for index in there
        ]
        names = dict.fromkeys(name for index in there for name in index.key.columns)
        self._schema = pa.schema([schema.arrow.field(name) for name in names])

    def add(self, block: pa.Table) -> None:
        """Adds the next rows. Strings may be ``parts.blocks.dictionary_strings``."""
        if self._indexes and block.num_rows:
            used = block.select(self._schema.names).cast(self._schema)
            for builder in self._indexes:
                builder.add(used)

    def encode_files(self, kept: Sequence[EncodedSkipIndex] = ()) -> dict[str, bytes]:
        """Returns the index file by its name; empty without indexes.

        ``kept``: indexes taken from another part of the same rows.
        """
        made = [(builder.index, builder.to_named_arrays()) for builder in self._indexes]
        indexes = [*kept, *(encode_index(index, entries) for index, entries in made if entries is not None)]
        return {SKIP_INDEXES: encode_index_file(indexes)} if indexes else {}


class _Runs:
    def __init__(self, index: SkipIndex, granularity: int) -> None:
        self.index = index
        self._kind = _KINDS[index.kind](index)
        self._run_rows = granularity * index.granularity
        self._rows = 0
        self._open: list[pa.Table] = []
        """Summaries of the pieces of the run that has not ended."""
        self._done: list[pa.Table] = []

    def add(self, block: pa.Table) -> None:
        rows, begun = block.num_rows, self._rows % self._run_rows
        arrays = [_one(column) for column in self.index.key.evaluate(block)]
        inner = np.arange(self._run_rows - begun, rows, self._run_rows)
        runs = self._kind.summarize(arrays, np.concatenate(([0], inner, [rows])))
        self._rows += rows
        first, last = runs.slice(0, 1), runs.num_rows - 1
        if last:
            self._end([*self._open, first])
            self._open = [runs.slice(last)]
            if last > 1:
                self._done.append(self._kind.finish_runs(runs.slice(1, last - 1)))
        else:
            self._open.append(first)
            if len(self._open) > 1:
                self._open = [self._kind.merge_runs(pa.concat_tables(self._open))]
        if self._rows % self._run_rows == 0:
            self._end(self._open)
            self._open = []

    def to_named_arrays(self) -> NamedArrays:
        if self._open:
            self._end(self._open)
            self._open = []
        if not self._done:  # a part without rows
            arrays = [pa.nulls(0, type_.arrow) for type_ in self.index.key.types]
            self._done.append(self._kind.finish_runs(self._kind.summarize(arrays, np.zeros(1, np.int64))))
        return self._kind.to_named_arrays(pa.concat_tables(self._done))

    def _end(self, pieces: list[pa.Table]) -> None:
        run = self._kind.merge_runs(pa.concat_tables(pieces)) if len(pieces) > 1 else pieces[0]
        self._done.append(self._kind.finish_runs(run))


def _one(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    return array
