"""Make a part from another one: the same rows with other values in some columns, or some of the rows.

Unchanged data is not copied: :func:`clone_part` links all files, :func:`rewrite_columns` those of the unchanged columns
of a wide part. A compact part is written again, because its columns are in one file. The result is a temporary part in
``directory`` (new and empty), fsynced, with the description's schema version. Its content hash depends only on the
rows. The digest of a linked column is in the checksums of the source.

All functions take the source as the description's schema sees it (``Part.adapt_to_schema``). On any error
``directory`` is removed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from parts.common import thread_pool
from parts.format.columns_file import ColumnsFile
from parts.format.content_hash import ColumnHasher
from parts.format.file_names import get_column_file_name
from parts.format.hashed_file import link_files
from parts.merge.part_merge import DENSE_ENCODING_MIN_BYTES
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.skip_indexes.index_builder import SkipIndexBuilder
from parts.skip_indexes.skip_index_file import EncodedSkipIndex
from parts.table.block_number_column import make_block_number_column
from parts.table.row_exists_column import ROW_EXISTS_COLUMN
from parts.table.row_version import make_hidden_columns
from parts.table.table_description import Column, Key, SkipIndex, TableDescription, TableSchema
from parts.table.ttl_rules import NO_TTL, RuleKind, TableTtl, TtlCollector
from parts.write.column_writer import ColumnSummary
from parts.write.part_stamp import stamp_part
from parts.write.part_summary import WrittenColumns
from parts.write.part_writer import PartWriter, WrittenPart

_NO_KEY = Key((), (), (), lambda _: [])
_FEW_ROWS = 65_536


def clone_part(source: Part, directory: Path, description: TableDescription) -> None:
    """Links all files of the part into ``directory``. A position that was filled in is written."""
    link_files(source.path, directory, should_sync=description.settings.fsync_part_directory)
    if source.row_version != open_part(directory).row_version:
        stamp_part(directory, source.row_version, description.settings)


def rewrite_columns(
    source: Part,
    directory: Path,
    description: TableDescription,
    names: Collection[str],
    blocks: Iterator[pa.Table],
    gone: Collection[str] = (),
    indexes: Collection[str] = (),
    ttl: TtlCollector | None = None,
) -> WrittenPart:
    """Writes all rows of the source, with the columns ``names`` taken from ``blocks``.

    ``blocks`` have all rows, in order, with only these columns. The other columns are the source's, without those
    ``gone``. The skip ``indexes`` named, and all of changed columns, are built again; the others are the source's.
    ``ttl`` has the times of the rows; without it, the source's times that still hold.
    """
    columns = _columns(source, description.schema, names, gone)
    changed = {*names, *source.converted_columns}
    if source.part_type == "Wide":
        return _rewrite_wide(source, directory, description, columns, changed, blocks, indexes, ttl)
    ttl = ttl or _collector(source, description, columns, changed)
    with _writing(_writer(source, directory, description, columns, ttl)) as writer:
        for block in _compute_ahead(source, _completed(source, columns, blocks)):
            writer.append(block)
        return writer.finish()


def rewrite_rows(
    source: Part,
    directory: Path,
    description: TableDescription,
    blocks: Iterator[pa.Table],
    gone: Collection[str] = (),
    ttl: TtlCollector | None = None,
) -> WrittenPart:
    """Writes some rows of the source, in their order.

    ``blocks`` have all columns of :func:`list_rewritten_columns`, in this order, as the source reads them, without
    deleted rows. Strings may be ``parts.blocks.dictionary_strings``. The result lacks the columns ``gone``.
    """
    columns = [column for column in list_rewritten_columns(source, description.schema) if column.name not in gone]
    names = [column.name for column in columns]
    ttl = ttl or _collector(source, description, columns, source.converted_columns)
    with _writing(_writer(source, directory, description, columns, ttl)) as writer:
        for block in _compute_ahead(source, blocks):
            writer.append_conformed(block.select(names))
        return writer.finish()


def list_rewritten_columns(source: Part, schema: TableSchema) -> list[Column]:
    """Returns the columns of a part of some rows: with the source's block numbers and versions."""
    hidden = (make_block_number_column(), *make_hidden_columns())
    return [*schema.stored.columns, *(column for column in hidden if column.name in source.schema)]


def _columns(source: Part, schema: TableSchema, new: Collection[str], gone: Collection[str]) -> list[Column]:
    there = {*source.readable_columns, *source.converted_columns, *new}.difference(gone)
    hidden = (make_block_number_column(), *make_hidden_columns(), ROW_EXISTS_COLUMN)
    return [column for column in (*schema.stored.columns, *hidden) if column.name in there]


def _writer(
    source: Part,
    directory: Path,
    description: TableDescription,
    columns: Sequence[Column],
    ttl: TtlCollector,
) -> PartWriter:
    return PartWriter(
        directory,
        replace(description, schema=TableSchema(tuple(columns))),
        [array[0] for _, _, array in source.partition_arrays],
        expected_bytes=source.data_uncompressed_bytes,
        expected_rows=source.rows,
        is_dense=_is_dense(source),
        with_dictionaries=True,
        ttl=ttl,
        row_version=source.row_version,
    )


def _collector(
    source: Part, description: TableDescription, columns: Sequence[Column], changed: Collection[str]
) -> TtlCollector:
    """Collects the times again, except those of column rules, whose expired values are already replaced."""
    ttl = description.ttl
    known = TableTtl(tuple(ttl.list_rules(RuleKind.COLUMN))).keep_unchanged(source.get_applicable_ttl(ttl), changed)
    readable = ttl.limit_to_columns([column.name for column in columns])
    return TtlCollector(readable, codec=source.ttl.codec, known=known)


