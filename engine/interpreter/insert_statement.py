"""INSERT: reads data in a format, or the rows of a query, and writes them as blocks to a table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from engine.catalog.view_targets import resolve_stored_table
from engine.distributed.distributed_insert import DistributedInsert
from engine.interpreter.file_function import parse_structure_argument, write_file
from engine.interpreter.materialized_views.view_inserts import BlockSink, begin_insert
from engine.interpreter.select import run_query
from engine.interpreter.shared_steps import refuse_system_database
from engine.interpreter.statement_kind import StatementKind
from engine.interpreter.transaction_statements import check_transaction_id
from engine.queries.context import Context
from engine.queries.session import QueryResult
from engine.tables.insert_sink import InsertSink
from engine.tables.statement_options import InsertOptions
from engine.tables.table import Table
from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from sql.definitions.column_defaults import cast_block, complete_block, list_insert_columns
from sql.formats.registry import read_blocks
from sql.grammar.statements.statement import FileArguments, Insert
from sql.mutations.row_changes import RowChange
from sql.settings.supported_settings import Settings


def insert(statement: Insert, context: Context) -> QueryResult:
    """Executes an INSERT."""
    if statement.file is not None:
        return _insert_into_file(statement, statement.file, context)
    database = context.database(statement.table.database)
    refuse_system_database(database)
    table = context.server.catalog.table(database, statement.table.table)
    view, table = table, resolve_stored_table(table, context.server.catalog)
    if table.definition.create.view is not None:
        raise UserError("NOT_IMPLEMENTED", f"Method write is not supported by storage {table.definition.engine_name}")
    names = statement.columns
    if view is not table and not names:
        names = tuple(column.name for column in view.description.schema.columns)
    columns = list_insert_columns(table.description.schema, names, statement.except_columns, context.settings)
    if statement.select:
        insert_select(table, columns, statement.select, context)
        return QueryResult()
    blocks = read_blocks(
        statement.format,
        _open_data(statement.inline_data, context.body),
        columns,
        settings=context.settings,
        max_block_rows=context.settings.max_insert_block_size,
        max_block_bytes=context.settings.min_insert_block_size_bytes,
        status=context.status,
    )
    names = tuple(column.name for column in columns)
    is_whole = context.body is None or isinstance(context.body, io.BytesIO)
    _write_blocks(table, blocks, context, of_data=names, is_whole=is_whole)
    return QueryResult()


def insert_select(table: Table, columns: Sequence[Column], query: str, context: Context) -> None:
    """Writes a query's rows; its columns are assigned to ``columns`` by position."""
    result = run_query(query, context)
    types = [type_ for _, type_ in result.columns]
    settings = context.settings
    try:
        squashed = _squash_batches(result.batches, context)
        blocks = map(partial(cast_block, types=types, columns=columns, settings=settings), squashed)
        _write_blocks(table, blocks, context, of_data=())
    finally:
        result.close()


def insert_row_change(table: Table, change: RowChange, context: Context) -> None:
    """Inserts the new versions of rows. Materialized views do not see them, as they see no mutation."""
    options = replace(
        _make_options(context, False),
        deduplicate=False,  # to delete the same rows again is another change
        deduplication_token="",
        transaction="",
        are_deleted=change.are_deleted,
    )
    result = run_query(change.query, context)
    types, settings = [type_ for _, type_ in result.columns], context.settings
    settings = replace(settings, insert_allow_materialized_columns=True)
    try:
        squashed = _squash_batches(result.batches, context)
        blocks = map(partial(cast_block, types=types, columns=change.columns, settings=settings), squashed)
        _write_to_sink(table.begin_insert(options), blocks, context, settings, of_data=())
    finally:
        result.close()


def _insert_into_file(statement: Insert, file: FileArguments, context: Context) -> QueryResult:
    """Writes data or a query's rows to a file, with the columns of the structure or of the query."""
    if statement.columns or statement.except_columns:
        raise UserError("NOT_IMPLEMENTED", "A list of columns behind FUNCTION file is not supported: give a structure")
    columns, settings = parse_structure_argument(file), context.settings
    if statement.select:
        result = run_query(statement.select, context)
        types = [type_ for _, type_ in result.columns]
        columns = columns or [Column(name, type_) for name, type_ in result.columns]
        try:
            squashed = _squash_batches(result.batches, context)
            blocks = map(partial(cast_block, types=types, columns=columns, settings=settings), squashed)
            write_file(file, columns, _combine_blocks(blocks, columns), context)
        finally:
            result.close()
        return QueryResult()
    if columns is None:
        raise UserError("BAD_ARGUMENTS", "The function file needs a structure, its third argument, to take data")
    schema = TableSchema(tuple(columns))
    read = read_blocks(
        statement.format,
        _open_data(statement.inline_data, context.body),
        columns,
        settings=settings,
        max_block_rows=settings.max_insert_block_size,
        max_block_bytes=settings.min_insert_block_size_bytes,
        status=context.status,
    )
    complete = (complete_block(block, schema, settings=settings) for block in read)
    write_file(file, columns, _combine_blocks(complete, columns), context)
    return QueryResult()


