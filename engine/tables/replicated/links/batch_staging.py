"""Stages the blocks of a link's batch on this replica, as ``staged/link-<uuid>/<place>``.

A place is ``<number>-<part>``, the part with the sender's numbers. By it the block can be asked for again at the source
if no replica of the target has it any more. Blocks are fetched by a few threads at a time.

Invariants:

- A staging belongs to one batch: to a version of the vector, a link and an end. If fetching fails, the next attempt at
  the same batch finds what was fetched. Once a commit was tried, nobody stages under the name again.
- Only :meth:`BatchStaging.clean_up` removes a staging whose commit was tried and whose outcome is not known: it pulls
  the log first, and leaves what the queue names.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from coordination.keeper.interface import Keeper
from coordination.links.batches.batch_plan import surviving_blocks
from coordination.links.positions import Position
from coordination.links.stream.change import Block, Change
from coordination.log.log_entry import StagedPart
from engine.tables.capabilities.incoming_blocks import WriteBlock
from engine.tables.capabilities.table_links import IncomingBatch
from engine.tables.replicated.links.row_versions import keep_row_version, read_row_version
from engine.tables.replicated.replica_state import LINK_STAGING_PREFIX, ReplicaState
from parts.blocks.partition_ids import compute_partition_id
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import make_executor
from parts.read.part_reader import Part, open_part

logger = logging.getLogger(__name__)

_AT_A_TIME = 4
"""Blocks that are fetched at a time for one batch."""
_ASKED_AT_ONCE = 128
"""Blocks of which the small ones are fetched with one request; a multiple of ``_AT_A_TIME``."""
_SMALL_BYTES = 16 * 1024
"""The uncompressed data of a small block."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A part of this table that was made of a block."""

    directory: Path
    content_hash: str
    rows: int
    size_bytes: int
    partition_id: str


class BlockWriter(Protocol):
    """Turns the fetched files of a block into a part of this table."""

    def take(self, fetched: Path, block: Block) -> list[StagedFile]:
        """Returns the parts, several only where the block's rows go to other partitions than at the source.

        A directory is ``fetched`` itself if the files can stay as they are.

        Raises ``CorruptionError`` for files that are not the block's.
        """


@dataclass(frozen=True, slots=True)
class _Staging:
    """The staging of one batch."""

    link: str
    vector_version: int
    end: Position
    origin: str
    """The table's own origin, if its parts keep the places of rows."""
    name: str


StagedBlocks = dict[tuple[Position, PartName], list[StagedPart]]
"""By change and part at the sender, what the block became here."""


