"""Applies the rows that a mutation's query found to a part, window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import concat_blocks
from parts.common.errors import UserError
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
)
from parts.table.row_exists_column import ROW_EXISTS, get_existing_rows

WINDOW_ROWS = 262_144
WINDOW_BYTES = 64 << 20


class ChangedRows:
    """The numbers of found rows, in order, and their new values, taken window by window."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._held: list[pa.Table] = []
        self._last = -1

    def select(self, mask: np.ndarray) -> ChangedRows:
        """Returns the rows whose number ``mask`` has, in place of these."""
        return ChangedRows(batch.filter(pa.array(mask[_to_numbers(batch.column(0))])) for batch in self._batches)

    def has_more(self) -> bool:
        """Returns whether rows are left."""
        while not self._held:
            batch = next(self._batches, None)
            if batch is None:
                return False
            if batch.num_rows:
                self._hold(batch)
        return True

    def take_until(self, end: int) -> tuple[np.ndarray, list[pa.ChunkedArray]]:
        """Takes the rows before ``end`` that are left; returns their numbers and columns of values."""
        taken: list[pa.Table] = []
        while self.has_more():
            table = self._held.pop()
            count = int(np.searchsorted(_to_numbers(table.column(0)), end))
            if count:
                taken.append(table.slice(0, count))
            if count < table.num_rows:
                self._held.append(table.slice(count))
                break
        if not taken:
            return np.empty(0, np.int64), []
        whole = pa.concat_tables(taken)
        return _to_numbers(whole.column(0)), whole.columns[1:]

    def _hold(self, batch: pa.RecordBatch) -> None:
        numbers = _to_numbers(batch.column(0))
        if numbers[0] <= self._last or not (numbers[1:] > numbers[:-1]).all():
            raise UserError(
                "BAD_ARGUMENTS", "An expression of a mutation must have one value for each row, in its place"
            )
        self._last = int(numbers[-1])
        names = [str(place) for place in range(batch.num_columns)]
        self._held.append(pa.Table.from_arrays([pa.chunked_array([column]) for column in batch.columns], names))


def _to_numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Returns row numbers as signed integers, in which all of them fit."""
    return column.to_numpy().view(np.int64)


def _windows(part: Part, names: Sequence[str], look: Callable[[int], None]) -> Iterator[RowRange]:
    sizes = part.column_sizes()
    row_bytes = sum(sizes[name][1] for name in names if name in sizes) // max(part.rows, 1)
    step = max(1, min(WINDOW_ROWS, WINDOW_BYTES // max(row_bytes, 1)))
    for begin in range(0, part.rows, step):
        look(begin)
        yield RowRange(begin, min(begin + step, part.rows))


def read_updated_rows(
    part: Part, names: Sequence[str], found: ChangedRows, look: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Yields all rows of the columns, with the found values in place."""
    for window in _windows(part, names, look):
        numbers, values = found.take_until(window.end)
        if len(numbers) < window.rows:
            read = part.read_rows(names, [window], max_batch_rows=window.rows, with_deleted=True)
            old = pa.Table.from_batches(read).columns
            places = numbers - window.begin
            values = [patch_rows(*pair, places) for pair in zip(old, values, strict=True)] if len(numbers) else old
        yield pa.Table.from_arrays(values, list(names))


def patch_rows(old: pa.ChunkedArray, new: pa.ChunkedArray, places: np.ndarray) -> pa.ChunkedArray:
    """Returns ``old`` with ``new`` at the places."""
    chosen = np.arange(len(old))
    chosen[places] = len(old) + np.arange(len(places))
    both = pa.chunked_array([*old.chunks, *new.chunks], old.type)
    if pa.types.is_dictionary(both.type):
        both = both.unify_dictionaries()
    return pa.chunked_array([pa.concat_arrays(both.chunks).take(pa.array(chosen))])


def read_remaining_rows(
    part: Part, names: Sequence[str], found: ChangedRows, look: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Yields the existing rows that were not found."""
    read_names = [*names, ROW_EXISTS] if part.has_deleted_rows else list(names)
    for window in _windows(part, names, look):
        numbers, _ = found.take_until(window.end)
        if len(numbers) == window.rows:
            continue
        read = part.read_rows(
            read_names, [window], max_batch_rows=window.rows, with_dictionaries=True, with_deleted=True
        )
        table = concat_blocks([pa.Table.from_batches([batch]) for batch in read])
        keep = np.ones(window.rows, bool)
        if part.has_deleted_rows:
            mask = get_existing_rows(table.column(len(names)).combine_chunks())
            keep = keep if mask is None else mask.to_numpy(zero_copy_only=False).copy()
            table = table.select(list(names))
        keep[numbers - window.begin] = False
        yield table if keep.all() else table.filter(pa.array(keep))


def read_found_rows(
    part: Part, names: Sequence[str], changed: Sequence[str], found: ChangedRows, look: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Yields the found rows only, with the found values in the columns ``changed``."""
    others = [name for name in names if name not in changed]
    for window in _windows(part, names, look):
        numbers, values = found.take_until(window.end)
        if not len(numbers):
            continue
        columns = dict(zip(changed, values, strict=True))
        if others:
            read = part.read_rows(
                others, [window], max_batch_rows=window.rows, with_dictionaries=True, with_deleted=True
            )
            table = concat_blocks([pa.Table.from_batches([batch]) for batch in read]).take(
                pa.array(numbers - window.begin)
            )
            columns |= dict(zip(others, table.columns, strict=True))
        yield pa.Table.from_arrays([columns[name] for name in names], list(names))
