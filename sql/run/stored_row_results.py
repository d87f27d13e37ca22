"""Reads results of stored values: ``SELECT columns FROM t [WHERE …] [ORDER BY columns] [LIMIT …]``.

It applies where the key decides for every row whether it matches. DuckDB is not used: preparing a statement takes it
longer than reading a row, or sorting a few.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from parts.read.part_reader import Part
from parts.types import (
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    EnumType,
    FloatType,
    IntegerType,
    StringType,
)
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.names.scope import VIRTUAL_COLUMNS
from sql.grammar.syntax_tree import Literal, NamedTable, Node, Query, Select, has_only_clauses
from sql.pruning.pruned_parts import MAX_ROWS_TESTED_BY_KEY, MatchingRows, PrunedPart
from sql.relations import is_parts_relation
from sql.run.scans.scan_streams import ReadStatistics, ScanState, count_batches

MAX_SORTED_ROWS = 8192
"""With more rows DuckDB's threads are faster."""
_MOST_FEW_PIECES = 16
_MOST_FEW_ROWS = 8192
_ORDERED_TYPES = (
    IntegerType, FloatType, StringType, DateType, Date32Type, DateTimeType, DateTime64Type, EnumType,
)  # fmt: skip
"""Arrow orders their stored values as ClickHouse does: strings by bytes, Enum by number, NaN last both ways."""
FoundRows = tuple[Part, list[MatchingRows]]
"""The matching rows of a part."""


@dataclass(frozen=True, slots=True)
class StoredRowResult:
    """A result of stored values: ``columns``, ordered by other columns (name, is descending)."""

    columns: tuple[str, ...]
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys((*self.columns, *(name for name, _ in self.order))))

    @property
    def first_rows(self) -> int | None:
        """The number of matching rows that are enough, whichever they are; ``None``: all are needed."""
        return None if self.order or self.limit is None else self.limit + self.offset

    @property
    def is_as_read(self) -> bool:
        """Returns whether the result is the rows in the order they are read."""
        return not self.order and not self.offset

    def arrange(self, batches: Iterable[Sequence[pa.Array]]) -> Iterator[list[pa.Array]]:
        """Yields the result from batches of ``names``."""
        names = self.names
        if self.is_as_read:
            places = [names.index(name) for name in self.columns]
            yield from ([arrays[place] for place in places] for arrays in batches)
            return
        given = {name: pa.concat_arrays(pieces) for name, *pieces in zip(names, *batches, strict=True) if pieces}
        if not given:
            return
        if self.order:
            keys = pa.record_batch([given[name] for name, _ in self.order], list(map(str, range(len(self.order)))))
            by = [(str(n), "descending" if down else "ascending") for n, (_, down) in enumerate(self.order)]
            places = pc.sort_indices(keys, sort_keys=by).slice(self.offset, self.limit)
            result = {name: given[name].take(places) for name in self.columns}
        else:
            result = {name: given[name].slice(self.offset, self.limit) for name in self.columns}
        if len(result[self.columns[0]]):
            yield [result[name] for name in self.columns]


def find_stored_row_result(query: Query, scans: Sequence[Scan], compiled: CompiledQuery) -> StoredRowResult | None:
    """Returns the result's form if the query only reads stored values of one MergeTree table."""
    if not isinstance(query, Select) or not isinstance(query.source, NamedTable) or query.source.sample is not None:
        return None
    if len(scans) != 1 or not has_only_clauses(
        query, "source", "prewhere", "where", "order_by", "order_by_all", "limit", "offset"
    ):
        return None
    (scan,) = scans
    columns = compiled.plain_columns
    if not columns or not is_parts_relation(scan.source.relation) or not scan.source.prunable:
        return None
    if not {*columns, *(name for name, _ in compiled.plain_order)}.isdisjoint(VIRTUAL_COLUMNS):
        return None
    if not _is_count(query.limit) or not _is_count(query.offset):
        return None
    order = tuple((name, item.descending) for name, item in compiled.plain_order if not item.nulls_first)
    if len(order) != (len(query.order_by) if not query.order_by_all else len(columns)):
        return None
    if not all(isinstance(scan.definitions[name].type, _ORDERED_TYPES) for name, _ in order):
        return None
    return StoredRowResult(columns, order, _count_value(query.limit), _count_value(query.offset) or 0)


