"""A part of one granule, made at once: byte for byte what :class:`parts.write.part_writer.PartWriter` writes for the
same rows.

The writer's windows, frames and running hashes are for parts of any size; of a single-row INSERT they were half the
work.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parts.format.array_file import plain_array, plain_type
from parts.format.checksums import Checksums
from parts.format.codecs import Codec
from parts.format.columns_file import ColumnsFile, MinMax
from parts.format.content_hash import ColumnHasher, has_plain_buffers, plain_digest
from parts.format.file_names import DATA_FILE
from parts.format.flat_arrays import content_bytes, flatten
from parts.format.frames import encode_flat
from parts.format.marks import ColumnMarks
from parts.format.packed_metadata import pack
from parts.format.part_files import PartContent
from parts.skip_indexes.index_builder import IndexBuilder
from parts.table.table_description import Key, TableDescription
from parts.table.ttl_rules import TtlCollector
from parts.types import DataType
from parts.write.column_writer import ColumnFacts
from parts.write.part_summary import WrittenColumns, checksum_of, summarize

_FIRST_ROW = np.zeros(1, np.uint32)


def encode_small_part(
    block: pa.Table,
    description: TableDescription,
    partition: Sequence[pa.Scalar],
    codecs: Sequence[Codec],
    part_uuid: uuid.UUID,
    granularity: int,
) -> tuple[bytes, Checksums]:
    """The bytes of ``meta.bin`` of a packed part of these rows: at least one, in order, of one granule, conformed."""
    rows = block.num_rows
    schema = description.schema.stored
    facts: list[ColumnFacts] = []
    marks: list[ColumnMarks] = []
    pieces: list[bytes | memoryview] = []
    offset = 0
    for field, column, codec in zip(schema.arrow, block.itercolumns(), codecs, strict=True):
        array = contiguous(column)
        flat = flatten(array)
        frame = encode_flat(flat, rows, codec)
        pieces += frame.pieces
        marks.append(ColumnMarks(np.array([offset], np.uint64), _FIRST_ROW))
        offset += frame.size
        if has_plain_buffers(field.type, flat):
            facts.append(ColumnFacts(field, frame.size, frame.raw_bytes, plain_digest(flat)))
        else:
            size = int(content_bytes(array, np.array([0, rows]))[0])
            hasher = ColumnHasher(field)
            hasher.update(array)
            facts.append(ColumnFacts(field, frame.size, size, hasher.digest()))
    data = b"".join(pieces)
    key, partition_key = description.sorting_key, description.partition_key
    minmax = MinMax(schema, partition_key.columns)
    minmax.update(block)
    ttl = TtlCollector(description.ttl)
    ttl.update(block)
    content = PartContent(
        columns=ColumnsFile(schema, granularity, key.expressions),
        rows=rows,
        partition=partition_values(partition_key, partition),
        minmax=minmax.entries(),
        primary_index=list(zip(key.expressions, key.types, _first_and_last(block, key), strict=True)),
        marks=marks,
        part_uuid=part_uuid,
        metadata_version=description.metadata_version,
        ttl=ttl.found(),
    )
    builder = IndexBuilder(description.indexes, schema, granularity)
    builder.add(block)
    files = {**builder.files(), DATA_FILE: data}
    sums = {name: checksum_of(held) for name, held in files.items()}
    meta, checksums = summarize(WrittenColumns(content, facts, sums), is_packed=True)
    return pack(meta | files), checksums


def partition_values(key: Key, values: Sequence[pa.Scalar]) -> list[tuple[str, DataType, pa.Array]]:
    """The entries of ``partition``."""
    return [
        (text, type_, pa.array([value], plain_type(type_).arrow))
        for text, type_, value in zip(key.expressions, key.types, values, strict=True)
    ]


def _first_and_last(block: pa.Table, key: Key) -> list[pa.Array]:
    """The sorting key of the first row and of the last one."""
    if not key:
        return []
    needed = block.select(list(dict.fromkeys(key.columns)))
    rows = needed.num_rows
    edges = pa.concat_tables([needed.slice(0, 1), needed.slice(rows - 1, 1)])
    return [plain_array(array, type_) for array, type_ in zip(key.evaluate(edges), key.types, strict=True)]


def contiguous(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.nulls(0, column.type)
    return pa.concat_arrays(column.chunks)
