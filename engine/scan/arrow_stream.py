"""Reads the rows of a slot and encodes them as an Arrow stream of storage values.

The columns are those of ``engine.scan.sent_columns``. Small batches (of small parts) are joined before they are sent,
and large ones (of long rows) are cut, because a reader holds one batch at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from engine.scan.block_filter import make_block_filter
from engine.scan.sent_columns import CompactForm, PlainForm, find_dictionaries, to_compact_batch
from engine.tables.capabilities.block_history import WantedBlocks
from parts.blocks.spark_batches import to_spark_batch
from parts.common.errors import UserError
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.read.row_filters import AllOf, RowFilter
from parts.table.table_description import Column

BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
_TESTED_ROWS = 4 * BATCH_ROWS
_PIECE_BYTES = 256 << 10
_SHORT_PIECE_BYTES = 32 << 10
MAX_SILENCE_SECONDS = 5.0
"""Clients take a server that sends nothing for longer than this for dead."""

Piece = bytes | memoryview


def read_batches(
    pieces: Sequence[tuple[Part, Sequence[MarkRange]]],
    columns: Sequence[Column],
    keep: RowFilter | None = None,
    blocks: WantedBlocks | None = None,
    *,
    behind: int = 0,
    clock: Callable[[], float] = lambda: 0.0,
    is_compact: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the pieces in order, in batches of a size worth sending.

    Only rows of ``blocks`` that ``keep`` accepts are sent, without the first ``behind`` of them. Yields at least one
    batch, and an empty one after ``MAX_SILENCE_SECONDS`` without rows. ``is_compact`` decimals have 8 bytes if they
    fit, and String columns are dictionaries if all of their frames are.
    """
    names = [column.name for column in columns]
    form = CompactForm(find_dictionaries(pieces, columns)) if is_compact else PlainForm()
    schema = pa.schema([pa.field(c.name, form.get_type(c), c.type.is_nullable) for c in columns])
    if keep is None and blocks is None and not any(part.has_deleted_rows for part, _ in pieces):
        pieces, behind = _skip_granules(pieces, behind)
    none = pa.RecordBatch.from_pylist([], schema=schema)
    held: list[pa.RecordBatch] = []
    rows = size = 0
    is_empty, sent = True, clock()
    for part, ranges in pieces:
        filters = [make_block_filter(part, blocks) if blocks is not None else None, keep]
        tests = [each for each in filters if each is not None]
        for read_batch in part.read(
            names,
            ranges,
            max_batch_rows=_batch_rows(part, names, tests),
            is_short=is_compact,
            with_dictionaries=is_compact,
            test=AllOf(tests) if tests else None,
        ):
            for batch in _cut(read_batch):
                if behind >= batch.num_rows:
                    behind -= batch.num_rows
                    continue
                batch, behind = batch.slice(behind), 0
                if held and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
                    yield _join(held)
                    held, rows, size, sent = [], 0, 0, clock()
                arrays = [form.convert(array, column) for array, column in zip(batch.columns, columns, strict=False)]
                held.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
                rows, size, is_empty = rows + batch.num_rows, size + batch.nbytes, False
            if clock() - sent > MAX_SILENCE_SECONDS:
                yield none
                is_empty, sent = False, clock()
    if held:
        yield _join(held)
    elif is_empty:
        yield none


def _skip_granules(
    pieces: Sequence[tuple[Part, Sequence[MarkRange]]], rows: int
) -> tuple[list[tuple[Part, list[MarkRange]]], int]:
    """Skips whole granules of the first ``rows`` rows.

    Returns the remaining pieces, and how many rows are still to be skipped.
    """
    left = []
    for part, ranges in pieces:
        kept = []
        for item in ranges:
            passed = min(item.end - item.begin, rows // part.granularity)
            if rows >= min(item.end * part.granularity, part.rows) - item.begin * part.granularity:
                passed = item.end - item.begin
            begin = item.begin + passed
            rows -= min(begin * part.granularity, part.rows) - item.begin * part.granularity
            if begin < item.end:
                kept.append(MarkRange(begin, item.end))
        if kept:
            left.append((part, kept))
    return left, rows


def _batch_rows(part: Part, columns: Sequence[str], tests: Sequence[RowFilter]) -> int:
    """Returns the number of rows to read at a time, from the average size of the part's rows.

    It is larger where rows are tested, because each test has a price of its own.
    """
    sizes = part.column_sizes()
    names = {*columns, *(name for test in tests for name in test.columns)}
    size = sum(sizes[name][1] for name in names if name in sizes)
    return max(1, min(_TESTED_ROWS if tests else BATCH_ROWS, BATCH_BYTES * part.rows // max(size, 1)))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits a batch into pieces of bounded size."""
    if (batch.nbytes <= BATCH_BYTES and batch.num_rows <= BATCH_ROWS) or batch.num_rows < 2:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from _cut(batch.slice(0, middle))
    yield from _cut(batch.slice(middle))


def take_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yields the first ``limit`` rows; at least one batch, as ``batches`` does."""
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


def convert_to_spark(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, truncates: bool, is_compact: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields the batches in the types of ``schema`` (``engine.scan.push_down.spark_types``), or compact.

    Raises 53 for another number of columns, and 70 for what would lose something.
    """
    for batch in batches:
        if batch.num_columns != len(schema):
            raise UserError(
                "TYPE_MISMATCH", f"The scan has {batch.num_columns} columns, 'spark_fields' has {len(schema)}"
            )
        yield (to_compact_batch if is_compact else to_spark_batch)(batch, schema, truncates=truncates)


def encode_stream(batches: Iterator[pa.RecordBatch], compression: str | None) -> Iterator[list[Piece]]:
    """Yields the bytes of an Arrow IPC stream in pieces, batch by batch.

    The end mark comes last. Pieces share memory with the batches. Each is sent by itself, so none is tiny or long.
    """
    first = next(batches)
    sink = _Pieces()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, first.schema, options=options) as writer:
        writer.write_batch(first)
        yield sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Pieces(io.RawIOBase):
    """A file that collects what a writer writes without a copy, to be taken piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._short: list[Piece] = []
        self._short_bytes = self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        size = len(data)
        self._position += size
        if size > _SHORT_PIECE_BYTES:
            self._join_short()
            view = memoryview(data)
            self._pieces += [view[start : start + _PIECE_BYTES] for start in range(0, size, _PIECE_BYTES)]
        else:
            self._short.append(bytes(data))
            self._short_bytes += size
            if self._short_bytes > _SHORT_PIECE_BYTES:
                self._join_short()
        return size

    def take(self) -> list[Piece]:
        """Returns what was written since the last call."""
        self._join_short()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _join_short(self) -> None:
        if self._short:
            self._pieces.append(b"".join(self._short))
            self._short, self._short_bytes = [], 0


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]
