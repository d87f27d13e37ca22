"""Reads the rows of a slot and encodes them as an Arrow stream of storage values.

Types that a client without ``parts.types`` could not read are sent as text: Enum, UUID, IPv4, IPv6. LowCardinality
stays a dictionary. Everything else is the storage value (DateTime: UTC instants without a zone). Small batches (of
small parts) are joined before they are sent, and large ones (of long rows) are cut, because a reader holds one batch at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from engine.scan.block_filter import make_block_filter
from engine.scan.scan_filter import ScanFilter
from engine.tables.capabilities.block_history import WantedBlocks
from parts.blocks.spark_batches import to_spark_batch
from parts.common.errors import UserError
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
)
from sql.formats.columnar.arrow_and_parquet import OutputPieces
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.text_rendering import render_plain
from sql.formats.format_options import FormatOptions

BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
MAX_SILENCE_SECONDS = 5.0
"""Clients take a server that sends nothing for longer than this for dead."""
_OPTIONS = FormatOptions()


def get_arrow_type(type_: DataType) -> pa.DataType:
    """Returns the Arrow type in which a column is sent."""
    match type_:
        case NullableType(inner):
            return get_arrow_type(inner)
        case LowCardinalityType(inner):
            return pa.dictionary(pa.int32(), get_arrow_type(inner))
        case ArrayType(inner):
            return pa.list_(pa.field("item", get_arrow_type(inner), inner.is_nullable))
        case MapType(key, value):
            return pa.map_(get_arrow_type(key), pa.field("value", get_arrow_type(value), value.is_nullable))
        case TupleType(elements):
            fields = zip(type_.arrow, elements, strict=True)
            return pa.struct(
                [pa.field(field.name, get_arrow_type(inner), field.nullable) for field, (_, inner) in fields]
            )
    format_ = scalar_format(type_)
    return pa.string() if format_ is not None and format_.is_sent_as_text else type_.arrow


def convert_array(array: pa.Array, type_: DataType) -> pa.Array:
    """Converts a column to the type of :func:`get_arrow_type`."""
    if array.type == get_arrow_type(type_):
        return array
    match type_:
        case NullableType(inner):
            return convert_array(array, inner)
        case LowCardinalityType(inner):
            return pa.DictionaryArray.from_arrays(array.indices, convert_array(array.dictionary, inner))
        case ArrayType(inner):
            offsets, mask, flat = list_parts(array)
            return pa.ListArray.from_arrays(offsets, convert_array(flat, inner), type=get_arrow_type(type_), mask=mask)
        case MapType(key, value):
            offsets, _, flat = list_parts(array)
            keys, values = convert_array(flat.field(0), key), convert_array(flat.field(1), value)
            return pa.MapArray.from_arrays(offsets, keys, values, type=get_arrow_type(type_))
        case TupleType(elements):
            children = [
                convert_array(child, inner) for child, (_, inner) in zip(array.flatten(), elements, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=list(get_arrow_type(type_)))
    return render_plain(array, type_, _OPTIONS)


def read_batches(
    pieces: Sequence[tuple[Part, Sequence[MarkRange]]],
    columns: Sequence[Column],
    keep: ScanFilter | None = None,
    blocks: WantedBlocks | None = None,
    *,
    behind: int = 0,
    clock: Callable[[], float] = lambda: 0.0,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the pieces in order, in batches of a size worth sending.

    Only rows of ``blocks`` that ``keep`` accepts are sent, without the first ``behind`` of them. Yields at least one
    batch, and an empty one after ``MAX_SILENCE_SECONDS`` without rows.
    """
    names = [column.name for column in columns]
    read = [*names, *(name for name in keep.columns if name not in names)] if keep else names
    schema = pa.schema([pa.field(c.name, get_arrow_type(c.type), c.type.is_nullable) for c in columns])
    if keep is None and blocks is None and not any(part.has_deleted_rows for part, _ in pieces):
        pieces, behind = _skip_granules(pieces, behind)
    none = pa.RecordBatch.from_pylist([], schema=schema)
    held: list[pa.RecordBatch] = []
    rows = size = 0
    is_empty, sent = True, clock()
    for part, ranges in pieces:
        test = make_block_filter(part, blocks) if blocks is not None else None
        wanted = [*read, BLOCK_NUMBER] if test is not None else read
        for read_batch in part.read(wanted, ranges, max_batch_rows=_batch_rows(part, wanted), test=test):
            if test is not None:
                read_batch = test.keep(read_batch)
            for batch in _cut(keep(read_batch) if keep is not None else read_batch):
                if behind >= batch.num_rows:
                    behind -= batch.num_rows
                    continue
                batch, behind = batch.slice(behind), 0
                if held and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
                    yield _join(held)
                    held, rows, size, sent = [], 0, 0, clock()
                arrays = [
                    convert_array(array, column.type) for array, column in zip(batch.columns, columns, strict=False)
                ]
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


def _batch_rows(part: Part, columns: Sequence[str]) -> int:
    """Returns the number of rows to read at a time, from the average size of the part's rows."""
    sizes = part.column_sizes()
    size = sum(sizes[name][1] for name in columns if name in sizes)
    return max(1, min(BATCH_ROWS, BATCH_BYTES * part.rows // max(size, 1)))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits a batch into pieces of bounded size."""
    if batch.nbytes <= BATCH_BYTES or batch.num_rows < 2:
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
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, truncates: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the batches in the types of ``schema`` (``engine.scan.push_down.spark_types``).

    Raises 53 for another number of columns, and 70 for what would lose something.
    """
    for batch in batches:
        if batch.num_columns != len(schema):
            raise UserError(
                "TYPE_MISMATCH", f"The scan has {batch.num_columns} columns, 'spark_fields' has {len(schema)}"
            )
        yield to_spark_batch(batch, schema, truncates=truncates)


def encode_stream(batches: Iterator[pa.RecordBatch], compression: str | None) -> Iterator[bytes]:
    """Yields the bytes of an Arrow IPC stream, one piece per batch; the last holds the end marker."""
    first = next(batches)
    sink = OutputPieces()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, first.schema, options=options) as writer:
        writer.write_batch(first)
        yield sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]
