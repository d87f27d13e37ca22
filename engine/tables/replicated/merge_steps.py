"""Decides merges and writes them into the log: in the background, and for OPTIMIZE and TRUNCATE."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordination.drop_range import drop_all_partitions
from coordination.keeper import Keeper
from coordination.log_entry import EntryType
from coordination.merge_assignment import assign_merges, merge_entry
from coordination.merge_predicate import MergePredicate, build_predicate
from engine.tables.options import OptimizeOptions
from parts.errors import ConflictError, PandoError, UserError
from parts.merge.select import PartFacts, max_merge_bytes, select_merge
from parts.part_name import PartName, merged_name
from parts.query_status import QueryStatus

if TYPE_CHECKING:
    from engine.tables.replicated.table import ReplicatedTable

logger = logging.getLogger(__name__)

_ASSIGN_ATTEMPTS = 20
_OPTIMIZE_SECONDS = 600.0
_SOON_SECONDS = 0.1


class MergeSteps:
    def __init__(self, table: ReplicatedTable) -> None:
        self._table = table
        self.are_allowed = True

    # -- in the background --------------------------------------------------------------------------------------

    def select_step(self) -> float:
        table = self._table
        idle = table.description.settings.merge_selecting_sleep_ms / 1000
        if table.activation is None or not self.are_allowed:
            return idle
        try:
            with table.working() as (keeper, _):
                return _SOON_SECONDS if self._select(keeper) else idle
        except PandoError as error:
            logger.info("selecting a merge of %s is put off: %s", table.definition.full_name, error)
            return idle

    def _select(self, keeper: Keeper) -> bool:
        table = self._table
        settings = table.description.settings
        queued = table.queue.count(EntryType.MERGE_PARTS)
        if queued >= settings.max_replicated_merges_in_queue:
            return False
        if all(len(parts) < 2 for parts in self._parts_by_partition().values()):
            return False  # spares ZooKeeper the predicate's questions
        predicate = self._predicate(keeper)
        slots = table.queue_steps.slots
        chosen = select_merge(
            self._local_runs(predicate),
            self._facts,
            max_bytes=max_merge_bytes(
                max(1, slots - queued),
                slots,
                at_most=settings.max_bytes_to_merge_at_max_space_in_pool,
                at_least=settings.max_bytes_to_merge_at_min_space_in_pool,
            ),
            max_parts=settings.max_parts_to_merge_at_once,
        )
        if not chosen:
            return False
        return self._assign(keeper, predicate, [chosen], OptimizeOptions(), "Regular")

    def _parts_by_partition(self) -> dict[str, list[PartName]]:
        partitions: dict[str, list[PartName]] = {}
        for name in self._table.queue.virtual_parts():
            partitions.setdefault(name.partition_id, []).append(name)
        return partitions

    def _predicate(self, keeper: Keeper) -> MergePredicate:
        table = self._table
        return build_predicate(keeper, table.paths, table.queue, lambda: table.queue_steps.pull(keeper))

    def _local_runs(self, predicate: MergePredicate) -> list[list[PartName]]:
        """Neighbours that may be merged and are all on this disk."""
        partitions = predicate.partition_ids()
        return [run for partition in partitions for run in predicate.mergeable_runs(partition, self._is_here)]

    def _is_here(self, name: PartName) -> bool:
        return self._table.store.get_active(name) is not None

    def _facts(self, name: PartName) -> PartFacts:
        """Zeros for a part that is not here (any more)."""
        part = self._table.store.get_active(name)
        if part is None:
            return PartFacts(0, 0.0)
        return PartFacts(part.bytes_on_disk, self._table.services.clock() - part.modification_time, part.rows)

    def _assign(
        self,
        keeper: Keeper,
        predicate: MergePredicate,
        merges: Sequence[Sequence[PartName]],
        options: OptimizeOptions,
        merge_type: str,
    ) -> bool:
        table = self._table
        entries = [
            merge_entry(
                list(sources),
                table.replica.name,
                table.services.clock(),
                deduplicate=options.deduplicate,
                deduplicate_by=options.deduplicate_by,
                merge_type=merge_type,
                rows=sum(facts.rows for facts in map(self._facts, sources)),
                size_bytes=sum(facts.size_bytes for facts in map(self._facts, sources)),
            )
            for sources in merges
        ]
        if not assign_merges(keeper, table.paths, predicate.log_version, entries):
            return False
        table.queue_steps.pull(keeper)
        return True

    # -- OPTIMIZE -----------------------------------------------------------------------------------------------

    def optimize(self, options: OptimizeOptions) -> None:
        """Returns when the merges have been carried out here."""
        table = self._table
        table.require_writable()
        with table.working() as (keeper, _):
            assigned = self._assign_optimize(keeper, options)
        results = [merged_name(list(sources)) for sources in assigned] or self._under_way(options)
        if not results:
            if options.throw_if_noop:
                raise UserError(
                    "CANNOT_ASSIGN_OPTIMIZE",
                    f"Nothing to merge in table {table.definition.full_name}: no suitable parts",
                )
            return
        table.wake_execution()
        table.wait_for(
            lambda: all(map(self._is_carried_out, results)), _OPTIMIZE_SECONDS, "the merge of OPTIMIZE", options.status
        )

    def _under_way(self, options: OptimizeOptions) -> list[PartName]:
        """Merges that somebody assigned before and that this replica has not made yet: OPTIMIZE waits for them too."""
        active = self._table.store
        return [
            name
            for partition, names in self._parts_by_partition().items()
            for name in names
            if options.partition_id in (None, partition) and name.level > 0 and active.covering_active(name) is None
        ]

    def _is_carried_out(self, result: PartName) -> bool:
        """Here, or not to come any more: it was dropped meanwhile."""
        is_here = self._table.store.covering_active(result) is not None
        return is_here or self._table.queue.has_virtual_cover(result) is None

    def _assign_optimize(self, keeper: Keeper, options: OptimizeOptions) -> list[list[PartName]]:
        """Inserts under way and merges that others assign only make it look again; at last raises 388."""
        failure = ConflictError(
            "CANNOT_ASSIGN_OPTIMIZE", "Other replicas keep assigning merges to this table; try OPTIMIZE again"
        )
        for _ in range(_ASSIGN_ATTEMPTS):
            options.status.check()
            keeper.sync(self._table.paths.root)
            predicate = self._predicate(keeper)
            try:
                merges = self._optimize_merges(predicate, options)
            except ConflictError as conflict:
                failure = conflict
                self._table.sleep(_SOON_SECONDS)
                continue
            if not merges or self._assign(keeper, predicate, merges, options, "Optimize"):
                return merges
        raise failure

    def _optimize_merges(self, predicate: MergePredicate, options: OptimizeOptions) -> list[list[PartName]]:
        partitions = sorted(self._parts_by_partition())
        if options.partition_id is not None:
            partitions = [options.partition_id] if options.partition_id in partitions else []
        if not options.final and options.partition_id is None:
            # Asked for by hand, so balance does not matter: the longest run there is.
            longest = max(self._local_runs(predicate), key=len, default=[])
            most = self._table.description.settings.max_parts_to_merge_at_once
            return [longest[:most]] if len(longest) > 1 else []
        merges = []
        for partition in partitions:
            sources = predicate.whole_partition(partition, final=options.final, deduplicate=options.deduplicate)
            if sources:
                merges.append(list(sources))
        return merges

    # -- TRUNCATE -----------------------------------------------------------------------------------------------

    def truncate(self, status: QueryStatus | None = None) -> None:
        """Drops the blocks there are now, on all replicas; returns when they are gone here."""
        table = self._table
        with table.working() as (keeper, _), table.releasing_numbers():
            keeper.sync(table.paths.root)  # a server that lags would not show the newest partitions
            drop_all_partitions(keeper, table.paths, table.replica.name, clock=table.services.clock)
        table.sync(_OPTIMIZE_SECONDS, status)
