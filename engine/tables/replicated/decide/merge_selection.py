"""Selects merges and writes them into the log, in the background and for OPTIMIZE."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from coordination.drops.drop_part import log_drop_part
from coordination.keeper.interface import Keeper, Op
from coordination.log.log_entry import EntryType
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.merges_mutations.merge_predicate import MergePredicate, guess_predicate, read_merge_predicate
from coordination.nodes.gate import CommitKind, GateBarred
from coordination.nodes.replica_activation import FEATURE_OPTIMIZE_CLEANUP, require_feature
from engine.tables.disk_reservations import FREE_TO_SOURCE_RATIO
from engine.tables.merges.ttl_merges import TTL_MERGE_TYPES, TtlMergeSelector
from engine.tables.replicated.decide.delayed_partitions import DelayedPartitions
from engine.tables.replicated.decide.merge_disk_space import raise_if_disk_full, require_disk_space
from engine.tables.replicated.decide.tombstone_merges import TombstoneMerges
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.pull_rest import REST_PAUSE_SECONDS
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import OptimizeOptions
from engine.tables.stopped_actions import StoppableAction
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, PandoError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName, make_merged_name
from parts.merge.merge_selector import MergeCandidate, compute_max_merge_bytes, select_merges

logger = logging.getLogger(__name__)

_ASSIGN_ATTEMPTS = 20
_SOON_SECONDS = 0.1
_POLLS_A_LOOK = 100
"""How many polls of a waiting OPTIMIZE pass between looks at the queue, which may be long."""


class LogReader(Protocol):
    """Reads the table's log into this replica's queue."""

    def pull(self, keeper: Keeper) -> None:
        """Moves everything that is in the log now into the queue."""


class MergeSelector:
    """The merge selection of one replica."""

    def __init__(self, state: ReplicaState, log: LogReader, slots: int, wake_execution: Callable[[], None]) -> None:
        """``slots`` is the number of queue entries that run at a time."""
        self._state = state
        self._log = log
        self._slots = slots
        self._wake_execution = wake_execution
        self.task = state.make_task("select merges", self.select_step)
        self.is_enabled = True
        self._has_changed = True
        """Whether parts, mutations or settings changed since the last look."""
        self._pause = 0.0
        """Seconds between two looks while nothing changes."""
        self._looked_at = -math.inf
        self._ttl_merges = TtlMergeSelector(state)
        self._delayed = DelayedPartitions(state.services.monotonic)
        self._tombstones = TombstoneMerges(state)

    # -- in the background --------------------------------------------------------------------------------------

    def select_step(self) -> float:
        """Selects and logs merges; returns the seconds until the next look.

        While nothing is found, the pauses grow until something changes (:meth:`note_change`). Merges that become
        possible by age or by a quorum are found at the next look.
        """
        state = self._state
        settings, idle = state.definition.settings, self._idle_seconds
        longest = max(idle, settings.max_merge_selecting_sleep_ms / 1000)
        if state.activation is None or not self.is_enabled or StoppableAction.MERGES in state.stopped:
            return longest
        if state.pull_rest.is_resting:
            return REST_PAUSE_SECONDS
        parts = state.queue.copy_virtual_parts()
        if len(parts) == len(parts.partition_ids()) and not (state.description.ttl or self._tombstones.stable_time):
            return longest
        has_changed, self._has_changed = self._has_changed, False
        self._looked_at = state.services.monotonic()
        try:
            with state.hold_write_access() as (keeper, _):
                if self._select(keeper):
                    return _SOON_SECONDS
        except PandoError as error:
            logger.info("selecting a merge of %s is put off: %s", state.definition.full_name, error)
        slower = self._pause * max(1.0, settings.merge_selecting_sleep_slowdown_factor)
        self._pause = idle if has_changed else min(max(idle, slower), longest)
        return self._pause

    def note_change(self) -> None:
        """Looks for merges soon, because parts, mutations or settings changed.

        At most every ``merge_selecting_sleep_ms``.
        """
        self._has_changed = True
        self.task.wake(max(0.0, self._looked_at + self._idle_seconds - self._state.services.monotonic()))

    @property
    def _idle_seconds(self) -> float:
        return self._state.definition.settings.merge_selecting_sleep_ms / 1000

    def _select(self, keeper: Keeper) -> bool:
        """Tells whether to select again soon. Asks ZooKeeper only about partitions with a possible merge."""
        state = self._state
        free = state.definition.settings.max_replicated_merges_in_queue - state.queue.count(EntryType.MERGE_PARTS)
        if free <= 0:
            return False
        gone, may_expire = self._ttl_merges.gone(), self._has_ttl_merge()
        if (gone or may_expire) and not self._is_definition_current(keeper):
            gone, may_expire = [], False
        guess = guess_predicate(state.queue, state.mutations.current)
        wanted = self._wanted_partitions(guess, may_expire, free)
        marked = self._tombstones.list_partitions()
        if not (gone or wanted or marked):
            return False
        wanted = sorted({*wanted, *marked})
        predicate = self._predicate(keeper, wanted)
        if gone and self._drop_expired_part(keeper, predicate, gone):
            return True
        runs = self._local_runs(predicate, wanted)
        if may_expire and (expired := self._ttl_merges.choose(runs)) is not None:
            if self._assign(keeper, predicate, [expired.sources], OptimizeOptions(), expired.merge_type):
                self._ttl_merges.note(expired)
                return True
            return False
        if whole := self._tombstones.choose(predicate, marked, self._max_bytes(0, 0))[:free]:
            self._tombstones.note([sources[0].partition_id for sources in whole])
            return self._assign(keeper, predicate, whole, OptimizeOptions(), "Regular")
        merges = self._choose(runs, free)
        self._delayed.note(wanted, {sources[0].partition_id for sources in merges}, self._idle_seconds)
        return bool(wanted) if not merges else self._assign(keeper, predicate, merges, OptimizeOptions(), "Regular")

    def _wanted_partitions(self, guess: MergePredicate, may_expire: bool, free: int) -> list[str]:
        """Returns, sorted, the partitions that would have a merge if nothing blocked it."""
        runs = self._local_runs(guess, [id_ for id_ in guess.partition_ids() if id_ not in self._delayed])
        merges = self._choose(runs, free)
        if may_expire and (expired := self._ttl_merges.choose(runs)) is not None:
            merges.append(expired.sources)
        return sorted({sources[0].partition_id for sources in merges})

    def _choose(self, runs: Sequence[Sequence[PartName]], free: int) -> list[list[PartName]]:
        """Returns the best merges, at most as many as there are slots."""
        settings = self._state.definition.settings
        return select_merges(
            runs,
            self._describe_part,
            max_bytes=self._max_bytes,
            max_parts=settings.max_parts_to_merge_at_once,
            at_most=min(free, self._slots),
        )

    def _max_bytes(self, merges: int, size_bytes: int) -> int:
        """Returns the most bytes of one more merge beside so many that were chosen, of this size together."""
        state, slots = self._state, self._slots
        settings = state.definition.settings
        queued = state.queue.count(EntryType.MERGE_PARTS)
        of_pool = compute_max_merge_bytes(
            max(1, slots - queued - merges),
            slots,
            at_most=settings.max_bytes_to_merge_at_max_space_in_pool,
            at_least=settings.max_bytes_to_merge_at_min_space_in_pool,
        )
        on_disk = state.services.disk.unreserved_bytes(state.store.path) // FREE_TO_SOURCE_RATIO
        return min(of_pool, on_disk - size_bytes)

    def _has_ttl_merge(self) -> bool:
        if not self._ttl_merges.has_work():
            return False
        queued = sum(item.entry.merge_type in TTL_MERGE_TYPES for item in self._state.queue.list_entries())
        return queued < self._state.definition.settings.max_replicated_merges_with_ttl_in_queue

    def _is_definition_current(self, keeper: Keeper) -> bool:
        """Tells whether this replica has the table's newest TTL."""
        state = self._state
        if not state.description.ttl:
            return True
        keeper.sync(state.paths.columns)
        return keeper.get(state.paths.columns)[0].decode() == make_shared_definition(state.description).columns

    def _drop_expired_part(self, keeper: Keeper, predicate: MergePredicate, gone: Sequence[PartName]) -> bool:
        """Logs the drop of one part whose rows have all expired; tells whether it was logged.

        If a replica does not know such a drop, a merge makes the part empty instead.
        """
        name = next((name for name in gone if predicate.why_not_mergeable(name) is None), None)
        if name is None:
            return False
        state = self._state
        where = (keeper, state.paths, state.replica.name, name, predicate.log_version)
        try:
            is_logged = log_drop_part(*where, gate=state.gate, is_expiry=True, clock=state.services.clock)
        except (UserError, GateBarred) as refused:
            logger.info("part %s of %s is kept: %s", name, state.definition.full_name, refused)
            return False
        if is_logged:
            self._log.pull(keeper)
        return is_logged

    def _parts_by_partition(self) -> dict[str, list[PartName]]:
        partitions: dict[str, list[PartName]] = {}
        for name in self._state.queue.copy_virtual_parts():
            partitions.setdefault(name.partition_id, []).append(name)
        return partitions

    def _predicate(self, keeper: Keeper, partition_ids: Collection[str]) -> MergePredicate:
        state, stable_time = self._state, self._tombstones.stable_time
        if stable_time:
            keeper.sync(state.paths.root)
        predicate = read_merge_predicate(
            keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load, partition_ids
        )
        return replace(predicate, stable_time=stable_time)

    def _local_runs(self, predicate: MergePredicate, partition_ids: Iterable[str]) -> list[list[PartName]]:
        """Returns runs of neighbouring parts that may be merged and are all on this disk."""
        return [run for id_ in partition_ids for run in predicate.list_mergeable_runs(id_, self._is_here)]

    def _is_here(self, name: PartName) -> bool:
        return self._state.store.get_active(name) is not None

    def _describe_part(self, name: PartName) -> MergeCandidate:
        """Returns the part's size and age; zeros for a part that is not here."""
        part = self._state.store.get_active(name)
        if part is None:
            return MergeCandidate(0, 0.0)
        return MergeCandidate(part.bytes_on_disk, self._state.services.clock() - part.modification_time, part.rows)

    def _assign(
        self,
        keeper: Keeper,
        predicate: MergePredicate,
        merges: Sequence[Sequence[PartName]],
        options: OptimizeOptions,
        merge_type: str,
    ) -> bool:
        state = self._state
        expire_at = self._ttl_merges.time if self._is_definition_current(keeper) else 0
        entries = [
            make_merge_entry(
                list(sources),
                state.replica.name,
                state.services.clock(),
                deduplicate=options.deduplicate,
                deduplicate_by=options.deduplicate_by,
                cleanup=options.cleanup,
                merge_type=merge_type,
                expire_at=expire_at,
                alter_version=state.description.metadata_version if expire_at else 0,
                rows=sum(facts.rows for facts in map(self._describe_part, sources)),
                size_bytes=sum(facts.size_bytes for facts in map(self._describe_part, sources)),
                stable_time=self._tombstones.find_time(keeper, predicate, sources),
            )
            for sources in merges
        ]
        checks: Sequence[Op] = ()
        if options.deduplicate:
            checks = state.gate.checks(keeper, CommitKind.OTHER, unlinked_for="OPTIMIZE … DEDUPLICATE")
        if not log_merges_and_mutations(keeper, state.paths, predicate.log_version, entries, checks):
            if checks:
                state.gate.load(keeper)  # it may have moved
            return False
        with report_as_unfinished("The merges are in the log"):
            self._log.pull(keeper)
        return True

    # -- OPTIMIZE -----------------------------------------------------------------------------------------------

    def optimize(self, options: OptimizeOptions) -> None:
        """Merges for OPTIMIZE; returns when the merges are done here.

        Raises 243 (NOT_ENOUGH_SPACE) if the disk has no space for one, before logging or while waiting.
        """
        state = self._state
        state.require_writable()
        if options.waits_for_merges:
            state.stopped.refuse(StoppableAction.MERGES, "Cancelled merging parts")
        with state.hold_write_access() as (keeper, _):
            if options.cleanup:
                require_feature(keeper, state.paths, FEATURE_OPTIMIZE_CLEANUP, "OPTIMIZE … CLEANUP")
            assigned = self._assign_optimize(keeper, options)
        results = [make_merged_name(list(sources)) for sources in assigned] or self._list_running_merges(options)
        if not results:
            if options.throw_if_noop:
                raise UserError(
                    "CANNOT_ASSIGN_OPTIMIZE",
                    f"Nothing to merge in table {state.definition.full_name}: no suitable parts",
                )
            return
        self._wake_execution()
        if not options.waits_for_merges:
            return
        polls = itertools.count()
        with report_as_unfinished("The merges are in the log"):
            state.wait_for(
                lambda: self._are_done(results, look=next(polls) % _POLLS_A_LOOK == 0),
                state.services.queue_wait_seconds,
                "the merge of OPTIMIZE",
                options.status,
            )

    def _list_running_merges(self, options: OptimizeOptions) -> list[PartName]:
        """Returns merges that were assigned before and are not done here; OPTIMIZE waits for them too."""
        active = self._state.store
        return [
            name
            for partition, names in self._parts_by_partition().items()
            for name in names
            if options.partition_id in (None, partition) and name.level > 0 and active.covering_active(name) is None
        ]

    def _are_done(self, results: Sequence[PartName], *, look: bool) -> bool:
        """Tells whether the merges are done; ``look`` also checks the queue for disk errors."""
        left = [result for result in results if not self._is_done(result)]
        if left and look:
            raise_if_disk_full(self._state, left)
        return not left

    def _is_done(self, result: PartName) -> bool:
        """Tells whether the part is here or was dropped meanwhile."""
        is_here = self._state.store.covering_active(result) is not None
        return is_here or self._state.queue.find_virtual_cover(result) is None

    def _assign_optimize(self, keeper: Keeper, options: OptimizeOptions) -> list[list[PartName]]:
        """Logs the merges; tries once more after a lost response, and then raises UNFINISHED on failure."""
        try:
            return self._assign_chosen(keeper, options)
        except UnknownOutcomeError:
            with report_as_unfinished("The merges may be in the log"):
                return self._assign_chosen(keeper, options)

    def _assign_chosen(self, keeper: Keeper, options: OptimizeOptions) -> list[list[PartName]]:
        """Selects and logs merges, again if others get ahead. Raises 388 after many attempts."""
        failure = ConflictError(
            "CANNOT_ASSIGN_OPTIMIZE", "Other replicas keep assigning merges to this table; try OPTIMIZE again"
        )
        for attempt in range(_ASSIGN_ATTEMPTS):
            options.status.check()
            keeper.sync(self._state.paths.root)
            self._log.pull(keeper)
            best = self._find_longest_run(options) if attempt == 0 else None
            asked = self._optimized_partitions(options) if best is None else [best]
            predicate = self._predicate(keeper, asked)
            try:
                merges = self._optimize_merges(predicate, options)
            except ConflictError as conflict:
                failure = conflict
                self._state.sleep(_SOON_SECONDS)
                continue
            if not merges and best is not None:
                continue  # other partitions may have a merge
            for sources in merges:
                require_disk_space(self._state, sources)
            if not merges or self._assign(keeper, predicate, merges, options, "Optimize"):
                return merges
        raise failure

    def _find_longest_run(self, options: OptimizeOptions) -> str | None:
        """Returns the partition with the longest run, for OPTIMIZE without FINAL and PARTITION."""
        if options.final or options.partition_id is not None:
            return None
        guess = guess_predicate(self._state.queue, self._state.mutations.current)
        longest = max(self._local_runs(guess, guess.partition_ids()), key=len, default=[])
        return longest[0].partition_id if len(longest) > 1 else None

    def _optimized_partitions(self, options: OptimizeOptions) -> list[str]:
        """Returns the partitions with several parts, or the requested one."""
        if options.partition_id is not None:
            return [options.partition_id]
        return [partition for partition, parts in self._parts_by_partition().items() if len(parts) > 1]

    def _optimize_merges(self, predicate: MergePredicate, options: OptimizeOptions) -> list[list[PartName]]:
        partitions = sorted(self._parts_by_partition())
        if options.partition_id is not None:
            partitions = [options.partition_id] if options.partition_id in partitions else []
        if not options.final and options.partition_id is None:
            # The user asked for it, so balance does not matter: take the longest run.
            longest = max(self._local_runs(predicate, partitions), key=len, default=[])
            most = self._state.definition.settings.max_parts_to_merge_at_once
            return [longest[:most]] if len(longest) > 1 else []
        merges = []
        for partition in partitions:
            sources = predicate.list_whole_partition(partition, options.rewrites)
            if sources:
                merges.append(list(sources))
        return merges
