"""Writes the blocks of one INSERT as temporary parts, and commits them together at the end.

Nothing is visible before :meth:`InsertSink.commit`, so an error in the last row of the input leaves no trace. Memory
holds at most the few blocks that are being written; the rest is on disk.
"""

from __future__ import annotations

import builtins
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import xxhash

from coordination.inserts.block_views import NOTHING_MISSING, MissingViews
from engine.tables.statement_options import InsertOptions
from engine.tables.table_data import TableData
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.format.content_hash import hash_block
from parts.table.merge_mode import SortedRows
from parts.table.row_exists_column import ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.write.block_preparation import (
    PartitionBlock,
    sort_block,
    split_by_partition,
)
from parts.write.constraint_checks import check_constraints
from parts.write.part_writer import write_part

logger = logging.getLogger(__name__)

_MAX_WRITES_IN_FLIGHT = 2
_WRITE_COPIES = 2
"""The copies of a piece in memory: as it came, and sorted."""


@dataclass
class TemporaryPart:
    """A part on disk under a temporary name.

    ``block_id`` identifies the block for deduplication; empty for none.
    """

    directory: Path
    partition_id: str
    block_id: str
    rows: int
    bytes: int
    block_index: int = 0
    content_hash: str = ""
    written: builtins.bytes = b""
    """``WrittenPart.meta``, with which the part can be opened without reading it."""
    missing: MissingViews = NOTHING_MISSING
    """The materialized views that must get the block once the part is committed."""


@dataclass
class InsertOutcome:
    """The result of an INSERT: rows written and blocks deduplicated."""

    written_rows: int = 0
    written_bytes: int = 0
    deduplicated_blocks: int = 0
    part_names: list[str] = field(default_factory=list)
    known: dict[str, MissingViews] = field(default_factory=dict)
    """By id, the blocks that were stored before, and the views that lack them."""

    def add_known(self, block_id: str, missing: MissingViews) -> None:
        """Counts a block that was stored before."""
        self.deduplicated_blocks += 1
        self.known[block_id] = missing


@dataclass(frozen=True)
class Piece:
    """The rows of a block that go to one partition. ``block_id`` is ``None`` until they are written."""

    rows: PartitionBlock
    block_id: str | None = None
    missing: MissingViews = NOTHING_MISSING
    """See ``TemporaryPart.missing``."""


class InsertSink(ABC):
    """The writer of one INSERT's blocks. Not thread-safe."""

    description: TableDescription
    """The description under which the blocks are written; an ALTER may change the table's meanwhile."""

    @abstractmethod
    def write(self, block: pa.Table, token: str = "") -> None:
        """Writes a complete block: every stored column, in storage types.

        ``token``, if given, replaces the hash of its rows for deduplication.
        """

    @abstractmethod
    def identified(self, block: pa.Table, token: str = "") -> list[Piece]:
        """Splits a block into pieces with their final block ids, for :meth:`write_pieces`, which must follow."""

    @abstractmethod
    def write_pieces(self, block: pa.Table, pieces: Sequence[Piece]) -> None:
        """Writes the pieces of a block, as :meth:`write` does."""

    @abstractmethod
    def commit(self) -> InsertOutcome:
        """Makes the rows visible. After an error nothing more of this INSERT becomes visible."""

    @abstractmethod
    def abort(self) -> None:
        """Removes what is not committed."""


