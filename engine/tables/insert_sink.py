"""One INSERT in progress: blocks become temporary parts as they come, and are committed together at the end.

Nothing is visible before :meth:`InsertSink.commit`, so input that turns out wrong in its last row leaves no trace.
Memory holds at most the few blocks being written; the rest is on disk.
"""

from __future__ import annotations

import builtins
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
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
from parts.write.block_preparation import (
    PartitionBlock,
    sort_block,
    split_by_partition,
)
from parts.write.constraint_checks import check_constraints
from parts.write.part_writer import (
    write_part,
)

logger = logging.getLogger(__name__)

_MAX_WRITES_IN_FLIGHT = 2
_WRITE_COPIES = 2
"""A piece is in memory as it came and sorted."""


@dataclass
class TemporaryPart:
    """A part on disk under a temporary name. ``block_id`` is what deduplicates it, ``""`` for never."""

    directory: Path
    partition_id: str
    block_id: str
    rows: int
    bytes: int
    block_index: int = 0
    content_hash: str = ""
    written: builtins.bytes = b""
    """``WrittenPart.meta``: with it the part need not be read to be opened."""
    missing: MissingViews = NOTHING_MISSING
    """The materialized views that have to get the block, once the part is committed."""


@dataclass
class InsertOutcome:
    written_rows: int = 0
    written_bytes: int = 0
    deduplicated_blocks: int = 0
    part_names: list[str] = field(default_factory=list)
    known: dict[str, MissingViews] = field(default_factory=dict)
    """By id, the blocks that were stored before, and what their views miss of them."""

    def add_known(self, block_id: str, missing: MissingViews) -> None:
        self.deduplicated_blocks += 1
        self.known[block_id] = missing


@dataclass(frozen=True)
class Piece:
    """The rows of a block that go to one partition. ``block_id`` is ``None`` until they are written."""

    rows: PartitionBlock
    block_id: str | None = None
    missing: MissingViews = NOTHING_MISSING
    """As ``TemporaryPart.missing``."""


class InsertSink(ABC):
    """Takes the blocks of one INSERT. Not for use by several threads."""

    def __init__(self, table: TableData, options: InsertOptions) -> None:
        self.table = table
        self.options = options
        self.description = table.description
        """Of the blocks that are written: an ALTER may come meanwhile."""
        self._blocks = 0
        self._seen: Counter[str] = Counter()
        self._writes: list[Future[TemporaryPart | None] | TemporaryPart | None] = []
        self._in_flight: list[tuple[Future[TemporaryPart | None], int]] = []

    def write(self, block: pa.Table, token: str = "") -> None:
        """Writes a complete block (every stored column, storage types) as one temporary part per partition. ``token``
        stands for its rows where it is told from others."""
        if block.num_rows == 0:
            return
        check_constraints(block, self.description, self.table.definition.full_name)
        self._write(block, [Piece(rows) for rows in split_by_partition(block, self.description)], token)

    def identified(self, block: pa.Table, token: str = "") -> list[Piece]:
        """The pieces of a block with their final ids, for :meth:`write_pieces`, which comes next."""
        check_constraints(block, self.description, self.table.definition.full_name)
        pieces = split_by_partition(block, self.description)
        return [
            Piece(rows, self._told_apart(rows.partition_id, self._block_id(rows, token, self._blocks)))
            for rows in pieces
        ]

    def write_pieces(self, block: pa.Table, pieces: Sequence[Piece]) -> None:
        """As :meth:`write`."""
        self._write(block, pieces, "")

    def _write(self, block: pa.Table, pieces: Sequence[Piece], token: str) -> None:
        self._blocks += 1
        self._check_partitions(len(pieces))
        is_small = block.num_rows <= self.table.services.write_inline_rows
        if is_small and self._blocks == len(pieces) == 1:
            self.announce(pieces[0].rows.partition_id)
        for piece in pieces:
            self.options.status.check()
            index, size = self._blocks - 1, piece.rows.block.nbytes
            if is_small or _WRITE_COPIES * size > self._room_bytes:
                self._writes.append(self._write_piece(piece, index, token))
                continue
            self._wait_for_room(size)
            future = self.table.services.writers.submit(self._write_piece, piece, index, token)
            self._in_flight.append((future, size))
            self._writes.append(future)

    @property
    def _room_bytes(self) -> int:
        """What pieces being written may take: half of the query's memory, for the next block comes meanwhile."""
        return self.options.status.memory.limit_bytes // 2 or 1 << 62

    def _wait_for_room(self, size_bytes: int) -> None:
        while True:
            self._in_flight = [(write, size) for write, size in self._in_flight if not write.done()]
            held_bytes = sum(size for _, size in self._in_flight) + size_bytes
            if len(self._in_flight) < _MAX_WRITES_IN_FLIGHT and _WRITE_COPIES * held_bytes <= self._room_bytes:
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
            if not self._seen:  # else the pieces came with ids of their own
                for part in parts:
                    part.block_id = self._told_apart(part.partition_id, part.block_id)
            self.table.services.failpoint("insert.after_temporary_part")
            outcome = self.commit_parts(parts)
            if not outcome.deduplicated_blocks:
                self._writes.clear()  # all have their names: there is nothing to remove
            return outcome
        finally:
            self.abort()

    def abort(self) -> None:
        """Removes whatever temporary parts are left."""
        for write in self._writes:
            try:
                part = write.result() if isinstance(write, Future) else write
            except Exception:  # a full disk, say; the write removed its own directory
                continue
            if part is not None:
                self.table.store.drop_temporary(part.directory)
        self._writes.clear()

    def announce(self, partition_id: str) -> None:
        """The first part of the INSERT, a small one, is written now: for a sink whose parts are committed elsewhere."""
        return

    def expect(self, partition_id: str) -> None:
        """A part of the partition will soon be committed: what it needs may be got before it comes."""
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
        """``None``: the merge mode leaves nothing of it."""
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
                block_id = self._block_id(piece, token, index, known_hash)
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

    def _told_apart(self, partition_id: str, block_id: str) -> str:
        """The second block of the same rows in one INSERT, the third and so on, get ids of their own: they are rows
        like any others, while a repeat of the whole INSERT gives the same ids again."""
        count = self._seen[block_id]
        self._seen[block_id] += 1
        return f"{partition_id}_{hash_token(block_id, count)}" if block_id and count else block_id

    def _block_id(self, piece: PartitionBlock, token: str, index: int, known_hash: str = "") -> str:
        """Of the rows in the order they came, before sorting: the same INSERT gives the same id everywhere.
        ``known_hash`` is that of the part's content, if the rows came in its order."""
        if not self.options.deduplicate or self.options.transaction or not deduplicates_blocks(self.table.definition):
            return ""
        token = token or self._deduplication_token(index) or ""
        return f"{piece.partition_id}_{token or known_hash or hash_block(piece.block)}"


def deduplicates_blocks(definition: TableDefinition) -> bool:
    """Whether the table remembers the blocks of its INSERTs."""
    return definition.is_replicated or bool(definition.settings.non_replicated_deduplication_window)


def hash_token(text: str, number: int) -> str:
    return xxhash.xxh3_128_hexdigest(f"{text}\0{number}".encode())
