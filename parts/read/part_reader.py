"""Reading parts.

A read plans *batches*, runs of rows whose frames begin together, and yields them in row order. The pool's threads
decode them from memory-mapped files ahead of the consumer (decompression releases the GIL). The consumer decodes small
batches itself: handing them over would cost more. Of a frame only the rows asked for are decoded.

Invariants

- A :class:`Part` may be used by many threads at once.
- No row is returned before its frame's checksum was compared: wrong bytes raise ``CorruptionError`` with part, file,
  offset.
- No row deleted by a lightweight DELETE is returned, unless asked for (``with_deleted``).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import decode_dictionary
from parts.common.part_name import PartName
from parts.common.thread_pool import POOL_THREADS
from parts.format.frames import decode_frame, decode_rows, has_dictionary, read_raw_size
from parts.format.marks import ColumnMarks
from parts.format.primary_index import MarkRange, normalize_mark_ranges
from parts.read.batch_plan import RowRange, get_row_ranges, plan_batches
from parts.read.frame_cache import FRAME_CACHE, MAX_CACHED_FRAME_BYTES
from parts.read.missing_columns import MissingColumns
from parts.read.opened_part import OpenedPart
from parts.read.read_ahead import decode_ahead
from parts.read.row_filters import AllOf, ExistingRows, RowFilter, filter_batches
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS, get_existing_rows
from parts.table.table_description import TableSchema

_INLINE_VALUES = 300_000
_FEW_SHARE = 4
"""If fewer than one in this many rows pass a test, they are taken out of their batch."""


def open_part(
    path: Path,
    *,
    name: PartName | None = None,
    table_schema: TableSchema | None = None,
    written: bytes = b"",
    is_known: bool = False,
) -> Part:
    """Opens the part in directory ``path``. Reads and checks only the small metadata.

    ``name`` defaults to the directory's name. ``table_schema`` gives the types of columns added after the part was
    written. ``written`` is ``meta.bin`` from a caller that has just written the part: it is neither read nor checked
    again. ``is_known``: another process has opened the part, so its files are not checked now.
    """
    return Part(Path(path), name, table_schema, written, is_known=is_known)


class Part(OpenedPart):
    """A part on disk that can be read."""

    def adapt_to_schema(self, table_schema: TableSchema) -> Self:
        part = super().adapt_to_schema(table_schema)
        if part is not self:
            part.__dict__.pop("_cache_owner", None)  # its frames are dropped with the original
        return part

    def read(
        self,
        columns: Sequence[str],
        ranges: Sequence[MarkRange] | None = None,
        *,
        max_batch_rows: int = 65536 * 4,
        max_threads: int = 0,
        is_short: bool = False,
        with_dictionaries: bool = False,
        test: RowFilter | None = None,
        with_deleted: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of ``columns`` in that order, rows in order. ``ranges`` are granules (default: all).

        A column the part lacks is computed from its DEFAULT, if the table's schema has it (otherwise error 16). Without
        columns the batches have only row counts. Granules are never cut unless one exceeds ``max_batch_rows``. At most
        ``max_threads`` of the pool's threads are used (0: all); 1 leaves the work to the caller's thread. The other
        arguments are those of :meth:`read_rows`.
        """
        chosen = get_row_ranges(normalize_mark_ranges(ranges, self.marks), self.rows, self.granularity)
        return self.read_rows(
            columns,
            chosen,
            max_batch_rows=max_batch_rows,
            max_threads=max_threads,
            is_short=is_short,
            with_dictionaries=with_dictionaries,
            test=test,
            with_deleted=with_deleted,
        )

    def read_rows(
        self,
        columns: Sequence[str],
        ranges: Sequence[RowRange],
        *,
        max_batch_rows: int = 65536 * 4,
        max_threads: int = 0,
        is_short: bool = False,
        with_dictionaries: bool = False,
        test: RowFilter | None = None,
        with_deleted: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches as :meth:`read`, for ``ranges`` of rows: in order, disjoint and inside the part.

        With ``is_short`` decimals are 8 bytes wide (``parts.format.decimal64``). ``with_dictionaries`` keeps strings as
        their frames store them (``parts.blocks.dictionary_strings``), and batches are cut where such a frame ends,
        which saves a copy. Rows that fail the ``test`` may be left out; those that fail an exact one are. With an exact
        one there must be a column to read, and a batch may be empty.
        """
        if test is not None and test.is_exact:
            exact = AllOf((ExistingRows(), test)) if self.has_deleted_rows and not with_deleted else test
            with_deleted = True
            if not self._can_test_first(exact.columns, columns):
                every = list(dict.fromkeys([*columns, *exact.columns]))
                batches = self.read_rows(
                    every, ranges, max_batch_rows=max_batch_rows, max_threads=max_threads, with_deleted=True
                )
                yield from filter_batches(batches, exact, columns)
                return
            test = exact
        if self.has_deleted_rows and not with_deleted:
            every = list(dict.fromkeys([*columns, ROW_EXISTS]))
            batches = self._read_stored(
                every, ranges, max_batch_rows, max_threads, test, is_short=is_short, with_dictionaries=with_dictionaries
            )
            yield from _filter_deleted(batches, columns)
            return
        yield from self._read_stored(
            columns, ranges, max_batch_rows, max_threads, test, is_short=is_short, with_dictionaries=with_dictionaries
        )

    def _read_stored(
        self,
        columns: Sequence[str],
        ranges: Sequence[RowRange],
        max_batch_rows: int,
        max_threads: int,
        test: RowFilter | None,
        *,
        is_short: bool,
        with_dictionaries: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches as :meth:`read_rows`, also with deleted rows."""
        wanted = [self._column(name) for name in columns]
        known = {*self._positions, PART_OFFSET}
        absent = MissingColumns(columns, known, self._column)
        stored = list(absent.to_read)
        in_files = [name for name in stored if name in self._positions]
        marks = [self._marks[self._positions[name]] for name in in_files]
        sizes = [self.checksums.column_bytes[self.stored_name(name)][1] // max(self.rows, 1) for name in in_files]
        batches = plan_batches(ranges, self.granularity, marks, max_batch_rows, max(sizes, default=0))
        schema = TableSchema(tuple(wanted)).arrow
        if not known.issuperset(columns):  # defaults read all rows in storage types
            is_short, with_dictionaries, test = False, False, None
        read_column = partial(self._read_column, is_short=is_short, with_dictionaries=with_dictionaries)
        read_batch = partial(_read_batch, read_column, test=test)
        if max_threads == 1 or sum(batch.rows for batch in batches) * len(stored) <= _INLINE_VALUES:
            decoded: Iterator[list[pa.Array]] = (read_batch(batch, stored) for batch in batches)
        else:
            decoded = decode_ahead(
                batches,
                stored,
                sum(sizes),
                min(max_threads or POOL_THREADS, POOL_THREADS),
                read_batch,
                is_split=test is None,
            )
        for batch, arrays in zip(batches, decoded, strict=True):
            if test is not None and not arrays:
                if test.is_exact:
                    yield pa.RecordBatch.from_pylist([], schema)
                continue
            found = dict(zip(stored, arrays, strict=True))
            rows = batch.rows if test is None else len(arrays[0])
            filled = absent.compute(found, rows)
            arrays = [filled[name] for name in columns]
            if is_short or with_dictionaries:
                given = zip(schema, arrays, strict=True)
                schema = pa.schema([field.with_type(array.type) for field, array in given])
            yield from _sliced(arrays, schema, rows, max_batch_rows)

    def _can_test_first(self, tested: Collection[str], columns: Collection[str]) -> bool:
        """Tells whether rows can be tested before ``columns`` are decoded: no default computes them from others."""
        known = {*self._positions, PART_OFFSET}
        return known.issuperset(columns) and known.union(NAME_COLUMNS).issuperset(tested)

    def check_conversions(self) -> None:
        """Raises ``UserError`` for a stored value that cannot be converted to its column's current type."""
        for _ in self.read(self.converted_columns) if self.converted_columns else ():
            pass

    def read_row_range(self, columns: Sequence[str], chosen: RowRange) -> list[pa.Array] | None:
        """Returns the rows of the columns, decoded at once in the caller's thread.

        Returns ``None`` if the part lacks a column, or may have deleted rows.
        """
        if self.has_deleted_rows or not all(name in self._positions for name in columns):
            return None
        return [self._read_few_rows(self._positions[name], chosen) for name in columns]

    def _read_few_rows(self, position: int, chosen: RowRange) -> pa.Array:
        pieces = []
        for offset, first, rows in self._frames_of(self._marks[position], chosen):
            frame = self._frame(position, offset)
            if frame is None:
                return self._read_position(position, chosen)
            pieces.append(frame.slice(first, rows))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(_same_dictionary(pieces))

    def _frame(self, position: int, offset: int) -> pa.Array | None:
        """Returns a whole frame and caches it for later small reads; ``None`` for a large one."""
        key = self._cache_owner, position, offset
        found = FRAME_CACHE.find(key)
        if found is None:
            column = self.schema.columns[position]
            file = self._stored_file(column.name)
            data = self._mapped(file)
            if read_raw_size(data, offset, self._label, file) > MAX_CACHED_FRAME_BYTES:
                return None
            found = decode_frame(data, offset, column.type.arrow, self._label, file, is_kept=True)
            FRAME_CACHE.add(key, found)
        return found

    @cached_property
    def _cache_owner(self) -> int:
        owner = FRAME_CACHE.add_owner()
        weakref.finalize(self, FRAME_CACHE.drop_owner, owner)
        return owner

    def count_undecoded_bytes(self, columns: Sequence[str], chosen: RowRange) -> int:
        """Returns the uncompressed bytes of the frames that :meth:`read_row_range` would have to decode."""
        return sum(
            read_raw_size(self._mapped(self._file_of(name)), offset, self._label, self._file_of(name))
            for name in columns
            if (position := self._positions.get(name)) is not None
            for offset, _, _ in self._frames_of(self._marks[position], chosen)
            if not FRAME_CACHE.contains((self._cache_owner, position, offset))
        )

    def starts_with_dictionary(self, column: str) -> bool:
        """Tells whether the column's first frame has a dictionary."""
        if column not in self._positions or not self.rows:
            return False
        file = self._file_of(column)
        offset = int(self._marks[self._positions[column]].offsets[0])
        return has_dictionary(self._mapped(file), offset, self._label, file)

    def has_only_dictionaries(self, column: str, ranges: Sequence[MarkRange]) -> bool:
        """Tells whether all frames of the column in these granules have dictionaries."""
        if column not in self._positions:
            return False
        file, marks = self._file_of(column), self._marks[self._positions[column]]
        data = self._mapped(file)
        offsets = np.unique(np.concatenate([marks.offsets[item.begin : item.end] for item in ranges]))
        return all(has_dictionary(data, int(offset), self._label, file) for offset in offsets)

    def _read_column(
        self, name: str, chosen: RowRange, is_short: bool = False, with_dictionaries: bool = False
    ) -> pa.Array | pa.ChunkedArray:
        if name == PART_OFFSET and name not in self._positions:
            return pa.array(np.arange(chosen.begin, chosen.end, dtype=np.uint64))
        if name not in self._positions:
            constant = self._column(name).default
            assert constant is not None, name
            return constant.evaluate(pa.table({}), chosen.rows).combine_chunks()
        return self._read_position(self._positions[name], chosen, is_short, with_dictionaries)

    def _read_position(
        self, position: int, chosen: RowRange, is_short: bool = False, with_dictionaries: bool = False
    ) -> pa.Array | pa.ChunkedArray:
        """Reads a stored column. With ``with_dictionaries`` strings have a chunk for each frame."""
        column = self.schema.columns[position]
        type_ = column.type.arrow
        file = self._stored_file(column.name)
        data = self._mapped(file)
        pieces = [
            decode_rows(
                data,
                offset,
                type_,
                self._label,
                file,
                first,
                rows,
                is_short=is_short,
                with_dictionaries=with_dictionaries,
            )
            for offset, first, rows in self._frames_of(self._marks[position], chosen)
        ]
        if len(pieces) == 1:
            return pieces[0]
        if with_dictionaries and pa.types.is_string(type_):
            return pa.chunked_array(
                pieces if len({piece.type for piece in pieces}) == 1 else map(decode_dictionary, pieces)
            )
        return pa.concat_arrays(_same_dictionary(pieces))

    def _frames_of(self, marks: ColumnMarks, chosen: RowRange) -> Iterator[tuple[int, int, int]]:
        """Yields the frames with the rows: offset of the frame, first row in it, number of rows."""
        granule = chosen.begin // self.granularity
        end_granule = -(-chosen.end // self.granularity)
        if granule + 1 == end_granule:
            first = int(marks.rows[granule]) + chosen.begin - granule * self.granularity
            yield int(marks.offsets[granule]), first, chosen.end - chosen.begin
            return
        offsets = marks.offsets[granule:end_granule]
        begins = [0, *(np.flatnonzero(offsets[1:] != offsets[:-1]) + 1).tolist(), len(offsets)]
        row = chosen.begin
        for begin, end in itertools.pairwise(begins):
            first = int(marks.rows[granule + begin]) + row - (granule + begin) * self.granularity
            next_row = min(chosen.end, (granule + end) * self.granularity)
            yield int(offsets[begin]), first, next_row - row
            row = next_row


def _filter_deleted(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows that are not deleted, with only the columns ``names``."""
    for batch in batches:
        mask = get_existing_rows(batch.column(ROW_EXISTS))
        if not names:
            rows = batch.num_rows if mask is None else mask.true_count
            yield from _empty_batches(rows, max(rows, 1))
            continue
        batch = batch.select(list(names))
        if mask is not None:
            batch = batch.filter(mask)
        if batch.num_rows:
            yield batch


ReadColumn = Callable[[str, RowRange], pa.Array | pa.ChunkedArray]


def _read_batch(
    read_column: ReadColumn, batch: RowRange, stored: Sequence[str], *, test: RowFilter | None
) -> list[pa.Array]:
    """Returns the columns of the batch, or none of them if no row passes the test."""
    if test is None:
        return [read_column(name, batch) for name in stored]
    tested: dict[str, pa.Array] = {}

    def read(name: str) -> pa.Array:
        if name not in tested:
            found = read_column(name, batch)
            tested[name] = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        return tested[name]

    mask = test.match_rows(read, batch.rows)
    found = np.flatnonzero(mask)
    if not len(found):
        return []
    arrays = [tested[name] if name in tested else read_column(name, batch) for name in stored]
    if len(found) > batch.rows // _FEW_SHARE:
        is_kept = len(found) == batch.rows or not test.is_exact
        return arrays if is_kept else [array.filter(pa.array(mask)) for array in arrays]
    chosen = pa.array(found)
    return [array.take(chosen) for array in arrays]


def _same_dictionary(frames: list[pa.Array]) -> list[pa.Array]:
    if pa.types.is_dictionary(frames[0].type):
        return pa.chunked_array(frames).unify_dictionaries().chunks
    return frames


def _sliced(arrays: list[pa.Array], schema: pa.Schema, rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    if not arrays:
        yield from _empty_batches(rows, limit)
        return
    if any(isinstance(array, pa.ChunkedArray) for array in arrays):
        yield from pa.Table.from_arrays(arrays, schema=schema).to_batches(limit)
        return
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for start in range(0, rows, limit):
        yield batch if rows <= limit else batch.slice(start, limit)


def _empty_batches(rows: int, limit: int) -> Iterator[pa.RecordBatch]:
    """Yields batches of rows without columns, as for ``SELECT count()``."""
    for start in range(0, rows, limit):
        count = min(limit, rows - start)
        yield pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
