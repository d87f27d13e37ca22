"""Streams of record batches through which DuckDB reads each scan of a statement.

They are pruned, and count what they read. The column ``c`` of scan ``n`` has the name ``column_label(n, c)``. Where
DuckDB would see another type than the engine type (DateTime comes as TIMESTAMP_S), the scan's text casts it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import DICTIONARY_STRING
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from parts.read.batch_plan import (
    RowRange,
)
from parts.table.part_name_columns import NAME_COLUMNS
from sql.compile.compiled_query import Scan
from sql.compile.final_reading import FinalReading
from sql.compile.short_string_codes import LongStringError, code_column_name, encode_strings
from sql.pruning.allowed_values import find_allowed_values
from sql.pruning.part_bounds import read_part_name_column
from sql.pruning.pruned_parts import PrunedPart
from sql.relations import ArrowRelation, KeyedRelation, PartsRelation, StreamedRelation, is_parts_relation
from sql.run.duckdb.constant_folding import fold_constant
from sql.run.duckdb.duckdb_arrays import cast_to_readable, find_readable_type, needs_cast
from sql.run.scans.final_scan import read_final_blocks
from sql.run.scans.read_limits import NO_LIMITS, ReadLimits
from sql.run.scans.repeated_strings import is_repeated
from sql.run.scans.scan_grouping import combine_small_batches, group_rows, has_narrow_rows
from sql.run.scans.small_parts import SmallParts
from sql.typing.column_kernels.scannable import ScanComputation
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.typed_expressions import column_label, quote_identifier

_NO_COLUMN = "#"
_Make = Callable[..., pa.Array]
_Chosen = Sequence[tuple[tuple[str, ...], _Make]]
_MOST_FIRST_ROWS = 16_384
_GUESSED_ROWS = 1000
_ROWS_WORTH_A_PLAN = 300_000
"""With fewer rows it costs less to pass rows on as groups than to compile the statement again."""


class TooFewEqualRowsError(Exception):
    """Rows that should make groups are too different."""


@dataclass(slots=True)
class ReadStatistics:
    """Counts of what a query has read so far; they grow while its result streams."""

    read_rows: int = 0
    read_bytes: int = 0
    parts: int = 0
    marks: int = 0
    total_rows_to_read: int = 0


@dataclass(slots=True)
class ScanState:
    """The state that all scans of a query share.

    ``error`` is what a stream raised, kept because DuckDB would wrap it.
    """

    statistics: ReadStatistics = field(default_factory=ReadStatistics)
    error: PandoError | None = None
    cancelled: bool = False
    met_long_string: bool = False
    """A scan ended because a string is too long for a code."""
    met_ungroupable_rows: bool = False
    """A scan ended because its rows make no groups."""
    status: QueryStatus = field(default_factory=QueryStatus)
    limits: ReadLimits = NO_LIMITS


def scan_sql(scan: Scan, more: Sequence[str] = ()) -> str:
    """Returns the SQL that stands for the scan in FROM. ``more``: columns of its stream beside these."""
    number = scan.source.number
    columns = []
    casts = False
    for name in scan.source.used:
        definition = scan.definitions[name]
        label = quote_identifier(column_label(number, name))
        if needs_cast(definition.type):
            casts = True
            columns.append(f"CAST({label} AS {duckdb_type(definition.type)}) AS {label}")
        else:
            columns.append(label)
    columns += [quote_identifier(code_column_name(number, name)) for name in scan.coded]
    columns += [quote_identifier(label) for label in (*scan.computed, *scan.parts, *more)]
    return f"(SELECT {', '.join(columns)} FROM s{number})" if casts else f"s{number}"


class ScanStream:
    """A scan as DuckDB reads it: every reading is a new stream of the columns it asks for.

    A plan may read one table more than once. ``parts`` are the pruned parts of a MergeTree table. When ``first_rows``
    may be enough they come first, alone.
    """

    def __init__(
        self,
        scan: Scan,
        parts: Sequence[PrunedPart] | None,
        state: ScanState,
        max_threads: int = 0,
        first_rows: int = 0,
    ) -> None:
        self._first_rows = first_rows
        self._max_threads = max_threads
        self._scan = scan
        self._parts = parts
        self._state = state
        types = _find_types(scan)
        self._repeating = {
            name
            for name in (*types, *(scan.coded if scan.parts else ()))
            if parts and pa.types.is_string(scan.definitions[name].type.arrow) and is_repeated(name, parts)
        }
        types.update((name, DICTIONARY_STRING) for name in self._repeating if name in types)
        columns = _list_columns(scan, types)
        columns += [
            (pa.field(code_column_name(scan.source.number, name), pa.uint64()), (name,), self._encode_codes)
            for name in scan.coded
        ]
        self._columns = [(names, make) for _, names, make in columns]
        fields = [field for field, _, _ in columns]
        fields += [pa.field(label, part.type) for label, part in scan.parts.items()]
        self._row_parts = list(scan.parts.values())
        self.schema = pa.schema(fields or [_no_column(scan)])
        self._begun: Iterator[pa.RecordBatch] | None = None

    def begin(self) -> None:
        """Reads the first rows ahead of DuckDB.

        Raises ``LongStringError`` if one of them has no code, and ``TooFewEqualRowsError`` if they make no groups.
        """
        batches = self._record_batches(range(len(self.schema)))
        self._begun = itertools.chain(list(itertools.islice(batches, 1)), batches)

    @property
    def expected_rows(self) -> int:
        """The number of rows; a guess where they are computed."""
        return _GUESSED_ROWS if self._parts is None else sum(pruned.rows for pruned in self._parts)

    def stream(self, columns: Sequence[int]) -> pa.RecordBatchReader:
        """Returns a new stream of all rows."""
        begun, self._begun = self._begun, None
        batches = self._record_batches(columns) if begun is None else (batch.select(columns) for batch in begun)
        return pa.RecordBatchReader.from_batches(self._fields(columns), batches)

    @property
    def _is_limited(self) -> bool:
        """Returns whether limits of reading apply: not for ``system`` tables."""
        return self._parts is not None or isinstance(self._scan.source.relation, StreamedRelation)

    def _fields(self, columns: Sequence[int]) -> pa.Schema:
        return pa.schema([self.schema.field(position) for position in columns])

    def _record_batches(self, columns: Sequence[int]) -> Iterator[pa.RecordBatch]:
        schema = self._fields(columns)
        chosen = [self._columns[position] for position in columns if position < len(self._columns)]
        if self._row_parts:
            yield from combine_small_batches(self._grouped_batches(chosen, columns[len(chosen) :], schema))
            return
        names = _list_names(chosen)
        for arrays in count_batches(self._batches(names), self._state, is_limited=self._is_limited):
            if chosen:
                arrays = _make_arrays(chosen, dict(zip(names, arrays, strict=True)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _grouped_batches(self, chosen: _Chosen, others: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields groups of rows: the columns ``chosen`` as keys, then ``others``, parts of aggregates."""
        parts = [self._row_parts[position - len(self._columns)] for position in others]
        keys = _list_names(chosen)
        names = list(dict.fromkeys([*keys, *(part.column for part in parts if part.column)]))
        must_pay = self.expected_rows > _ROWS_WORTH_A_PLAN
        for arrays in count_batches(self._batches(names), self._state):
            found = {name: self._encode_repeated(name, array) for name, array in zip(names, arrays, strict=False)}
            groups = group_rows([found[name] for name in keys], len(arrays[0]))
            if must_pay and not groups.is_worth_it:
                self._state.met_ungroupable_rows = True
                raise TooFewEqualRowsError
            must_pay = False
            values = {name: groups.key(found[name]) for name in keys}
            made = _make_arrays(chosen, values)
            made += groups.aggregate(parts, found)
            yield pa.RecordBatch.from_arrays(made, schema=schema)

    def _encode_repeated(self, name: str, array: pa.Array) -> pa.Array:
        return cast_to_readable(array, DICTIONARY_STRING) if name in self._repeating else array

    def _encode_codes(self, array: pa.Array) -> pa.Array:
        try:
            return encode_strings(array)
        except LongStringError:
            self._state.met_long_string = True
            raise

    def _batches(self, names: list[str]) -> Iterator[tuple[list[pa.Array], int]]:
        relation = self._scan.source.relation
        self._state.limits.check_columns(len(names))
        if self._parts is not None:
            assert is_parts_relation(relation)
            if self._scan.final is not None:
                yield from self._final_batches(names, self._parts, self._scan.final, relation)
            else:
                yield from self._part_batches(names, self._parts)
        else:
            assert isinstance(relation, ArrowRelation)
            wanted = names or _find_cheapest_column(self._scan)
            if isinstance(relation, StreamedRelation):
                yield from (batch for block in relation.blocks(wanted) for batch in _table_batches(names, block))
            else:
                yield from _table_batches(names, _read(relation, self._scan, wanted))

    def _final_batches(
        self, names: list[str], parts: Sequence[PrunedPart], reading: FinalReading, relation: PartsRelation
    ) -> Iterator[tuple[list[pa.Array], int]]:
        left = sum(pruned.rows for pruned in parts)
        for block in read_final_blocks(parts, relation.description, reading, names, self._state.status):
            left -= block.num_rows
            yield from _table_batches(names, block)
        self._state.statistics.read_rows += left

    def _part_batches(self, names: list[str], parts: Sequence[PrunedPart]) -> Iterator[tuple[list[pa.Array], int]]:
        stored = [name for name in names if name not in NAME_COLUMNS]
        first_rows = min(self._first_rows, _MOST_FIRST_ROWS)
        small = SmallParts(parts, stored if len(stored) == len(names) and not first_rows else [])
        for pruned in parts:
            self._state.status.check()
            rows = pruned.find_needed_rows(stored)
            # Rows that were tested and skipped count as read, as in ClickHouse.
            self._state.statistics.read_rows += max(0, pruned.rows - sum(item.rows for item in rows))
            if small.take(pruned, rows):
                if small.is_enough:
                    yield small.take_batch()
                continue
            if not small.is_empty:
                yield small.take_batch()
            head, tail = _split_first_rows(rows, first_rows)
            first_rows = 0
            test = pruned.row_test if pruned.row_test and pruned.row_test.columns <= set(stored) else None
            read = partial(
                pruned.part.read_rows,
                stored,
                max_threads=1 if self._row_parts and has_narrow_rows(stored, pruned.part) else self._max_threads,
                is_short=True,
                with_dictionaries=True,
                test=test,
            )
            left = sum(item.rows for item in rows)
            for batch in itertools.chain(read(head), read(tail)):
                left -= batch.num_rows
                arrays = dict(zip(stored, batch.columns, strict=True))
                yield (
                    [arrays[name] if name in arrays else _virtual(name, pruned, batch.num_rows) for name in names],
                    batch.num_rows,
                )
            self._state.statistics.read_rows += left
        if not small.is_empty:
            yield small.take_batch()


