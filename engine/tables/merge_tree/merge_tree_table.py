"""``MergeTree``: a table on this server alone. Commits are renames; block numbers come from a counter.

Invariants:
- Block numbers are unique over all partitions and grow; the counter restarts above the largest on disk, detached parts
  among them, and above what was dropped: a stream that has read a block would take another of its number for read.
- The parts of one INSERT become visible together; a failed one leaves no part under a final name.
- A part is a source of at most one merge at a time (``_busy``).
- A merge covers no block but those of its sources: none that is numbered and not active yet (``_pending``).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.tables.capabilities.block_history import (
    BlockHistory,
    MergeTreeBlockHistory,
    WantedBlocks,
    require_readable_blocks,
)
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.capabilities.table_mutations import TableMutations
from engine.tables.capabilities.table_partitions import TablePartitions
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.disk_reservations import FREE_TO_SOURCE_RATIO
from engine.tables.insert_delay import delay_insert
from engine.tables.insert_sink import InsertSink, deduplicates_blocks
from engine.tables.merge_tree.deduplication_log import RecentBlocks
from engine.tables.merge_tree.local_insert import MergeTreeInsert
from engine.tables.merge_tree.local_mutations import MergeTreeMutations
from engine.tables.merge_tree.local_partitions import MergeTreePartitions
from engine.tables.merge_tree.local_transactions import MergeTreeTransactions
from engine.tables.merges.merge_execution import merge_to_temporary
from engine.tables.merges.ttl_merges import TtlMergeSelector
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from engine.tables.stopped_actions import StoppableAction
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CancelledError, ConflictError, CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName, make_merged_name
from parts.common.query_status import QueryStatus
from parts.merge.merge_selector import MergeCandidate, select_merge
from parts.read.part_reader import Part
from parts.store.detached_parts import get_max_block
from sql.definitions.alter.column_changes import find_changed_columns
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0
_SELECT_SECONDS = 0.25
_OPTIMIZE_RETRY_SECONDS = 0.02
_PENDING_POLL_SECONDS = 0.002
_OPTIMIZE_ATTEMPTS = 30_000


class MergeTreeTable(Table):
    def start(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[PartName] = set()
        self._pending: set[int] = set()
        """The block numbers of INSERTs that are about to commit."""
        self._expiring = TtlMergeSelector(self)
        self.recent_blocks = RecentBlocks(lambda: self.definition.settings.non_replicated_deduplication_window)
        self._transactions = MergeTreeTransactions(self, self._forget_blocks)
        self._mutate_task = self.make_task("mutate", self._mutate_step)
        self._mutations = MergeTreeMutations(self, self.home.find, self._mutate_task.wake)
        super().start()
        for name in self.store.attaching.list_transactions():
            self.store.attaching.end(name, is_attached=bool(self._transactions.settle(name)))
        self._history = MergeTreeBlockHistory(self.definition.data_path, self.services.new_uuid)
        numbers = [part.name.max_block for part, _ in self.store.list_parts()]
        numbers += [part.name.mutation for part, _ in self.store.list_parts()]
        numbers += map(get_max_block, self.store.list_detached())
        numbers.append(self._mutations.load())
        self._last_block_number = max([*numbers, *self._history.dropped().values()], default=0)
        self._merge_task = self.make_task("merge", self._merge_step)
        self.run_in_background(self.services.workers, self._merge_task)
        self.run_in_background(self.services.workers, self._mutate_task)

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        delay_insert(self, options)
        return MergeTreeInsert(self, options)

    @contextlib.contextmanager
    def numbers(self, count: int) -> Iterator[range]:
        """New block numbers for parts that become active, or are given up, within the block."""
        with self._lock:
            first = self._last_block_number + 1
            self._last_block_number += count
            numbers = range(first, first + count)
            self._pending.update(numbers)
        try:
            yield numbers
        finally:
            with self._lock:
                self._pending.difference_update(numbers)

    @property
    def block_memory(self) -> BlockMemory | None:
        return self.recent_blocks if deduplicates_blocks(self.definition) else None

    def wake_merges(self) -> None:
        """A little later, and once for many INSERTs: looking through the parts costs as much as one."""
        self._merge_task.wake(_SELECT_SECONDS)
        self._mutate_task.wake(_SELECT_SECONDS)

    def first_pending(self) -> int:
        with self._lock:
            return min(self._pending, default=self._last_block_number + 1)

    def report_corruption(self, error: CorruptionError) -> None:
        """Leaves the part where it is: there is no other copy, and its reads fail until the user decides."""
        logger.error("table %s: %s", self.definition.full_name, error)
        if (name := PartName.try_parse(error.part or "")) is not None:
            self.store.note_check(name, str(error))

    def optimize(self, options: OptimizeOptions) -> None:
        self.stopped.refuse(StoppableAction.MERGES, "Cancelled merging parts")
        try:
            self._optimize(options)
        except CancelledError:
            self.stopped.refuse(StoppableAction.MERGES, "Cancelled merging parts")
            raise

    def _optimize(self, options: OptimizeOptions) -> None:
        by_partition: dict[str, list[Part]] = {}
        for part in self.store.list_active():
            by_partition.setdefault(part.name.partition_id, []).append(part)
        wanted = [options.partition_id] if options.partition_id is not None else sorted(by_partition)
        if not options.final and options.partition_id is None:
            wanted = sorted(wanted, key=lambda partition: -len(by_partition[partition]))[:1]
        merged = False
        for partition in wanted:
            parts = by_partition.get(partition, [])
            if len(parts) > 1 or (parts and options.rewrites(parts[0].name)):
                options.status.check()
                self._merge_whole(partition, options)
                merged = True
        if not merged and options.throw_if_noop:
            raise UserError(
                "CANNOT_ASSIGN_OPTIMIZE", f"Nothing to merge in table {self.definition.full_name}: no suitable parts"
            )

    def _merge_whole(self, partition: str, options: OptimizeOptions) -> None:
        """Waits for merges of its parts that are under way."""
        for _ in range(_OPTIMIZE_ATTEMPTS):
            names = [part.name for part in self.store.list_active() if part.name.partition_id == partition]
            if not names:
                return  # dropped meanwhile
            try:
                self._merge(names, options)
                return
            except ConflictError:
                options.status.check()
                if self._mutations.has_failed and self._are_apart(names):
                    return  # perhaps for ever
                if self.services.wait(self.is_stopping, _OPTIMIZE_RETRY_SECONDS):
                    break
        raise ConflictError("ABORTED", f"Parts of partition {partition} are being merged all the time; try again later")

    def stopped_changed(self) -> None:
        self._merge_task.wake()
        self._mutate_task.wake()

    @property
    def transactions(self) -> TableTransactions:
        return self._transactions

    @property
    def mutations(self) -> TableMutations:
        return self._mutations

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
        self._transactions.clean_up(self.services.monotonic())
        return super().clean_up_step()

    @property
    def partitions(self) -> TablePartitions:
        return MergeTreePartitions(self, self._transactions)

    def _forget_blocks(self) -> None:
        with self.recent_blocks.deduplicating():
            self.recent_blocks.clear()

    def note_dropped(self, names: Iterable[PartName]) -> None:
        """Before the parts go: a reader in the order of blocks must learn of them."""
        last: dict[str, int] = {}
        for name in names:
            last[name.partition_id] = max(name.max_block, last.get(name.partition_id, 0))
        if last:
            self._history.note_dropped(last)

    def wait_for_pending(self, status: QueryStatus) -> None:
        """Waits for INSERTs that have block numbers and are about to commit.

        Later INSERTs get larger numbers than what is dropped, so a reader in the order of blocks can tell them apart.
        """
        with self._lock:
            pending = set(self._pending)
        while pending:
            status.check()
            if self.services.wait(self.is_stopping, _PENDING_POLL_SECONDS):
                raise UnavailableError("ABORTED", f"Table {self.definition.full_name} is being stopped")
            with self._lock:
                pending &= self._pending

    def history(self) -> BlockHistory:
        """Later numbers than those of now are larger."""
        first_open = self.first_pending()
        known = self._history.read()
        decided: dict[str, int] = {}
        for part in self.store.list_active():
            name = part.name
            if name.min_block < first_open:
                decided[name.partition_id] = max(decided.get(name.partition_id, 0), min(name.max_block, first_open - 1))
        return replace(known, decided=decided)

    def snapshot_of_blocks(self, wanted: WantedBlocks) -> PartsSnapshot:
        snapshot = self.store.snapshot()
        try:
            require_readable_blocks(self.definition, self._history.read(), wanted)
        except BaseException:
            snapshot.release()
            raise
        return snapshot

    def _merge_step(self) -> float:
        if StoppableAction.MERGES in self.stopped:
            return _IDLE_SECONDS
        with self.services.merging.try_take() as is_taken:
            if not is_taken:
                return _SELECT_SECONDS
            return 0.0 if self._drop_gone() or self._merge_selected() else _IDLE_SECONDS

    def _drop_gone(self) -> bool:
        """Parts of which no row is left by TTL."""
        gone = self._expiring.gone()
        dropped = False
        for name in gone:
            with contextlib.suppress(ConflictError, UserError):  # it is being merged, or was
                with self.kept_from_merges([name]):
                    self.partitions.drop_part(name)
                dropped = True
        return dropped

    def _merge_selected(self) -> bool:
        now = self.services.clock()
        with self._lock:
            busy, pending = set(self._busy), sorted(self._pending)
        parts = {part.name: part for part in self.store.list_active()}
        waiting = self._mutations.waiting()

        def run_of(name: PartName) -> tuple[bool, str, int, int]:
            return name not in busy, name.partition_id, bisect(pending, name.min_block), waiting(name)

        runs = [list(run) for (is_free, *_), run in itertools.groupby(parts, key=run_of) if is_free]
        settings = self.definition.settings
        expired = self._expiring.choose(runs)
        choice = (
            expired.sources
            if expired is not None
            else select_merge(
                runs,
                lambda name: MergeCandidate(
                    parts[name].bytes_on_disk, now - parts[name].modification_time, parts[name].rows
                ),
                max_bytes=min(
                    settings.max_bytes_to_merge_at_max_space_in_pool,
                    self.services.disk.unreserved_bytes(self.store.path) // FREE_TO_SOURCE_RATIO,
                ),
                max_parts=settings.max_parts_to_merge_at_once,
            )
        )
        if not choice:
            return False
        try:
            self._merge(choice, merge_type=expired.merge_type if expired is not None else "Regular")
            if expired is not None:
                self._expiring.note(expired)
        except ConflictError as conflict:
            logger.info("merge given up: %s", conflict)
        return True

    def _merge(
        self, names: Sequence[PartName], options: OptimizeOptions | None = None, merge_type: str = "Regular"
    ) -> None:
        """Raises ``ConflictError`` when a source is already being merged or has gone."""
        options = options or OptimizeOptions()
        self._take(names)
        try:
            result = make_merged_name(list(names))
            self._check_nothing_pending(result)
            if self._are_apart(names):
                raise ConflictError("ABORTED", f"Mutations are to be carried out on some sources of {result} first")
            with self.store.snapshot() as snapshot:
                by_name = {part.name: part for part in snapshot.parts}
                if not all(name in by_name for name in names):
                    raise ConflictError("ABORTED", "A source of the merge is no longer active")
                if any(result.covers(name) and name not in names for name in by_name):
                    raise ConflictError("ABORTED", f"A part came between the sources of {result}; try again later")
                directory = merge_to_temporary(
                    self,
                    [by_name[name] for name in names],
                    result,
                    deduplicate=options.deduplicate,
                    deduplicate_by=options.deduplicate_by,
                    cleanup=options.cleanup,
                    is_cancelled=lambda: (
                        self.is_cancelled() or options.status.is_stopped or StoppableAction.MERGES in self.stopped
                    ),
                    expire_at=self._expiring.time,
                    merge_type=merge_type,
                )
                self.commit_instead(directory, result, names)
        finally:
            with self._lock:
                self._busy.difference_update(names)

    def _are_apart(self, names: Sequence[PartName]) -> bool:
        return len(set(map(self._mutations.waiting(), names))) > 1

    def _check_nothing_pending(self, result: PartName) -> None:
        """Rows of a block that the result covers without having read it would be gone. Asked before the snapshot is
        taken: what was pending has become active by then, or it is pending still; later blocks lie behind the result.
        """
        with self._lock:
            pending = [number for number in self._pending if result.min_block <= number <= result.max_block]
        if pending:
            raise ConflictError("ABORTED", f"Block {pending[0]} is about to commit between the sources of {result}")

    @contextlib.contextmanager
    def kept_from_merges(self, names: Sequence[PartName]) -> Iterator[None]:
        """Raises ``ConflictError`` when one is being merged already."""
        self._take(names)
        try:
            yield
        finally:
            with self._lock:
                self._busy.difference_update(names)

    def _take(self, names: Iterable[PartName]) -> None:
        with self._lock:
            taken = self._busy.intersection(names)
            if taken:
                raise ConflictError("ABORTED", f"Part {min(taken)} is being merged already; try again later")
            self._busy.update(names)

    def commit_instead(self, directory: Path, result: PartName, names: Sequence[PartName]) -> None:
        """Commits a merged or mutated part in place of its sources.

        The sources may have been truncated meanwhile; their rows must not come back, not even after a crash here. So
        the part gets its name, by which a restart would find it, only while they cannot be truncated.
        """
        try:
            with self.store.lock:
                if not all(self.store.get_active(name) is not None for name in names):
                    raise ConflictError("ABORTED", f"A source of {result} was dropped meanwhile")
                self.store.commit(self.store.add_preactive(directory, result, is_synced=True))
        except BaseException:
            self.store.drop_temporary(directory)
            raise
