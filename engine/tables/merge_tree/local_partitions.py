"""Commands on partitions and parts of a table of one server.

A merge under way finds its sources gone at its commit, and is given up. What goes is no duplicate of what may come.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from engine.tables.capabilities.attach_parts import PartAttacher
from engine.tables.capabilities.table_partitions import AttachParts
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.merge_tree.deduplication_log import RecentBlocks
from engine.tables.table_data import TableData
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.drop_markers import CoveringNames

_MERGE_POLL_SECONDS = 0.02


class BlockNumbers(TableData, Protocol):
    """A table that counts its blocks by itself, and knows the last ones."""

    is_stopping: threading.Event

    @property
    def recent_blocks(self) -> RecentBlocks: ...

    def wait_for_pending(self, status: QueryStatus) -> None:
        """For INSERTs that have numbers: what comes later has larger numbers than what goes."""

    def note_dropped(self, names: Iterable[PartName]) -> None:
        """Before the parts go."""

    def kept_from_merges(self, names: Sequence[PartName]) -> AbstractContextManager[None]:
        """Raises ``ConflictError`` when one is being merged already."""


class MergeTreePartitions:
    """Implements ``engine.tables.capabilities.table_partitions.TablePartitions``."""

    def __init__(self, table: BlockNumbers, transactions: TableTransactions) -> None:
        self._table = table
        self._store = table.store
        self.attaching = PartAttacher(table, transactions)

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        def is_meant(name: PartName) -> bool:
            return partition_id in (None, name.partition_id)

        with self._table.recent_blocks.deduplicating():
            self._table.wait_for_pending(status or QueryStatus())
            with self._store.lock:
                self._drop([part.name for part in self._store.active() if is_meant(part.name)], detach)
            self._table.recent_blocks.forget(is_meant)

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        with self._table.recent_blocks.deduplicating():
            with self._store.lock:
                if self._store.get_active(name) is None:
                    raise UserError("NO_SUCH_DATA_PART", f"No part {name} in committed state")
                self._drop([name], detach)
            self._table.recent_blocks.forget(name.covers)

    def move(self, partition_id: str, attach: AttachParts, status: QueryStatus) -> None:
        self._table.wait_for_pending(status)
        with self._quiesced_parts(partition_id, status) as parts:
            attach(parts, ())
            names = [part.name for part in parts]
            with report_as_unfinished("The rows are in the other table"), self._table.recent_blocks.deduplicating():
                with self._store.lock:
                    self._drop(names, detach=False)
                covers = CoveringNames(names)
                self._table.recent_blocks.forget(lambda gone: any(covers.find_covering(gone)))

    def fetch(self, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        raise UserError("NOT_IMPLEMENTED", "FETCH is not supported by a table of one server: it has no replicas")

    def forget(self, partition_id: str, status: QueryStatus) -> None:
        if any(part.name.partition_id == partition_id for part in self._store.active()):
            raise UserError("CANNOT_FORGET_PARTITION", f"Partition {partition_id} is not empty.")
        raise UserError("NOT_IMPLEMENTED", "FORGET PARTITION is for replicated tables: others keep nothing of one")

    @contextmanager
    def _quiesced_parts(self, partition_id: str, status: QueryStatus) -> Iterator[Sequence[Part]]:
        """The parts of a partition, which nobody merges meanwhile. Waits for merges that are under way."""
        while True:
            status.check()
            names = {part.name for part in self._store.active() if part.name.partition_id == partition_id}
            with ExitStack() as stack:
                try:
                    stack.enter_context(self._table.kept_from_merges(list(names)))
                except ConflictError:
                    if self._table.services.wait(self._table.is_stopping, _MERGE_POLL_SECONDS):
                        raise
                    continue
                held = stack.enter_context(self._store.snapshot())
                parts = [part for part in held.parts if part.name in names]
                if len(parts) == len(names):
                    yield parts
                    return

    def _drop(self, names: list[PartName], detach: bool) -> None:
        """After an error nothing is dropped; copies of some may be in ``detached/``."""
        if detach:
            chosen = set(names)
            self._store.link_to_detached([part for part in self._store.active() if part.name in chosen])
        self._table.note_dropped(names)
        self._store.drop_active(names)
