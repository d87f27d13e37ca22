"""``SELECT columns FROM t [WHERE …]``, where the key's columns tell of every row whether it matches.

Nothing is to be computed, so DuckDB is not asked: to prepare and run a statement takes it longer than reading a row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from parts.errors import CorruptionError
from parts.reader import Part
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.scope import VIRTUAL_COLUMNS
from sql.grammar.syntax_tree import Literal, NamedTable, Query, Select, has_only
from sql.pruning.pruned_part import MOST_ROWS_LOOKED_AT, PrunedPart, RowPiece
from sql.relation import is_parts_relation
from sql.run.scans import ReadStatistics, ScanState, counted

_MOST_FEW_PIECES = 16
_MOST_FEW_ROWS = 8192
Found = tuple[Part, list[RowPiece]]
"""The matching rows of a part."""


def stored_columns(query: Query, scans: Sequence[Scan], compiled: CompiledQuery) -> tuple[str, ...]:
    """The columns of the one MergeTree table that the query reads, if its result is their values; else nothing."""
    if not isinstance(query, Select) or not isinstance(query.source, NamedTable) or query.source.sample is not None:
        return ()
    if len(scans) != 1 or not has_only(query, "source", "prewhere", "where", "limit"):
        return ()
    if query.limit is not None and not (isinstance(query.limit, Literal) and type(query.limit.value) is int):
        return ()  # true is a number of rows, too
    (scan,) = scans
    if not is_parts_relation(scan.source.relation) or not scan.source.prunable:
        return ()
    return () if set(compiled.plain_columns) & set(VIRTUAL_COLUMNS) else compiled.plain_columns


def find_rows(
    parts: Sequence[PrunedPart], limit: int | None, statistics: ReadStatistics, most_rows: int = sys.maxsize
) -> list[Found] | None:
    """The rows of every part that are the result, no more than ``limit``. ``None``: the key's columns do not tell, or
    more of their rows had to be looked at than is gained, or they are more than ``most_rows``."""
    if sum(pruned.uncertain_rows for pruned in parts) > MOST_ROWS_LOOKED_AT:
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
    if _count(found) > most_rows:
        return None
    statistics.read_rows += left_out  # rows that were looked at count as read, as in ClickHouse
    return found


def _count(found: Sequence[Found]) -> int:
    return sum(piece.count for _, pieces in found for piece in pieces)


def read_rows(
    scan: Scan, columns: Sequence[str], found: Sequence[Found], state: ScanState, batch_rows: int, max_threads: int
) -> Iterator[list[pa.Array]]:
    """The values of the columns, in storage types, batch by batch."""
    assert is_parts_relation(scan.source.relation)
    names = list(dict.fromkeys(columns))
    places = [names.index(name) for name in columns]
    for part, pieces in found:
        read = partial(part.read_rows, names, max_batch_rows=batch_rows, max_threads=max_threads)
        try:
            few = few_rows(part, names, pieces, batch_rows)
            batches = iter(few) if few is not None else _matching(read([piece.rows for piece in pieces]), pieces)
            for arrays in counted(batches, state):
                yield [arrays[place] for place in places]
        except CorruptionError as error:
            scan.source.relation.report_corruption(error)
            raise


def few_rows(
    part: Part, names: Sequence[str], pieces: Sequence[RowPiece], most_rows: int
) -> list[tuple[list[pa.Array], int]] | None:
    """The matching rows of the pieces, where these are few and none has more than ``most_rows`` rows."""
    if not names or len(pieces) > _MOST_FEW_PIECES:
        return None
    few = []
    for piece in pieces:
        if piece.rows.rows > min(_MOST_FEW_ROWS, most_rows):
            return None
        arrays = part.read_few(names, piece.rows)
        if arrays is None:
            return None
        if piece.matching is not None:
            chosen = pa.array(piece.matching)
            arrays = [array.take(chosen) for array in arrays]
        few.append((arrays, piece.count))
    return few


def _matching(batches: Iterator[pa.RecordBatch], pieces: Sequence[RowPiece]) -> Iterator[tuple[list[pa.Array], int]]:
    """The matching rows of the batches of all pieces. A batch is of one piece."""
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