class BufferedScan:
    """A scan whose rows have been read: ``read`` are batches of the columns that it uses."""

    def __init__(self, scan: Scan, read: Sequence[Sequence[pa.Array]], rows: int) -> None:
        self.expected_rows = rows
        columns = _list_columns(scan, _find_types(scan))
        self.schema = pa.schema([field for field, _, _ in columns] or [_no_column(scan)])
        if columns:
            given = [dict(zip(scan.source.used, arrays, strict=True)) for arrays in read]
            made = [_make_arrays([column[1:] for column in columns], arrays) for arrays in given]
        else:
            made = [[pa.array(np.zeros(rows, np.uint8))]]
        self._batches = [pa.RecordBatch.from_arrays(arrays, schema=self.schema) for arrays in made]

    def stream(self, columns: Sequence[int]) -> pa.RecordBatchReader:
        """Returns a new stream of all rows."""
        schema = pa.schema([self.schema.field(position) for position in columns])
        return pa.RecordBatchReader.from_batches(schema, [batch.select(columns) for batch in self._batches])


def _find_types(scan: Scan) -> dict[str, pa.DataType]:
    """Returns the Arrow types in which DuckDB gets the columns that the scan reads."""
    return {name: find_readable_type(scan.definitions[name].type.arrow) for name in scan.source.used}