def _combine_blocks(blocks: Iterable[pa.Table], columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yields one batch per block; each becomes one row group of Parquet."""
    schema = TableSchema(tuple(columns)).arrow
    for block in blocks:
        yield from pa.Table.from_arrays(block.columns, schema=schema).combine_chunks().to_batches()


def _write_blocks(
    table: Table,
    blocks: Iterable[pa.Table],
    context: Context,
    *,
    of_data: Sequence[str] | None = None,
    is_whole: bool = False,
) -> None:
    """Writes the blocks; ``of_data`` is passed to ``complete_block``."""
    _write_to_sink(_begin_insert(table, context, is_whole), blocks, context, context.settings, of_data=of_data)


def _write_to_sink(
    sink: InsertSink | BlockSink | DistributedInsert,
    blocks: Iterable[pa.Table],
    context: Context,
    settings: Settings,
    *,
    of_data: Sequence[str] | None,
) -> None:
    schema = sink.description.schema
    first_row = 1
    try:
        for block in blocks:
            context.status.check()
            rows = block.num_rows
            complete = complete_block(block, schema, settings=settings, first_row=first_row, of_data=of_data)
            sink.write(complete)
            first_row += rows
            del block, complete  # frees the memory before the next block is made
        context.status.check()
        outcome = sink.commit()
    finally:
        sink.abort()
    context.statistics.written_rows += outcome.written_rows
    context.statistics.written_bytes += outcome.written_bytes
    context.statistics.deduplicated_blocks += outcome.deduplicated_blocks


def _begin_insert(table: Table, context: Context, is_whole: bool) -> BlockSink | DistributedInsert:
    if table.definition.engine.is_proxy and context.server.catalog.list_views_of(table):
        name = table.definition.full_name
        raise UserError("NOT_IMPLEMENTED", f"INSERT into {name}, which materialized views read, is not supported")
    if table.definition.engine_name == "Distributed":
        return DistributedInsert(table.definition, context, _write_blocks)
    if table.definition.engine.is_proxy:
        name = table.definition.engine_name
        raise UserError("NOT_IMPLEMENTED", f"Method write is not supported by storage {name}")
    return begin_insert(table, _make_options(context, is_whole), context)


def _make_options(context: Context, is_whole: bool) -> InsertOptions:
    settings = context.settings
    return InsertOptions(
        status=context.status,
        quorum=settings.insert_quorum,
        quorum_parallel=settings.insert_quorum_parallel,
        quorum_timeout_seconds=settings.insert_quorum_timeout / 1000,
        sync_timeout_seconds=settings.insert_timeout,
        requires_sync_replica=settings.require_sync_replica,
        deduplicate=settings.insert_deduplicate,
        deduplication_token=settings.insert_deduplication_token,
        transaction=check_transaction_id(settings.insert_transaction, "setting insert_transaction")
        if settings.insert_transaction
        else "",
        transaction_attempt=settings.insert_transaction_attempt,
        max_partitions=settings.max_partitions_per_insert_block,
        parts_to_delay_insert=settings.parts_to_delay_insert,
        parts_to_throw_insert=settings.parts_to_throw_insert,
        min_free_disk_bytes=settings.min_free_disk_bytes_to_perform_insert,
        min_free_disk_ratio=settings.min_free_disk_ratio_to_perform_insert,
        reduces=settings.optimize_on_insert,
        query_id=context.query_id,
        is_whole=is_whole,
    )


def _open_data(inline: bytes, body: BinaryIO | None) -> BinaryIO:
    if body is None:
        return io.BytesIO(inline)
    if not inline:
        return body
    return io.BufferedReader(_JoinedStream(inline, body))


class _JoinedStream(io.RawIOBase):
    """The data in the statement, followed by the rest of the request."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Copies the next bytes."""
        if self._first:
            size = min(len(buffer), len(self._first))
            buffer[:size] = self._first[:size]
            self._first = self._first[size:]
            return size
        data = self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _squash_batches(batches: Iterator[pa.RecordBatch], context: Context) -> Iterator[pa.Table]:
    """Joins a query's small batches to blocks large enough for a part. A limit of 0 means no limit."""
    most_rows = context.settings.min_insert_block_size_rows
    most_bytes = context.settings.min_insert_block_size_bytes
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        is_enough = (most_rows and rows >= most_rows) or (most_bytes and size >= most_bytes)
        if is_enough or not (most_rows or most_bytes):
            block, held = [pa.Table.from_batches(held)], []
            rows = size = 0
            yield block.pop()
    if held:
        yield pa.Table.from_batches(held)


STATEMENTS = (StatementKind(Insert, insert),)
