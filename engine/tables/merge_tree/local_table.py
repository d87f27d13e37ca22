"""A table whose parts are on this server alone: what ``MergeTree``, ``Log`` and ``Memory`` share.

Commits are renames; block numbers come from a counter.

Invariants:
- Block numbers are unique over all partitions and grow; the counter restarts above the largest on disk, detached parts
  among them, and above what was dropped: a stream that has read a block would take another of its number for read.
- The parts of one INSERT become visible together; a failed one leaves no part under a final name.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from engine.tables.capabilities.block_history import (
    MergeTreeBlockHistory,
)
from engine.tables.insert_delay import delay_insert
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.merge_tree.deduplication_log import RecentBlocks
from engine.tables.merge_tree.local_insert import MergeTreeInsert
from engine.tables.merge_tree.local_merges import LocalMerges
from engine.tables.merge_tree.local_mutations import MergeTreeMutations
from engine.tables.merge_tree.local_partitions import MergeTreePartitions
from engine.tables.merge_tree.local_transactions import MergeTreeTransactions
from engine.tables.merge_tree.part_replacement import PartReservations
from engine.tables.parts_table import PartsTable
from engine.tables.statement_options import InsertOptions
from engine.tables.stopped_actions import StoppableAction
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CorruptionError, UnavailableError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.store.detached_parts import get_max_block
from sql.definitions.alter.column_changes import find_changed_columns
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_SELECT_SECONDS = 0.25
_SETTLE_ATTEMPTS, _SETTLE_PAUSE_SECONDS = 500, 0.005


class LocalTable(PartsTable):
    """A table that commits, merges and mutates its parts itself.

    It offers transactions and TRUNCATE; its kinds say what else statements may do.
    """

    transactions: MergeTreeTransactions

    def start(self) -> None:
        """Loads the parts and starts background work."""
        services = self.services
        self.numbers, self._reservations = BlockNumbers(self._wait), PartReservations()
        self.recent_blocks = RecentBlocks(lambda: self.definition.settings.non_replicated_deduplication_window)
        self._block_history = MergeTreeBlockHistory(self.definition.data_path, services.new_uuid)
        self._merge_task = self.make_task("merge", self._merge_step)
        self._mutate_task = self.make_task("mutate", self._mutate_step)
        self.transactions = MergeTreeTransactions(
            self, self.numbers, self._block_history, self._forget_blocks, self.wake_merges, self._find_mutation
        )
        self._partitions = MergeTreePartitions(
            self, self.numbers, self._reservations, self._block_history, self.recent_blocks, self.transactions
        )
        self._mutations = MergeTreeMutations(
            self, self.numbers, self._reservations, self.home.find, self._mutate_task.wake
        )
        self._merges = LocalMerges(self, self.numbers, self._reservations, self._mutations, self._partitions)
        super().start()
        for name in self.store.attaching.list_transactions():
            self.store.attaching.end(name, is_attached=bool(self.transactions.settle(name)))
        self.numbers.restart_above(self._find_last_block_number())
        self.run_in_background(services.workers, self._merge_task)
        self.run_in_background(services.workers, self._mutate_task)

    def _find_last_block_number(self) -> int:
        """Loads the mutations; returns the largest number that was used before."""
        numbers = [part.name.max_block for part, _ in self.store.list_parts()]
        numbers += [part.name.mutation for part, _ in self.store.list_parts()]
        numbers += map(get_max_block, self.store.list_detached())
        numbers.append(self._mutations.load())
        return max([*numbers, *self._block_history.dropped().values()], default=0)

    def _wait(self, seconds: float) -> None:
        """Raises 236 (ABORTED) if the table is being stopped."""
        if self.services.wait(self.is_stopping, seconds):
            raise UnavailableError("ABORTED", f"Table {self.definition.full_name} is being stopped")

    @property
    def merges_in_background(self) -> bool:
        """Tells whether parts are merged without OPTIMIZE."""
        return True

    def settled_snapshot(self) -> tuple[PartsSnapshot, bool]:
        """Returns the parts, of which no block is larger than one that may still come."""
        for _ in range(_SETTLE_ATTEMPTS):
            decided = self.numbers.first_pending()
            snapshot = self.snapshot()
            if all(part.name.max_block < decided for part in snapshot.parts):
                return snapshot, True
            snapshot.release()
            self._wait(_SETTLE_PAUSE_SECONDS)
        return super().settled_snapshot()

    def begin_insert(self, options: InsertOptions) -> MergeTreeInsert:
        """Starts one INSERT."""
        delay_insert(self, options)
        return MergeTreeInsert(self, options)

    def wake_merges(self) -> None:
        """A little later, and once for many INSERTs: looking through the parts costs as much as one."""
        self._merge_task.wake(_SELECT_SECONDS)
        self._mutate_task.wake(_SELECT_SECONDS)

    def report_corruption(self, error: CorruptionError) -> None:
        """Leaves the part where it is: there is no other copy, and its reads fail until the user decides."""
        logger.error("table %s: %s", self.definition.full_name, error)
        if (name := PartName.try_parse(error.part or "")) is not None:
            self.store.note_check(name, str(error))

    def stopped_changed(self) -> None:
        self._merge_task.wake()
        self._mutate_task.wake()

    @contextlib.contextmanager
    def altering(self, new: TableDefinition) -> Iterator[None]:
        self._mutations.refuse_conflicting_columns(
            find_changed_columns(self.definition.description.schema, new.description.schema)
        )
        with super().altering(new):
            yield

    def _mutate_step(self) -> float:
        if StoppableAction.MERGES in self.stopped:
            return _IDLE_SECONDS
        with self.services.merging.try_take() as is_taken:
            delay = self._mutations.step() if is_taken else _SELECT_SECONDS
        return _IDLE_SECONDS if delay is None else delay

    def clean_up_step(self) -> float:
        self._mutations.clean_up()
        self.transactions.clean_up(self.services.monotonic())
        return super().clean_up_step()

    def truncate(self, status: QueryStatus | None = None) -> None:
        """Removes all rows that are there now."""
        self._partitions.drop(None, status=status)

    def _find_mutation(self, part: PartName) -> str | None:
        """Returns the id of a mutation that the part still needs."""
        return self._mutations.find_next(part)

    def _forget_blocks(self) -> None:
        with self.recent_blocks.deduplicating():
            self.recent_blocks.clear()

    def _merge_step(self) -> float:
        if StoppableAction.MERGES in self.stopped or not self.merges_in_background:
            return _IDLE_SECONDS
        with self.services.merging.try_take() as is_taken:
            if not is_taken:
                return _SELECT_SECONDS
            return 0.0 if self._merges.step() else _IDLE_SECONDS