def _is_count(node: Node | None) -> bool:
    # a bool is not a number of rows here
    return node is None or (isinstance(node, Literal) and type(node.value) is int)


def _count_value(node: Node | None) -> int | None:
    return node.value if isinstance(node, Literal) else None


def find_rows(
    parts: Sequence[PrunedPart], limit: int | None, statistics: ReadStatistics, most_rows: int = sys.maxsize
) -> list[FoundRows] | None:
    """Returns the rows of every part that are the result, at most ``limit``.

    ``None`` if the key's columns do not decide it, if too many rows would have to be tested, or if there are more than
    ``most_rows``.
    """
    if sum(pruned.uncertain_rows for pruned in parts) > MAX_ROWS_TESTED_BY_KEY:
        return None
    found = []
    left_out = 0
    left = sys.maxsize if limit is None else limit
    for pruned in parts:
        pieces = pruned.matching_rows()
        if pieces is None:
            return None
        left_out += pruned.rows - sum(piece.count for piece in pieces)
        chosen = []
        for piece in pieces:
            if left > 0:
                chosen.append(piece.first(left))
                left -= chosen[-1].count
        found.append((pruned.part, chosen))
        if left <= 0:
            break
    if count_rows(found) > most_rows:
        return None
    statistics.read_rows += left_out  # tested rows count as read, as in ClickHouse
    return found


def count_rows(found: Sequence[FoundRows]) -> int:
    """Returns the number of matching rows."""
    return sum(piece.count for _, pieces in found for piece in pieces)


def read_rows(
    names: Sequence[str], found: Sequence[FoundRows], state: ScanState, batch_rows: int, max_threads: int
) -> Iterator[list[pa.Array]]:
    """Yields the values of distinct columns, in storage types, batch by batch."""
    for part, pieces in found:
        read = partial(part.read_rows, names, max_batch_rows=batch_rows, max_threads=max_threads)
        few = read_few_rows(part, names, pieces, batch_rows)
        batches = iter(few) if few is not None else _filter_batches(read([piece.rows for piece in pieces]), pieces)
        yield from count_batches(batches, state)


def read_few_rows(
    part: Part, names: Sequence[str], pieces: Sequence[MatchingRows], most_rows: int
) -> list[tuple[list[pa.Array], int]] | None:
    """Returns the matching rows of the pieces; ``None`` if there are many pieces or long ones.

    No piece may have more than ``most_rows`` rows.
    """
    if not names or len(pieces) > _MOST_FEW_PIECES:
        return None
    few = []
    for piece in pieces:
        if piece.rows.rows > min(_MOST_FEW_ROWS, most_rows):
            return None
        arrays = part.read_row_range(names, piece.rows)
        if arrays is None:
            return None
        if piece.matching is not None:
            chosen = pa.array(piece.matching)
            arrays = [array.take(chosen) for array in arrays]
        few.append((arrays, piece.count))
    return few


def _filter_batches(
    batches: Iterator[pa.RecordBatch], pieces: Sequence[MatchingRows]
) -> Iterator[tuple[list[pa.Array], int]]:
    """Yields the matching rows of the batches of all pieces. Each batch belongs to one piece."""
    for piece in pieces:
        begin = 0
        while begin < piece.rows.rows:
            batch = next(batches)
            end = begin + batch.num_rows
            if piece.matching is not None:
                first, last = piece.matching.searchsorted((begin, end))
                batch = batch.take(pa.array(piece.matching[first:last] - begin))
            begin = end
            if batch.num_rows:
                yield batch.columns, batch.num_rows
