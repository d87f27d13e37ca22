"""Chooses and runs the merges of a table of one server, in the background and for OPTIMIZE.

Invariants:
- A part is a source of at most one merge at a time (``PartReservations``).
- A merge covers no block but those of its sources: none that is numbered and not active yet (``BlockNumbers``).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from bisect import bisect
from collections.abc import Sequence
from typing import Protocol

from engine.tables.disk_reservations import FREE_TO_SOURCE_RATIO
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.merge_tree.local_mutations import MergeTreeMutations
from engine.tables.merge_tree.local_partitions import MergeTreePartitions
from engine.tables.merge_tree.part_replacement import PartReservations, replace_parts
from engine.tables.merges.merge_execution import merge_to_temporary
from engine.tables.merges.ttl_merges import TtlMergeSelector
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction, StoppedActions
from engine.tables.table_data import TableData
from parts.common.errors import CancelledError, ConflictError, UserError
from parts.common.part_name import PartName, make_merged_name
from parts.merge.merge_selector import MergeCandidate, select_merge
from parts.read.part_reader import Part

logger = logging.getLogger(__name__)

_OPTIMIZE_RETRY_SECONDS = 0.02
_OPTIMIZE_ATTEMPTS = 30_000


class MergedTable(TableData, Protocol):
    """A table whose work can be stopped."""

    is_stopping: threading.Event
    stopped: StoppedActions


class LocalMerges:
    """The merges of one table."""

    def __init__(
        self,
        table: MergedTable,
        numbers: BlockNumbers,
        reservations: PartReservations,
        mutations: MergeTreeMutations,
        partitions: MergeTreePartitions,
    ) -> None:
        self._table = table
        self._numbers = numbers
        self._reservations = reservations
        self._mutations = mutations
        self._partitions = partitions
        self._ttl_merges = TtlMergeSelector(table)

    def step(self) -> bool:
        """Runs one merge that is due, or drops what has expired; returns whether there was anything."""
        return self._drop_gone() or self._merge_selected()

    def optimize(self, options: OptimizeOptions) -> None:
        """Merges for OPTIMIZE; see :attr:`engine.tables.owned_table.OwnedTable.optimize`."""
        stopped = self._table.stopped
        stopped.refuse(StoppableAction.MERGES, "Cancelled merging parts")
        try:
            self._merge_partitions(options)
        except CancelledError:
            stopped.refuse(StoppableAction.MERGES, "Cancelled merging parts")
            raise

    def _merge_partitions(self, options: OptimizeOptions) -> None:
        by_partition: dict[str, list[Part]] = {}
        for part in self._table.store.active():
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
                "CANNOT_ASSIGN_OPTIMIZE",
                f"Nothing to merge in table {self._table.definition.full_name}: no suitable parts",
            )

    def _merge_whole(self, partition: str, options: OptimizeOptions) -> None:
        """Waits for merges of its parts that are under way."""
        for _ in range(_OPTIMIZE_ATTEMPTS):
            names = [part.name for part in self._table.store.active() if part.name.partition_id == partition]
            if not names:
                return  # dropped meanwhile
            try:
                self._merge(names, options)
                return
            except ConflictError:
                options.status.check()
                if self._mutations.has_failed and self._are_apart(names):
                    return  # perhaps for ever
                if self._table.services.wait(self._table.is_stopping, _OPTIMIZE_RETRY_SECONDS):
                    break
        raise ConflictError("ABORTED", f"Parts of partition {partition} are being merged all the time; try again later")

    def _drop_gone(self) -> bool:
        """Parts of which no row is left by TTL."""
        gone = self._ttl_merges.gone()
        dropped = False
        for name in gone:
            with contextlib.suppress(ConflictError, UserError):  # it is being merged, or was
                with self._reservations.reserve([name]):
                    self._partitions.drop_part(name)
                dropped = True
        return dropped

    def _merge_selected(self) -> bool:
        now = self._table.services.clock()
        reserved, pending = self._reservations.reserved(), self._numbers.pending()
        parts = {part.name: part for part in self._table.store.active()}
        waiting = self._mutations.waiting()

        def run_of(name: PartName) -> tuple[bool, str, int, int]:
            return name not in reserved, name.partition_id, bisect(pending, name.min_block), waiting(name)

        runs = [list(run) for (is_free, *_), run in itertools.groupby(parts, key=run_of) if is_free]
        settings = self._table.definition.settings
        expired = self._ttl_merges.choose(runs)
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
                    self._table.services.disk.unreserved_bytes(self._table.store.path) // FREE_TO_SOURCE_RATIO,
                ),
                max_parts=settings.max_parts_to_merge_at_once,
            )
        )
        if not choice:
            return False
        try:
            self._merge(choice, merge_type=expired.merge_type if expired is not None else "Regular")
            if expired is not None:
                self._ttl_merges.note(expired)
        except ConflictError as conflict:
            logger.info("merge given up: %s", conflict)
        return True

    def _merge(
        self, names: Sequence[PartName], options: OptimizeOptions | None = None, merge_type: str = "Regular"
    ) -> None:
        """Raises ``ConflictError`` when a source is already being merged or has gone."""
        options, table = options or OptimizeOptions(), self._table
        with self._reservations.reserve(names):
            result = make_merged_name(list(names))
            self._check_nothing_pending(result)
            if self._are_apart(names):
                raise ConflictError("ABORTED", f"Mutations are to be carried out on some sources of {result} first")
            with table.store.snapshot() as snapshot:
                by_name = {part.name: part for part in snapshot.parts}
                if not all(name in by_name for name in names):
                    raise ConflictError("ABORTED", "A source of the merge is no longer active")
                if any(result.covers(name) and name not in names for name in by_name):
                    raise ConflictError("ABORTED", f"A part came between the sources of {result}; try again later")
                directory = merge_to_temporary(
                    table,
                    [by_name[name] for name in names],
                    result,
                    deduplicate=options.deduplicate,
                    deduplicate_by=options.deduplicate_by,
                    cleanup=options.cleanup,
                    is_cancelled=lambda: (
                        table.is_cancelled() or options.status.is_stopped or StoppableAction.MERGES in table.stopped
                    ),
                    expire_at=self._ttl_merges.time,
                    merge_type=merge_type,
                )
                replace_parts(table.store, directory, result, names)

    def _are_apart(self, names: Sequence[PartName]) -> bool:
        return len(set(map(self._mutations.waiting(), names))) > 1

    def _check_nothing_pending(self, result: PartName) -> None:
        """Rows of a block that the result covers without having read it would be gone. Asked before the snapshot is
        taken: what was pending has become active by then, or it is pending still; later blocks lie behind the result.
        """
        pending = [number for number in self._numbers.pending() if result.min_block <= number <= result.max_block]
        if pending:
            raise ConflictError("ABORTED", f"Block {pending[0]} is about to commit between the sources of {result}")
