"""Write a part of one granule at once, with the same bytes as ``parts.write.part_writer.PartWriter``.

The writer's windows, frames and running hashes are for parts of any size; for a single-row INSERT they were half the
work.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parts.format.array_file import to_plain_array
from parts.format.checksums import Checksums
from parts.format.codecs import Codec
from parts.format.columns_file import ColumnsFile, MinMaxCollector
from parts.format.content_hash import ColumnHasher, has_plain_buffers, hash_plain_buffers
from parts.format.file_names import DATA_FILE
from parts.format.flat_arrays import count_content_bytes, flatten_array
from parts.format.frames import encode_flat_array
from parts.format.marks import ColumnMarks
from parts.format.packed_metadata import pack_files
from parts.format.part_files import PartMetadata
from parts.skip_indexes.index_builder import SkipIndexBuilder
from parts.table.table_description import Key, TableDescription
from parts.table.ttl_rules import TtlCollector
from parts.types import DataType, strip_low_cardinality
from parts.write.column_writer import ColumnSummary
from parts.write.part_summary import WrittenColumns, compute_checksum, encode_metadata

_FIRST_ROW = np.zeros(1, np.uint32)


def encode_small_part(
    block: pa.Table,
    description: TableDescription,
    partition: Sequence[pa.Scalar],
    codecs: Sequence[Codec],
    part_uuid: uuid.UUID,
    granularity: int,
) -> tuple[bytes, Checksums]:
    """Returns ``meta.bin`` of a packed part: at least one row, sorted, conformed, of one granule."""
    rows = block.num_rows
    schema = description.schema.stored
    facts: list[ColumnSummary] = []
    marks: list[ColumnMarks] = []
    pieces: list[bytes | memoryview] = []
    offset = 0
    for field, column, codec in zip(schema.arrow, block.itercolumns(), codecs, strict=True):
        array = to_contiguous_array(column)
        flat = flatten_array(array)
        frame = encode_flat_array(flat, rows, codec)
        pieces += frame.pieces
        marks.append(ColumnMarks(np.array([offset], np.uint64), _FIRST_ROW))
        offset += frame.size
        if has_plain_buffers(field.type, flat):
            facts.append(ColumnSummary(field, frame.size, frame.raw_bytes, hash_plain_buffers(flat)))
        else:
            size = int(count_content_bytes(array, np.array([0, rows]))[0])
            hasher = ColumnHasher(field)
            hasher.update(array)
            facts.append(ColumnSummary(field, frame.size, size, hasher.digest()))
    data = b"".join(pieces)
    key, partition_key = description.sorting_key, description.partition_key
    minmax = MinMaxCollector(schema, partition_key.columns)
    minmax.update(block)
    ttl = TtlCollector(description.ttl)
    ttl.update(block)
    content = PartMetadata(
        columns=ColumnsFile(schema, granularity, key.expressions),
        rows=rows,
        partition=make_partition_arrays(partition_key, partition),
        minmax=minmax.to_named_arrays(),
        primary_index=list(zip(key.expressions, key.types, _first_and_last(block, key), strict=True)),
        marks=marks,
        part_uuid=part_uuid,
        metadata_version=description.metadata_version,
        ttl=ttl.to_part_ttl(),
    )
    builder = SkipIndexBuilder(description.indexes, schema, granularity)
    builder.add(block)
    files = {**builder.encode_files(), DATA_FILE: data}
    sums = {name: compute_checksum(held) for name, held in files.items()}
    meta, checksums = encode_metadata(WrittenColumns(content, facts, sums), is_packed=True)
    return pack_files(meta | files), checksums


def make_partition_arrays(key: Key, values: Sequence[pa.Scalar]) -> list[tuple[str, DataType, pa.Array]]:
    """Returns the entries of the file ``partition``."""
    return [
        (text, type_, pa.array([value], strip_low_cardinality(type_).arrow))
        for text, type_, value in zip(key.expressions, key.types, values, strict=True)
    ]


def _first_and_last(block: pa.Table, key: Key) -> list[pa.Array]:
    """Returns the sorting key of the first and the last row."""
    if not key:
        return []
    needed = block.select(list(dict.fromkeys(key.columns)))
    rows = needed.num_rows
    edges = pa.concat_tables([needed.slice(0, 1), needed.slice(rows - 1, 1)])
    return [to_plain_array(array, type_) for array, type_ in zip(key.evaluate(edges), key.types, strict=True)]


def to_contiguous_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    return pa.concat_arrays(column.chunks)