class BatchStaging:
    """The stagings of one replica. Thread-safe."""

    def __init__(
        self, state: ReplicaState, pull: Callable[[Keeper], None], list_kept: Callable[[], Collection[str]] = tuple
    ) -> None:
        """``pull`` reads the log into the queue; ``list_kept`` names stagings of siblings that stay."""
        self._list_kept = list_kept
        self._state = state
        self._pull = pull
        self._lock = threading.Lock()
        self._open: _Staging | None = None
        """The staging of the last batch, until its commit is tried."""
        self._in_use: set[str] = set()

    @contextmanager
    def open(self, batch: IncomingBatch) -> Iterator[str]:
        """Yields the name under which the batch's blocks are staged; it stays while the block runs."""
        wanted = (batch.link.uuid, batch.state.vector_version, batch.end, self._state.gate.own_origin)
        with self._lock:
            found = self._open
            if found is None or found != _Staging(*wanted, found.name) or found.name in self._in_use:
                found = _Staging(*wanted, f"{LINK_STAGING_PREFIX}{self._state.services.new_uuid().hex}")
            self._open = found
            self._in_use.add(found.name)
        try:
            yield found.name
        finally:
            with self._lock:
                self._in_use.discard(found.name)

    def forget(self, name: str) -> None:
        """Nobody stages under this name again. Called before a commit is tried."""
        with self._lock:
            if self._open is not None and self._open.name == name:
                self._open = None

    def stage(self, batch: IncomingBatch, name: str, writer: BlockWriter, status: QueryStatus) -> StagedBlocks:
        """Stages the blocks that the batch leaves. Raises what fetching raises."""
        blocks = list(enumerate(surviving_blocks(batch.changes)))
        staged: StagedBlocks = {}
        with make_executor(_AT_A_TIME, "link") as executor:  # they wait for the network: INSERTs have other threads
            for start in range(0, len(blocks), _AT_A_TIME):
                status.check()
                if start % _ASKED_AT_ONCE == 0:
                    small = self._fetch_small(batch, name, blocks[start : start + _ASKED_AT_ONCE])
                run = blocks[start : start + _AT_A_TIME]
                futures = [
                    executor.submit(
                        self._stage_block, batch, name, number, change, block, writer, small.get(block.part)
                    )
                    for number, (change, block) in run
                ]
                self._collect(run, futures, staged)
        return staged

    def _fetch_small(
        self, batch: IncomingBatch, name: str, blocks: Sequence[tuple[int, tuple[Change, Block]]]
    ) -> Mapping[PartName, WriteBlock]:
        """Fetches the small ones of these blocks that are not staged yet, with one request."""
        wanted = [
            (change, block)
            for number, (change, block) in blocks
            if 0 < block.size_bytes <= _SMALL_BYTES
            and not self._state.store.staged.path(name, f"{number}-{block.part}").exists()
        ]
        return batch.fetch_small(wanted) if len(wanted) > 1 else {}

    def _collect(
        self,
        run: Sequence[tuple[int, tuple[Change, Block]]],
        futures: Sequence[Future[list[StagedPart]]],
        staged: StagedBlocks,
    ) -> None:
        errors = [future.exception() for future in futures]  # none is left running
        for error in errors:
            if error is not None:
                raise error
        for (_, (change, block)), future in zip(run, futures, strict=True):
            staged[change.position, block.part] = future.result()

    def _stage_block(
        self,
        batch: IncomingBatch,
        name: str,
        number: int,
        change: Change,
        block: Block,
        writer: BlockWriter,
        write: WriteBlock | None,
    ) -> list[StagedPart]:
        """Stages one block; ``write`` writes its files if they were fetched with others."""
        store, place = self._state.store, f"{number}-{block.part}"
        if (found := self._find(name, place, block)) is not None:
            return [found]
        fetched = store.create_temporary("tmp_fetch_link_")
        try:
            if write is not None:
                write(fetched)
            else:
                batch.fetch(change, block, fetched)
            version = read_row_version(self._state, fetched)
            taken = writer.take(fetched, block)
            keep_row_version(self._state, version, change, [part.directory for part in taken])
            places = [place] if len(taken) == 1 else [f"{number}.{i}-{block.part}" for i in range(len(taken))]
            store.staged.move_in(name, [(part.directory, at) for part, at in zip(taken, places, strict=True)])
            for part in taken:
                store.drop_temporary(part.directory)
        finally:
            store.drop_temporary(fetched)
        self._state.services.failpoint("link.after_block")
        return [
            self._describe(replace(block.part, partition_id=part.partition_id), part.content_hash, at, part)
            for part, at in zip(taken, places, strict=True)
        ]

    def _describe(self, name: PartName, content_hash: str, place: str, part: StagedFile | Part) -> StagedPart:
        size_bytes = part.size_bytes if isinstance(part, StagedFile) else part.data_uncompressed_bytes
        return StagedPart(name, content_hash, self._state.replica.name, place, part.rows, size_bytes)

    def _find(self, name: str, place: str, block: Block) -> StagedPart | None:
        """Returns what an earlier attempt at the batch staged there."""
        directory = self._state.store.staged.path(name, place)
        if not directory.exists():
            return None
        part = open_part(directory, name=block.part, table_schema=self._state.description.schema)
        values = [array[0] for _, _, array in part.partition_arrays]
        partition_id = compute_partition_id(values, [type_ for _, type_, _ in part.partition_arrays])
        return self._describe(replace(block.part, partition_id=partition_id), part.content_hash, place, part)

    def clean_up(self, keeper: Keeper, links: Collection[str] | None = None) -> bool:
        """Removes what no batch needs; of links that are not among ``links`` (UUIDs), also what was begun.

        Returns whether there may be more to do soon.
        """
        state = self._state
        names = [n for n in state.store.staged.list_transactions() if n.startswith(LINK_STAGING_PREFIX)]
        if not names:
            return False
        with self._lock:
            if self._open is not None and links is not None and self._open.link not in links:
                self._open = None
            kept = {*self._in_use, *([self._open.name] if self._open is not None else []), *self._list_kept()}
        keeper.sync(state.paths.root)
        self._pull(keeper)
        for name in names:
            if name not in kept and not state.queue.is_queued(name):
                state.store.staged.remove(name)
        return True


def require_content(block: Block, content_hash: str, rows: int) -> None:
    """Raises ``CorruptionError`` if fetched files are not those of the block."""
    if block.content_hash and content_hash != block.content_hash:
        raise CorruptionError(
            f"The source sent other content for block {block.part} ({content_hash}) than it committed "
            f"({block.content_hash})",
            name="CHECKSUM_DOESNT_MATCH",
            part=str(block.part),
        )
    if block.rows and rows != block.rows:
        raise CorruptionError(
            f"Block {block.part} has {rows} rows, and its change names {block.rows}", part=str(block.part)
        )