def _list_columns(scan: Scan, types: Mapping[str, pa.DataType]) -> list[tuple[pa.Field, tuple[str, ...], _Make]]:
    """Returns field, source columns and maker of each column, read or computed, of these types."""
    number = scan.source.number
    columns: list[tuple[pa.Field, tuple[str, ...], _Make]] = [
        (pa.field(column_label(number, name), type_), (name,), partial(cast_to_readable, type_=type_))
        for name, type_ in types.items()
    ]
    for label, value in scan.computed.items():
        make = partial(_compute, value=value, types=[types[name] for name in value.columns])
        columns.append((pa.field(label, value.type_of(types)), value.columns, make))
    return columns


def _list_names(chosen: _Chosen) -> list[str]:
    return list(dict.fromkeys(name for names, _ in chosen for name in names))


def _make_arrays(chosen: _Chosen, arrays: Mapping[str, pa.Array]) -> list[pa.Array]:
    return [make(*[arrays[name] for name in names]) for names, make in chosen]


def _no_column(scan: Scan) -> pa.Field:
    return pa.field(f"{scan.source.number}.{_NO_COLUMN}", pa.uint8())


def _compute(*arrays: pa.Array, value: ScanComputation, types: Sequence[pa.DataType]) -> pa.Array:
    return value.of(*[cast_to_readable(array, type_) for array, type_ in zip(arrays, types, strict=True)])