class PartSink(InsertSink):
    """Writes the blocks as parts."""

    def __init__(self, table: TableData, options: InsertOptions) -> None:
        self.table = table
        self.options = options
        self.description = table.description
        if options.are_deleted:  # no block has the column, and its default marks every row
            schema = TableSchema((*self.description.schema.columns, Column(ROW_EXISTS, ROW_EXISTS_COLUMN.type)))
            self.description = replace(self.description, schema=schema)
        self._blocks = 0
        self._seen: Counter[str] = Counter()
        self._writes: list[Future[TemporaryPart | None] | TemporaryPart | None] = []
        self._in_flight: list[tuple[Future[TemporaryPart | None], int]] = []

    def write(self, block: pa.Table, token: str = "") -> None:
        """Writes a complete block as one temporary part per partition."""
        if block.num_rows == 0:
            return
        check_constraints(block, self.description, self.table.definition.full_name)
        self._write(block, [Piece(rows) for rows in split_by_partition(block, self.description)], token)

    def identified(self, block: pa.Table, token: str = "") -> list[Piece]:
        """Splits a block into pieces with their final block ids, for :meth:`write_pieces`, which must follow."""
        check_constraints(block, self.description, self.table.definition.full_name)
        pieces = split_by_partition(block, self.description)
        return [
            Piece(rows, self._make_unique_id(rows.partition_id, self._make_block_id(rows, token, self._blocks)))
            for rows in pieces
        ]

    def write_pieces(self, block: pa.Table, pieces: Sequence[Piece]) -> None:
        """Writes the pieces of a block, as :meth:`write` does."""
        self._write(block, pieces, "")

    def _write(self, block: pa.Table, pieces: Sequence[Piece], token: str) -> None:
        self._blocks += 1
        self._check_partitions(len(pieces))
        is_small = block.num_rows <= self.table.services.write_inline_rows
        if is_small and self._blocks == len(pieces) == 1:
            self.before_only_part(pieces[0].rows.partition_id)
        for piece in pieces:
            self.options.status.check()
            index, size = self._blocks - 1, piece.rows.block.nbytes
            if is_small or _WRITE_COPIES * size > self._memory_budget_bytes:
                self._writes.append(self._write_piece(piece, index, token))
                continue
            self._wait_for_memory(size)
            future = self.table.services.writers.submit(self._write_piece, piece, index, token)
            self._in_flight.append((future, size))
            self._writes.append(future)

    @property
    def _memory_budget_bytes(self) -> int:
        """The bytes that pieces being written may take:

        half of the query's memory, as the next block needs the rest.
        """
        return self.options.status.memory.limit_bytes // 2 or 1 << 62

    def _wait_for_memory(self, size_bytes: int) -> None:
        """Waits until another piece of this size may be written in the background."""
        while True:
            self._in_flight = [(write, size) for write, size in self._in_flight if not write.done()]
            held_bytes = sum(size for _, size in self._in_flight) + size_bytes
            if len(self._in_flight) < _MAX_WRITES_IN_FLIGHT and _WRITE_COPIES * held_bytes <= self._memory_budget_bytes:
                return
            self._in_flight[0][0].result()

    def _check_partitions(self, count: int) -> None:
        most = self.options.max_partitions
        if most and count > most:
            raise UserError(
                "TOO_MANY_PARTS",
                f"Too many partitions for a single INSERT block: {count}, more than max_partitions_per_insert_block = "
                f"{most}. Each becomes a part: choose a coarser PARTITION BY, sort the rows by it, or raise it",
            )

    def commit(self) -> InsertOutcome:
        """Makes the rows visible. After an error nothing more of this INSERT becomes visible."""
        try:
            written = [write.result() if isinstance(write, Future) else write for write in self._writes]
            parts = [part for part in written if part is not None]
            if not self._seen:  # otherwise the pieces came with final ids
                for part in parts:
                    part.block_id = self._make_unique_id(part.partition_id, part.block_id)
            self.table.services.failpoint("insert.after_temporary_part")
            outcome = self.commit_parts(parts)
            if not outcome.deduplicated_blocks:
                self._writes.clear()  # all parts were renamed, so there is nothing to remove
            return outcome
        finally:
            self.abort()

    def abort(self) -> None:
        """Removes the temporary parts that are left."""
        for write in self._writes:
            try:
                part = write.result() if isinstance(write, Future) else write
            except Exception:  # for example a full disk; the write removed its own directory
                continue
            if part is not None:
                self.table.store.drop_temporary(part.directory)
        self._writes.clear()

    def before_only_part(self, partition_id: str) -> None:
        """Called when the first block is one small part, just before it is written.

        For sinks whose parts another process commits.
        """
        return

    def allocate_block_number(self, partition_id: str) -> None:
        """Called when a part of the partition will soon be committed.

        The sink may allocate its block number ahead of the commit.
        """
        return

    @abstractmethod
    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        """Gives the parts their block numbers and makes them active."""

    def _deduplication_token(self, block_index: int) -> str | None:
        token = self.options.deduplication_token
        if not token:
            return None
        return hash_token(token, block_index)

    def _write_piece(self, whole: Piece, index: int, token: str) -> TemporaryPart | None:
        """Writes one piece; returns ``None`` if the merge mode removes all its rows."""
        piece, block_id = whole.rows, whole.block_id
        directory = self.table.store.create_temporary("tmp_insert_")
        try:
            block = sort_block(piece.block, self.description)
            if self.options.reduces:
                mode = self.description.merge_mode.with_time(int(self.table.services.clock()))
                block = mode.reduce(SortedRows(block, self.description.sorting_key.evaluate))
                if not block.num_rows:
                    self.table.store.drop_temporary(directory)
                    return None
            written = write_part(directory, block, self.description, piece.values)
            if block_id is None:
                known_hash = written.content_hash if block is piece.block else ""
                block_id = self._make_block_id(piece, token, index, known_hash)
        except BaseException:
            self.table.store.drop_temporary(directory)
            raise
        return TemporaryPart(
            directory,
            piece.partition_id,
            block_id,
            piece.block.num_rows,
            piece.block.nbytes,
            index,
            written.content_hash,
            written.meta,
            whole.missing,
        )

    def _make_unique_id(self, partition_id: str, block_id: str) -> str:
        """Gives a block that repeats the rows of an earlier one in this INSERT an id of its own.

        Its rows are stored like any others, while a repeat of the whole INSERT gives the same ids again.
        """
        count = self._seen[block_id]
        self._seen[block_id] += 1
        return f"{partition_id}_{hash_token(block_id, count)}" if block_id and count else block_id

    def _make_block_id(self, piece: PartitionBlock, token: str, index: int, known_hash: str = "") -> str:
        """Returns the block id of the rows in the order they came, before sorting.

        So the same INSERT gives the same id everywhere. ``known_hash`` is the part's content hash, if the rows came
        sorted.
        """
        if not self.options.deduplicate or self.options.transaction or not deduplicates_blocks(self.table.definition):
            return ""
        token = token or self._deduplication_token(index) or ""
        return f"{piece.partition_id}_{token or known_hash or hash_block(piece.block)}"


def deduplicates_blocks(definition: TableDefinition) -> bool:
    """Tells whether the table remembers the blocks of its INSERTs."""
    return definition.is_replicated or bool(definition.settings.non_replicated_deduplication_window)


def hash_token(text: str, number: int) -> str:
    """Returns the XXH3-128 hash of a token and a number in hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(f"{text}\0{number}".encode())
