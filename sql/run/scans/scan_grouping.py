"""Groups the rows of a batch and computes partial aggregates (``sql.compile.grouping.scan_grouping``).

Rows are told apart by numbers: a dictionary's indices, or whole numbers and dates that lie close together. Where equal
rows are neighbours, a run is a group. Else, if there are few different rows, NumPy counts and adds by these numbers.
Rows of other types, or too different ones, are groups of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.format.primary_index import get_plain_integers
from parts.read.part_reader import Part
from sql.compile.compiled_query import PartialAggregate

_ROWS_PER_RUN = 8
_ROWS_PER_GROUP = 4
"""A batch is worth grouping when a group has so many rows on average."""
_MOST_NUMBERS = 1 << 62
_LEAST_GATHERED_ROWS = 8_192
_NARROW_ROW_BYTES = 4
_REDUCE = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Groups of the ``total`` rows of a batch.

    ``rows`` has one row of each group (``None``: every row is a group). For runs, ``starts`` are their first rows; else
    ``numbers`` has the group of each row.
    """

    total: int
    rows: np.ndarray | None = None
    starts: np.ndarray | None = None
    numbers: np.ndarray | None = None

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.total if self.rows is None else len(self.rows)

    @property
    def is_worth_it(self) -> bool:
        """Returns whether grouping makes the batch much smaller."""
        return self.count * _ROWS_PER_GROUP <= self.total

    def key(self, array: pa.Array) -> pa.Array:
        """Returns the groups' values of a key column."""
        return array if self.rows is None else array.take(pa.array(self.rows))

    def aggregate(self, wanted: Sequence[PartialAggregate], columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Returns the partial aggregates of the groups; ``columns`` are their arguments."""
        counts = {name: self._count_values(columns.get(name)) for name in dict.fromkeys(part.column for part in wanted)}
        return [
            pa.array(counts[part.column])
            if part.function == "count"
            else self._reduce(part, columns[part.column], counts[part.column])
            for part in wanted
        ]

    def _count_values(self, array: pa.Array | None) -> np.ndarray:
        """Returns how many rows of each group are not NULL."""
        valid = None
        if array is not None and array.null_count:
            valid = array.is_valid().cast(pa.uint8()).to_numpy()
        if self.rows is None:
            return np.ones(self.total, np.int64) if valid is None else valid.astype(np.int64)
        if self.starts is not None:
            if valid is None:
                return np.diff(self.starts, append=self.total)
            return np.add.reduceat(valid, self.starts, dtype=np.int64)
        assert self.numbers is not None
        chosen = self.numbers if valid is None else self.numbers[valid.view(bool)]
        return np.bincount(chosen, minlength=self.count)

    def _reduce(self, part: PartialAggregate, array: pa.Array, counts: np.ndarray) -> pa.Array:
        """Returns the sum, minimum or maximum of each group; NULL where all rows are."""
        given = array.null_count
        is_sum = part.function == "sum"
        target = part.type if is_sum else array.type
        values = _to_numbers(array, 0 if is_sum else _neutral_value(part.function, array.type))
        found = self._reduce_groups(_REDUCE[part.function], values, _dtype(target))
        mask = counts == 0 if given else None
        plain = pa.array(found.astype(_dtype(target), copy=False), mask=mask)
        return plain if plain.type == part.type else plain.cast(part.type) if is_sum else plain.view(array.type)

    def _reduce_groups(self, reduce: np.ufunc, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
        if self.rows is None:
            return values
        if self.starts is not None:
            dtype = values.dtype if reduce is np.add and _is_small(values) else dtype
            if len(self.starts) == 1:
                return np.array([reduce.reduce(values, dtype=dtype)])
            return reduce.reduceat(values, self.starts, dtype=dtype)
        assert self.numbers is not None
        if reduce is np.add and (dtype.kind == "f" or values.itemsize <= 4):  # exact: 2^32 times the rows of a batch
            return np.bincount(self.numbers, values, self.count)
        found = np.full(self.count, 0 if reduce is np.add else values[0], dtype)
        if reduce is not np.add:
            found[self.numbers] = values
        reduce.at(found, self.numbers, values)
        return found


def has_narrow_rows(names: Sequence[str], part: Part) -> bool:
    """Returns whether the columns take few bytes on disk.

    To decode and group such frames is many short steps, between which two threads would wait for each other at the
    interpreter. One thread alone is faster.
    """
    sizes = part.column_sizes()
    stored_bytes = sum(sizes[name][0] for name in names if name in sizes)
    return stored_bytes <= _NARROW_ROW_BYTES * part.rows


def combine_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins small batches into larger ones: DuckDB pays as much for a few rows as for thousands."""
    few: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        few.append(batch)
        rows += batch.num_rows
        if rows >= _LEAST_GATHERED_ROWS:
            yield _join_batches(few)
            few, rows = [], 0
    if few:
        yield _join_batches(few)


def _join_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return next(iter(table.to_batches()), batches[0])


def group_rows(keys: Sequence[pa.Array], rows: int) -> RowGroups:
    """Groups rows that are equal in all of ``keys``."""
    if not rows:
        return RowGroups(0)
    if not keys:
        return RowGroups(rows, np.zeros(1, np.int64), np.zeros(1, np.int64))
    found = _row_numbers(keys, rows)
    if found is None:
        return RowGroups(rows)
    numbers, size = found
    starts = np.flatnonzero(numbers[1:] != numbers[:-1])
    if (len(starts) + 1) * _ROWS_PER_RUN <= rows:
        starts = np.concatenate([np.zeros(1, np.int64), starts + 1])
        return RowGroups(rows, starts, starts)
    if size > _ROWS_PER_GROUP * rows:
        return RowGroups(rows)
    one = np.full(size, -1, np.int32)
    one[numbers] = np.arange(rows, dtype=np.int32)
    used = np.flatnonzero(one >= 0)
    if len(used) * _ROWS_PER_GROUP > rows:
        return RowGroups(rows)
    place = np.empty(size, np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return RowGroups(rows, one[used], numbers=place[numbers])


def _row_numbers(keys: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, int] | None:
    """Returns a number for each row, equal where rows are equal, and a bound above all numbers.

    ``None`` where that would take long.
    """
    numbers, size = np.zeros(1, np.int32), 1
    for key in keys:
        found = _key_numbers(key)
        if found is None or size * found[1] > _MOST_NUMBERS:
            return None
        own, own_size = found
        if size > 1:
            own = numbers.astype(np.int32 if size * own_size < 1 << 31 else np.int64) * own_size + own
        numbers, size = own, size * own_size
    return numbers, size


def _key_numbers(key: pa.Array) -> tuple[np.ndarray, int] | None:
    if pa.types.is_dictionary(key.type):
        size = len(key.dictionary)
        if not key.null_count:
            return key.indices.to_numpy(), size
        return key.indices.fill_null(size).to_numpy(), size + 1
    values = get_plain_integers(key)
    if values is None:
        return None
    least, most = int(values.min()), int(values.max())
    if most - least >= 1 << 31:
        return None
    return (values - values.dtype.type(least)).astype(np.int32), most - least + 1


def _to_numbers(array: pa.Array, null: float) -> np.ndarray:
    """Returns the rows' numbers, with ``null`` where they are NULL."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    return (array.fill_null(null) if array.null_count else array).to_numpy()


def _is_small(values: np.ndarray) -> bool:
    """Returns whether the sum of the integers fits their own type of at most 4 bytes.

    Widening them takes longer than finding the maximum.
    """
    if values.dtype.kind not in "iu" or values.itemsize > 4 or not len(values):
        return False
    least = int(values.min()) if values.dtype.kind == "i" else 0
    return max(int(values.max()), -least) * len(values) <= np.iinfo(values.dtype).max


def _neutral_value(function: str, type_: pa.DataType) -> int:
    limits = np.iinfo(_dtype(type_))
    return int(limits.max if function == "min" else limits.min)


def _dtype(type_: pa.DataType) -> np.dtype:
    return np.dtype("i4") if pa.types.is_date32(type_) else np.dtype(type_.to_pandas_dtype())