def _split_first_rows(ranges: Sequence[RowRange], rows: int) -> tuple[list[RowRange], list[RowRange]]:
    """Splits off the first ``rows`` rows of the first range."""
    if not rows or not ranges:
        return [], list(ranges)
    begin, end = ranges[0].begin, ranges[0].end
    middle = min(begin + rows, end)
    return [RowRange(begin, middle)], [item for item in (RowRange(middle, end), *ranges[1:]) if item.rows]


def _read(relation: ArrowRelation, scan: Scan, names: list[str]) -> pa.Table:
    if isinstance(relation, KeyedRelation):
        return relation.read_keys(find_allowed_values(scan, relation.key_column, fold_constant), names)
    return relation.read(names)


def _find_cheapest_column(scan: Scan) -> list[str]:
    """Returns the cheapest column to count rows by; a file's first, whose values must be read anyhow."""
    if isinstance(scan.source.relation, StreamedRelation):
        return [next(iter(scan.source.columns))]
    return [min(scan.source.columns, key=lambda name: _width(scan.definitions[name].type.arrow))]


def _width(type_: pa.DataType) -> int:
    try:
        return int(type_.bit_width)
    except ValueError:  # of no fixed width
        return sys.maxsize


def _table_batches(names: list[str], table: pa.Table) -> Iterator[tuple[list[pa.Array], int]]:
    for batch in table.to_batches(max_chunksize=65536):
        yield [batch.column(name) for name in names], batch.num_rows


def _virtual(name: str, pruned: PrunedPart, rows: int) -> pa.Array:
    value = read_part_name_column(name, pruned.part)
    indices = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def count_batches(
    batches: Iterator[tuple[list[pa.Array], int]], state: ScanState, *, is_limited: bool = True
) -> Iterator[list[pa.Array]]:
    """Counts what is read, and stops when the query ends.

    An error is also kept in ``state``, since DuckDB would wrap it.
    """
    zeros = pa.array(np.zeros(0, np.uint8))
    statistics = state.statistics
    has_limits = is_limited and bool(state.limits.limits)
    try:
        for arrays, rows in batches:
            if state.cancelled:
                return
            state.status.check()
            if not arrays:
                if len(zeros) < rows:
                    zeros = pa.array(np.zeros(rows, np.uint8))
                arrays = [zeros.slice(0, rows)]
            statistics.read_rows += rows
            statistics.read_bytes += sum(array.nbytes for array in arrays)
            is_last = has_limits and state.limits.is_passed(statistics.read_rows, statistics.read_bytes)
            yield arrays
            if is_last:
                return
    except PandoError as error:
        state.error = error
        raise
    except Exception as error:
        state.error = PandoError("STD_EXCEPTION", f"Reading failed: {type(error).__name__}: {error}")
        raise
