"""Partition commands of a table of one server: drop, detach and move.

A running merge that finds its sources gone at its commit gives up. Dropped blocks do not count as duplicates of later
ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from engine.tables.capabilities.attach_parts import PartAttacher
from engine.tables.capabilities.block_history import MergeTreeBlockHistory
from engine.tables.capabilities.table_partitions import AttachParts, PrepareParts, prepare_nothing
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.merge_tree.deduplication_log import RecentBlocks
from engine.tables.merge_tree.part_replacement import PartReservations
from engine.tables.table_data import TableData
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.drop_markers import CoveringNames

_MERGE_POLL_SECONDS = 0.02


class StoppableTable(TableData, Protocol):
    """A table that can be stopped."""

    is_stopping: threading.Event


class MergeTreePartitions:
    """The partition commands of one table.

    Implements ``engine.tables.capabilities.table_partitions.TablePartitions``.
    """

    def __init__(
        self,
        table: StoppableTable,
        numbers: BlockNumbers,
        reservations: PartReservations,
        block_history: MergeTreeBlockHistory,
        recent_blocks: RecentBlocks,
        transactions: TableTransactions,
    ) -> None:
        self._table = table
        self._numbers = numbers
        self._reservations = reservations
        self._block_history = block_history
        self._recent_blocks = recent_blocks
        self.store = table.store
        self.attaching = PartAttacher(table, transactions)

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Drops or detaches the parts of a partition, or of all."""

        def is_meant(name: PartName) -> bool:
            return partition_id in (None, name.partition_id)

        with self._recent_blocks.deduplicating():
            self._numbers.wait_for_pending(status or QueryStatus())
            with self.store.lock:
                self._drop([part.name for part in self.store.list_active() if is_meant(part.name)], detach)
            self._recent_blocks.forget(is_meant)

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Drops or detaches one part. Raises 232 (NO_SUCH_DATA_PART)."""
        with self._recent_blocks.deduplicating():
            with self.store.lock:
                if self.store.get_active(name) is None:
                    raise UserError("NO_SUCH_DATA_PART", f"No part {name} in committed state")
                self._drop([name], detach)
            self._recent_blocks.forget(name.covers)

    def move(
        self, partition_id: str, attach: AttachParts, status: QueryStatus, prepare: PrepareParts = prepare_nothing
    ) -> None:
        """Attaches the partition's parts to another table, then drops them here."""
        self._numbers.wait_for_pending(status)
        with self._quiesced_parts(partition_id, status) as parts:
            attach(parts, ())
            names = [part.name for part in parts]
            with report_as_unfinished("The rows are in the other table"), self._recent_blocks.deduplicating():
                with self.store.lock:
                    self._drop(names, detach=False)
                covers = CoveringNames(names)
                self._recent_blocks.forget(lambda gone: any(covers.find_covering(gone)))

    def fetch(self, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        """Raises 48: a table of one server has no replicas."""
        raise UserError("NOT_IMPLEMENTED", "FETCH is not supported by a table of one server: it has no replicas")

    def forget(self, partition_id: str, status: QueryStatus) -> None:
        """Raises 716 for a partition that is not empty, otherwise 48."""
        if any(part.name.partition_id == partition_id for part in self.store.list_active()):
            raise UserError("CANNOT_FORGET_PARTITION", f"Partition {partition_id} is not empty.")
        raise UserError("NOT_IMPLEMENTED", "FORGET PARTITION is for replicated tables: others keep nothing of one")

    @contextmanager
    def _quiesced_parts(self, partition_id: str, status: QueryStatus) -> Iterator[Sequence[Part]]:
        """Yields the parts of a partition, kept from merges. Waits for running merges first."""
        while True:
            status.check()
            names = {part.name for part in self.store.list_active() if part.name.partition_id == partition_id}
            with ExitStack() as stack:
                try:
                    stack.enter_context(self._reservations.reserve(names))
                except ConflictError:
                    if self._table.services.wait(self._table.is_stopping, _MERGE_POLL_SECONDS):
                        raise
                    continue
                held = stack.enter_context(self.store.snapshot())
                parts = [part for part in held.parts if part.name in names]
                if len(parts) == len(names):
                    yield parts
                    return

    def _drop(self, names: list[PartName], detach: bool) -> None:
        """Drops the parts. After an error nothing is dropped, but copies of some may be in ``detached/``."""
        if detach:
            chosen = set(names)
            self.store.link_to_detached([part for part in self.store.list_active() if part.name in chosen])
        self._block_history.record_dropped(names)
        self.store.drop_active(names)
