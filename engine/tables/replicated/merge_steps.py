"""Decides merges and writes them into the log: in the background, and for OPTIMIZE."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from coordination.drop_part import log_part_drop
from coordination.keeper import Keeper
from coordination.log_entry import EntryType
from coordination.merge_assignment import assign_merges, merge_entry
from coordination.merge_predicate import MergePredicate, build_predicate
from coordination.replica_activity import CLEANUP, require_feature
from engine.tables.afterwards import afterwards
from engine.tables.disk_space import SELECTED
from engine.tables.expiring import TTL_MERGES, Expiring
from engine.tables.options import OptimizeOptions
from engine.tables.replicated.shared_definition import shared_definition
from engine.tables.replicated.state import ReplicaState
from engine.tables.stopped import Stoppable
from parts.errors import ConflictError, PandoError, UnknownOutcomeError, UserError
from parts.merge.select import PartFacts, max_merge_bytes, select_merge
from parts.part_name import PartName, merged_name

logger = logging.getLogger(__name__)

_ASSIGN_ATTEMPTS = 20
_SOON_SECONDS = 0.1


class Log(Protocol):
    """The log, as this replica takes it over."""

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue."""


class MergeSteps:
    def __init__(self, state: ReplicaState, log: Log, slots: int, wake_execution: Callable[[], None]) -> None:
        """``slots``: how many entries of the queue run at a time."""
        self._state = state
        self._log = log
        self._slots = slots
        self._wake_execution = wake_execution
        self.task = state.make_task("select merges", self.select_step)
        self.are_selected = True
        self._expiring = Expiring(state)

    # -- in the background --------------------------------------------------------------------------------------

    def select_step(self) -> float:
        state = self._state
        idle = state.definition.settings.merge_selecting_sleep_ms / 1000
        if state.activation is None or not self.are_selected or Stoppable.MERGES in state.stopped:
            return idle
        try:
            with state.working() as (keeper, _):
                return _SOON_SECONDS if self._select(keeper) else idle
        except PandoError as error:
            logger.info("selecting a merge of %s is put off: %s", state.definition.full_name, error)
            return idle

    def _select(self, keeper: Keeper) -> bool:
        state = self._state
        settings = state.definition.settings
        queued = state.queue.count(EntryType.MERGE_PARTS)
        if queued >= settings.max_replicated_merges_in_queue:
            return False
        gone, may_expire = self._expiring.gone(), self._may_expire()
        if (gone or may_expire) and not self._is_definition_current(keeper):
            gone, may_expire = [], False
        is_merged = any(len(parts) > 1 for parts in self._parts_by_partition().values())
        if not (gone or may_expire or is_merged):
            return False  # spares ZooKeeper the predicate's questions
        predicate = self._predicate(keeper)
        if gone and self._drop_gone(keeper, predicate, gone):
            return True
        if may_expire and (expired := self._expiring.choose(self._local_runs(predicate))) is not None:
            if self._assign(keeper, predicate, [expired.sources], OptimizeOptions(), expired.merge_type):
                self._expiring.note(expired)
                return True
            return False
        slots = self._slots
        chosen = select_merge(
            self._local_runs(predicate),
            self._facts,
            max_bytes=min(
                max_merge_bytes(
                    max(1, slots - queued),
                    slots,
                    at_most=settings.max_bytes_to_merge_at_max_space_in_pool,
                    at_least=settings.max_bytes_to_merge_at_min_space_in_pool,
                ),
                state.services.disk.unreserved_bytes(state.store.path) // SELECTED,
            ),
            max_parts=settings.max_parts_to_merge_at_once,
        )
        if not chosen:
            return False
        return self._assign(keeper, predicate, [chosen], OptimizeOptions(), "Regular")

    def _may_expire(self) -> bool:
        if not self._expiring.has_work():
            return False
        queued = sum(item.entry.merge_type in TTL_MERGES for item in self._state.queue.entries())
        return queued < self._state.definition.settings.max_replicated_merges_with_ttl_in_queue

    def _is_definition_current(self, keeper: Keeper) -> bool:
        """Whether nobody has made another TTL meanwhile, of which this replica has not heard."""
        state = self._state
        if not state.description.ttl:
            return True
        keeper.sync(state.paths.columns)
        return keeper.get(state.paths.columns)[0].decode() == shared_definition(state.description).columns

    def _drop_gone(self, keeper: Keeper, predicate: MergePredicate, gone: Sequence[PartName]) -> bool:
        """One of the parts of which no row is left: whether that was logged. Beside replicas that do not know such a
        drop a merge makes an empty part of it."""
        name = next((name for name in gone if predicate.why_not_single(name) is None), None)
        if name is None:
            return False
        state = self._state
        where = (keeper, state.paths, state.replica.name)
        try:
            is_logged = log_part_drop(*where, name, predicate.log_version, clock=state.services.clock)
        except UserError as refused:
            logger.info("part %s of %s is kept: %s", name, state.definition.full_name, refused)
            return False
        if is_logged:
            self._log.pull(keeper)
        return is_logged

    def _parts_by_partition(self) -> dict[str, list[PartName]]:
        partitions: dict[str, list[PartName]] = {}
        for name in self._state.queue.virtual_parts():
            partitions.setdefault(name.partition_id, []).append(name)
        return partitions

    def _predicate(self, keeper: Keeper) -> MergePredicate:
        state = self._state
        return build_predicate(keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load)

    def _local_runs(self, predicate: MergePredicate) -> list[list[PartName]]:
        """Neighbours that may be merged and are all on this disk."""
        partitions = predicate.partition_ids()
        return [run for partition in partitions for run in predicate.mergeable_runs(partition, self._is_here)]

    def _is_here(self, name: PartName) -> bool:
        return self._state.store.get_active(name) is not None

    def _facts(self, name: PartName) -> PartFacts:
        """Zeros for a part that is not here (any more)."""
        part = self._state.store.get_active(name)
        if part is None:
            return PartFacts(0, 0.0)
        return PartFacts(part.bytes_on_disk, self._state.services.clock() - part.modification_time, part.rows)

    def _assign(
        self,
        keeper: Keeper,
        predicate: MergePredicate,
        merges: Sequence[Sequence[PartName]],
        options: OptimizeOptions,
        merge_type: str,
    ) -> bool:
        state = self._state
        expire_at = self._expiring.time if self._is_definition_current(keeper) else 0
        entries = [
            merge_entry(
                list(sources),
                state.replica.name,
                state.services.clock(),
                deduplicate=options.deduplicate,
                deduplicate_by=options.deduplicate_by,
                cleanup=options.cleanup,
                merge_type=merge_type,
                expire_at=expire_at,
                alter_version=state.description.metadata_version if expire_at else 0,
                rows=sum(facts.rows for facts in map(self._facts, sources)),
                size_bytes=sum(facts.size_bytes for facts in map(self._facts, sources)),
            )
            for sources in merges
        ]
        if not assign_merges(keeper, state.paths, predicate.log_version, entries):
            return False
        with afterwards("The merges are in the log"):
            self._log.pull(keeper)
        return True

    # -- OPTIMIZE -----------------------------------------------------------------------------------------------

    def optimize(self, options: OptimizeOptions) -> None:
        """Returns when the merges have been carried out here."""
        state = self._state
        state.require_writable()
        if options.is_waited_for:
            state.stopped.refuse(Stoppable.MERGES, "Cancelled merging parts")
        with state.working() as (keeper, _):
            if options.cleanup:
                require_feature(keeper, state.paths, CLEANUP, "OPTIMIZE … CLEANUP")
            assigned = self._assign_optimize(keeper, options)
        results = [merged_name(list(sources)) for sources in assigned] or self._under_way(options)
        if not results:
            if options.throw_if_noop:
                raise UserError(
                    "CANNOT_ASSIGN_OPTIMIZE",
                    f"Nothing to merge in table {state.definition.full_name}: no suitable parts",
                )
            return
        self._wake_execution()
        if not options.is_waited_for:
            return
        with afterwards("The merges are in the log"):
            state.wait_for(
                lambda: all(map(self._is_carried_out, results)),
                state.services.queue_wait_seconds,
                "the merge of OPTIMIZE",
                options.status,
            )

    def _under_way(self, options: OptimizeOptions) -> list[PartName]:
        """Merges that somebody assigned before and that this replica has not made yet: OPTIMIZE waits for them too."""
        active = self._state.store
        return [
            name
            for partition, names in self._parts_by_partition().items()
            for name in names
            if options.partition_id in (None, partition) and name.level > 0 and active.covering_active(name) is None
        ]

    def _is_carried_out(self, result: PartName) -> bool:
        """Here, or not to come any more: it was dropped meanwhile."""
        is_here = self._state.store.covering_active(result) is not None
        return is_here or self._state.queue.has_virtual_cover(result) is None

    def _assign_optimize(self, keeper: Keeper, options: OptimizeOptions) -> list[list[PartName]]:
        """After a lost answer it looks again, once; what then fails cannot say that nothing was done."""
        try:
            return self._assign_chosen(keeper, options)
        except UnknownOutcomeError:
            with afterwards("The merges may be in the log"):
                return self._assign_chosen(keeper, options)

    def _assign_chosen(self, keeper: Keeper, options: OptimizeOptions) -> list[list[PartName]]:
        """Inserts under way and merges that others assign only make it look again; at last raises 388."""
        failure = ConflictError(
            "CANNOT_ASSIGN_OPTIMIZE", "Other replicas keep assigning merges to this table; try OPTIMIZE again"
        )
        for _ in range(_ASSIGN_ATTEMPTS):
            options.status.check()
            keeper.sync(self._state.paths.root)
            predicate = self._predicate(keeper)
            try:
                merges = self._optimize_merges(predicate, options)
            except ConflictError as conflict:
                failure = conflict
                self._state.sleep(_SOON_SECONDS)
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
            most = self._state.definition.settings.max_parts_to_merge_at_once
            return [longest[:most]] if len(longest) > 1 else []
        merges = []
        for partition in partitions:
            sources = predicate.whole_partition(partition, options.rewrites)
            if sources:
                merges.append(list(sources))
        return merges