def _is_dense(source: Part) -> bool:
    large = source.name.level > 0 and source.data_uncompressed_bytes >= DENSE_ENCODING_MIN_BYTES
    return large and not source.ttl.codec


def _compute_ahead(source: Part, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yields the blocks, each computed while the one before is written. Few rows need no thread."""
    if source.rows <= _FEW_ROWS:
        yield from blocks
        return
    with thread_pool.make_executor(1, "rewrite") as thread:
        coming = thread.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = thread.submit(next, blocks, None)
            yield block


def _completed(source: Part, columns: Sequence[Column], blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yields the blocks with all columns; missing ones come from the same rows of the source."""
    begin = 0
    for block in blocks:
        end = begin + block.num_rows
        others = [column.name for column in columns if column.name not in block.column_names]
        if others:
            read = source.read_rows(others, [RowRange(begin, end)], max_batch_rows=block.num_rows, with_deleted=True)
            for name, values in zip(others, pa.Table.from_batches(read).itercolumns(), strict=True):
                block = block.append_column(name, values)
        begin = end
        yield block


@contextmanager
def _writing(writer: PartWriter) -> Iterator[PartWriter]:
    try:
        yield writer
    except BaseException:
        writer.abort()
        raise


def _rewrite_wide(
    source: Part,
    directory: Path,
    description: TableDescription,
    columns: Sequence[Column],
    written: Collection[str],
    blocks: Iterator[pa.Table],
    made: Collection[str],
    ttl: TtlCollector | None,
) -> WrittenPart:
    """Rewrites a wide part. ``written`` are the columns that get files of their own."""
    own = [column for column in columns if column.name in written]
    settings = replace(description.settings, index_granularity=source.granularity)
    own_description = replace(
        description,
        schema=TableSchema(tuple(own)),
        sorting_key=_NO_KEY,
        partition_key=_NO_KEY,
        settings=settings,
        indexes=(),
        ttl=NO_TTL,
    )
    writer = PartWriter(
        directory,
        own_description,
        [],
        is_dense=_is_dense(source),
        with_dictionaries=True,
        ttl=TtlCollector(NO_TTL, codec=source.ttl.codec),
    )
    with _writing(writer):
        kept, changed = _divide_indexes(source, description, written, made)
        needed = [column for column in columns if any(column.name in index.key.columns for index in changed)]
        indexes = SkipIndexBuilder(changed, TableSchema(tuple(needed)), source.granularity)
        if own or needed:
            for block in _compute_ahead(source, _completed(source, list(dict.fromkeys([*own, *needed])), blocks)):
                if own:
                    writer.append(block)
                indexes.add(block)
        for name, data in indexes.encode_files(kept).items():
            writer.add_file(name, data)
        new = writer.finish_columns()
        return writer.finish_with_columns(_link_other_columns(source, directory, description, columns, own, new, ttl))


def _divide_indexes(
    source: Part, description: TableDescription, written: Collection[str], made: Collection[str]
) -> tuple[list[EncodedSkipIndex], list[SkipIndex]]:
    """Returns the skip indexes to keep from the source, and those to build again."""
    kept, changed = [], []
    for index in description.indexes:
        found = None if source.skip_index_file is None else source.skip_index_file.find_index(index)
        if index.name in made or set(written) & set(index.key.columns):
            changed.append(index)
        elif found is not None and source.read_skip_index(index) is not None:
            kept.append(found)
    return kept, changed


def _link_other_columns(
    source: Part,
    directory: Path,
    description: TableDescription,
    columns: Sequence[Column],
    own: Sequence[Column],
    new: WrittenColumns,
    ttl: TtlCollector | None,
) -> WrittenColumns:
    """Links the files of the other columns, and returns the facts of all columns."""
    old = source.to_part_metadata()
    schema = TableSchema(tuple(columns))
    places = {column.name: place for place, column in enumerate(own)}
    facts, marks, sums = [], [], dict(new.file_checksums)
    for column, field in zip(columns, schema.arrow, strict=True):
        if column.name in places:
            facts.append(new.columns[places[column.name]])
            marks.append(new.content.marks[places[column.name]])
            continue
        stored = source.stored_name(column.name)
        os.link(source.path / get_column_file_name(stored), directory / get_column_file_name(column.name))
        sums[get_column_file_name(column.name)] = source.checksums.files[get_column_file_name(stored)]
        facts.append(_facts_of(source, stored, column.name, field))
        marks.append(old.marks[source.schema.names.index(stored)])
    content = replace(
        old,
        columns=ColumnsFile(schema, source.granularity, source.sorting_key),
        marks=marks,
        metadata_version=description.metadata_version,
        ttl=ttl.to_part_ttl()
        if ttl is not None
        else description.ttl.keep_unchanged(source.get_applicable_ttl(description.ttl), places),
    )
    return WrittenColumns(content, facts, sums)


def _facts_of(source: Part, stored: str, name: str, field: pa.Field) -> ColumnSummary:
    digest = source.checksums.digests.get(stored)
    if digest is None:  # the part was written before checksums had digests
        hasher = ColumnHasher(field)
        for batch in source.read([name], with_deleted=True):
            hasher.update(batch.column(0))
        digest = hasher.digest().hex()
    sizes = source.checksums.column_bytes[stored]
    return ColumnSummary(field, *sizes, bytes.fromhex(digest), source.checksums.version)
