"""Executes the entries of the replica's queue: fetches, merges, mutations and drops."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import xxhash

from coordination.drops.drop_partition import clear_drop_leftovers
from coordination.inserts.quorum_failure import fail_unreachable_part
from coordination.keeper.interface import Keeper, Op
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.queue_rules import Action, ActionKind
from coordination.nodes.replica_activation import read_replica_activity
from coordination.replicas.log_pull import abandon_entry, read_listed_parts, remove_entries, remove_entry, unlist_parts
from coordination.replicas.part_commit import ContentAgreement, PartCommitStatus, commit_produced_part
from engine.server.background_pool import wake_one_task
from engine.tables.merges.merge_execution import merge_to_temporary
from engine.tables.merges.ttl_merges import TTL_MERGE_TYPES
from engine.tables.part_log import PartEventType
from engine.tables.replicated.follow.cloned_parts import ClonedParts
from engine.tables.replicated.follow.grouped_fetches import MAX_PARTS_PER_GROUP, GroupedFetches
from engine.tables.replicated.follow.local_parts import ReplicaLocalParts
from engine.tables.replicated.follow.mutate_part import MutatePartExecutor
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.replicated.follow.replace_range import ReplaceRangeExecutor, keep_detached
from engine.tables.replicated.follow.row_positions import fill_own_positions_in
from engine.tables.replicated.replica_state import ReplicaState, make_part_record
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import CancelledError, CorruptionError, PandoError, UnavailableError, convert_resource_error
from parts.common.part_name import PartName
from parts.read.part_reader import Part

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_IDLE_SECONDS = 600.0  # the queue wakes the steps
_EARLIER_CUT = "The cut before that of its mutations is not shown yet"
_RESOLVE_SECONDS = 10.0


class QueueExecutor:
    """The execution of one replica's queue."""

    def __init__(
        self,
        state: ReplicaState,
        fetcher: PartFetcher,
        exchanges: ReplaceRangeExecutor,
        mutated_parts: MutatePartExecutor,
        cloned_parts: ClonedParts,
        give_up: Callable[[Keeper, str, LogEntry], bool],
        report_corruption: Callable[[CorruptionError], None],
    ) -> None:
        """``give_up``: see :meth:`engine.tables.replicated.repair.lost_parts.LostParts.give_up`."""
        self._state = state
        self._fetcher = fetcher
        self._replace_ranges = exchanges
        self._mutated_parts = mutated_parts
        self._cloned_parts = cloned_parts
        self._grouped_fetches = GroupedFetches(
            state,
            fetcher,
            lambda keeper, action, part, agreement: self._attempt(
                keeper, action, lambda: self._activate(keeper, action, part, agreement)
            ),
        )
        self._give_up = give_up
        self._report_corruption = report_corruption
        self.slots = 4
        """How many entries run at a time."""
        self._local_parts = ReplicaLocalParts(state, self.slots)
        self.tasks = [state.make_task(f"execute queue {number}", self.execute_step) for number in range(self.slots)]

    def wake(self) -> None:
        """Wakes one task; a step that finds work wakes the next."""
        wake_one_task(self.tasks)

    def execute_step(self) -> float:
        """Executes one entry, if one may run."""
        state = self._state
        if state.activation is None or StoppableAction.QUEUES in state.stopped:
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                action = state.queue.take_next_action(self._local_parts, self._local_parts.limits())
                if action is None:
                    # Look regularly if an entry waits for slots or disk space.
                    return min(max(state.queue.compute_seconds_until_due(), _RETRY_SECONDS), _IDLE_SECONDS)
                more = state.queue.start_small_inserts_with(
                    action, self._local_parts, self._local_parts.limits(), MAX_PARTS_PER_GROUP - 1
                )
                self.wake()
                self._run_together(keeper, [action, *more]) if more else self._run(keeper, action)
                self._replace_ranges.cuts.note_executed([each.entry for each in (action, *more)])
        except UnavailableError as error:  # the table has just become read-only
            logger.debug("not executing: %s", error)
            return _RETRY_SECONDS
        return 0.0

    def _run_together(self, keeper: Keeper, actions: list[Action]) -> None:
        """Executes INSERTs of another replica together; those that fail are tried again one by one."""
        fetches = [action for action in actions if action.kind is ActionKind.FETCH]
        others = [action for action in actions if action.kind is not ActionKind.FETCH]
        left = self._grouped_fetches.fetch_and_commit(keeper, fetches)
        for action in left[1:]:
            self._state.queue.postpone(action.name, "The part could not be brought with others", pause_seconds=0.0)
        for action in (*others, *left[:1]):
            self._run(keeper, action)

    def _run(self, keeper: Keeper, action: Action) -> None:
        self._attempt(keeper, action, lambda: self._execute(keeper, action))

    def _attempt(self, keeper: Keeper, action: Action, work: Callable[[], None]) -> None:
        """Runs ``work`` for an entry; an error postpones or fails the entry."""
        queue = self._state.queue
        try:
            work()
        except CancelledError:
            queue.postpone(action.name, "The entry was cancelled: a drop, a stop, or a new ZooKeeper session")
        except CorruptionError as error:
            self._report_corruption(error)
            if action.entry.source_parts and self._fetcher.can_fetch(keeper, action.entry.new_part):
                queue.fetch_instead(action.name)
            else:
                queue.fail(action.name, str(error))
        except (PandoError, OSError, MemoryError) as raised:
            failure = raised if isinstance(raised, PandoError) else convert_resource_error(raised)
            queue.fail(action.name, str(failure))
            logger.info("entry %s of %s failed: %s", action.name, self._state.definition.full_name, failure)
            if action.kind is ActionKind.FETCH and (part := action.entry.new_part) is not None:
                services, definition = self._state.services, self._state.definition
                now = services.clock()
                services.part_log.add_failure(PartEventType.DOWNLOAD, definition, part, now, failure)
        except Exception as error:
            queue.fail(action.name, repr(error))
            logger.exception("entry %s of %s failed", action.name, self._state.definition.full_name)

    def _execute(self, keeper: Keeper, action: Action) -> None:
        state, name = self._state, action.entry.new_part
        if action.kind is ActionKind.REPLACE:
            self._replace_ranges.execute(keeper, action)
            return
        assert name is not None
        if action.kind is ActionKind.SKIP:
            remove_entry(keeper, state.replica, state.queue, action.name)
        elif action.kind is ActionKind.DROP_RANGE:
            self._drop_range(keeper, action, name)
        elif state.store.get_preactive(name) is not None:
            state.queue.postpone(action.name, "The part is being committed by an INSERT here", pause_seconds=0.05)
        elif not self._replace_ranges.cuts.admit_part(name):
            state.queue.postpone(action.name, _EARLIER_CUT, pause_seconds=0.05)
        elif action.kind in (ActionKind.MERGE, ActionKind.MUTATE):
            self._make_if_free(keeper, action, name)
        else:
            self._fetch_if_free(keeper, action, name)

    def _make_if_free(self, keeper: Keeper, action: Action, name: PartName) -> None:
        state = self._state
        maker = self._find_single_maker(keeper, action)
        if maker is not None and self._fetcher.can_fetch(keeper, action.entry.new_part):
            self._fetch_if_free(keeper, action, name)
        elif maker is not None:
            state.queue.postpone(action.name, f"Replica {maker} makes the part, which will be fetched")
        else:
            with state.services.merging.try_take() as is_taken:
                if is_taken and action.kind is ActionKind.MUTATE:
                    self._mutate(keeper, action, name)
                elif is_taken:
                    self._merge(keeper, action, name)
                else:
                    state.queue.postpone(action.name, "All merges of this server are taken", pause_seconds=0.1)

    def _find_single_maker(self, keeper: Keeper, action: Action) -> str | None:
        """Returns another replica chosen by ``execute_merges_on_single_replica_time_threshold``, if any."""
        state = self._state
        seconds = state.definition.settings.execute_merges_on_single_replica_time_threshold
        if not seconds or state.queue.compute_seconds_queued(action.name) >= seconds:
            return None
        active = sorted(name for name, is_active in read_replica_activity(keeper, state.paths).items() if is_active)
        chosen = active[xxhash.xxh3_64_intdigest(str(action.entry.new_part).encode()) % len(active)] if active else None
        return chosen if chosen != state.replica.name else None

    def _fetch_if_free(self, keeper: Keeper, action: Action, name: PartName) -> None:
        with self._state.services.fetches.try_take() as is_taken:
            if is_taken:
                self._fetch(keeper, action, name)
            else:  # another table has just taken the last slot
                self._state.queue.postpone(action.name, "All fetches of this server are taken", pause_seconds=0.1)

    def _merge(self, keeper: Keeper, action: Action, result: PartName) -> None:
        state = self._state
        if action.entry.merge_type in TTL_MERGE_TYPES and StoppableAction.TTL_MERGES in state.stopped:
            state.queue.postpone(action.name, "Merges with TTL are cancelled now", pause_seconds=1.0)
            return
        with state.store.hold_active(action.entry.source_parts) as held:
            sources = held.parts
            if len(sources) != len(action.entry.source_parts):
                state.queue.postpone(action.name, "A source part has just gone", pause_seconds=0.1)
                return
            directory = merge_to_temporary(
                state,
                fill_own_positions_in(state, keeper, sources),
                result,
                deduplicate=action.entry.deduplicate,
                deduplicate_by=action.entry.deduplicate_by,
                cleanup=action.entry.cleanup,
                is_cancelled=lambda: self._is_cancelled(action, StoppableAction.MERGES),
                expire_at=action.entry.expire_at,
                merge_type=action.entry.merge_type,
                stable_time=action.entry.stable_time,
            )
            self._commit(keeper, action, result, directory)

    def _is_cancelled(self, action: Action, kind: StoppableAction) -> bool:
        state = self._state
        return state.is_cancelled() or kind in state.stopped or state.queue.is_cancelled(action.name)

    def _mutate(self, keeper: Keeper, action: Action, result: PartName) -> None:
        state, entry = self._state, action.entry
        mutations = self._mutated_parts.load_mutations(keeper, entry)
        if len(mutations) < len(entry.mutations) and self._fetcher.can_fetch(keeper, entry.new_part):
            state.queue.fetch_instead(action.name)
            return
        with state.store.hold_active(entry.source_parts) as held:
            if not held.parts:
                state.queue.postpone(action.name, "The source part has just gone", pause_seconds=0.1)
                return
            (source,) = fill_own_positions_in(state, keeper, held.parts)
            self._mutated_parts.free_dropped_ids(keeper, mutations)
            directory = self._mutated_parts.mutate(entry, action.name, source, mutations)
            self._commit(
                keeper, action, result, directory, conditions=self._mutated_parts.make_commit_checks(mutations)
            )

    def _fetch(self, keeper: Keeper, action: Action, name: PartName) -> None:
        """Fetches the part or, if nobody has it any more, a future part that covers it."""
        if (copy := self._cloned_parts.link(action.entry)) is not None:
            self._commit(keeper, action, name, copy)
            if self._state.store.get_active(name) is not None:
                self._cloned_parts.drop(action.entry)
            return
        failure: PandoError | None = None
        for wanted, sources in self._find_sources(keeper, action.entry, name):
            if wanted != name and not self._replace_ranges.cuts.admit_part(wanted):
                self._state.queue.postpone(action.name, _EARLIER_CUT, pause_seconds=0.05)
                return
            try:
                directory, source = self._fetcher.fetch_from(
                    wanted, sources, lambda: self._is_cancelled(action, StoppableAction.FETCHES)
                )
            except CancelledError:
                raise
            except PandoError as error:
                failure = failure or error
                continue
            self._commit(keeper, action, wanted, directory, source.agreement)
            return
        if failure is not None:
            raise failure
        self._handle_missing_part(keeper, action, name)

    def _find_sources(
        self, keeper: Keeper, entry: LogEntry, name: PartName
    ) -> Iterator[tuple[PartName, list[FetchSource]]]:
        """Yields sources one after the other; an inserted part is most likely where it was inserted."""
        for wanted in self._list_acceptable_parts(name):
            likely = entry.source_replica if entry.type is EntryType.GET_PART else ""
            for sources in self._fetcher.find_sources(keeper, wanted, likely):
                if sources:
                    yield wanted, sources

    def _handle_missing_part(self, keeper: Keeper, action: Action, name: PartName) -> None:
        state = self._state
        if action.entry.quorum >= 2 and fail_unreachable_part(keeper, state.replica, action.entry):
            logger.warning("part %s is given up: no living replica has it, its quorum has failed", name)
            abandon_entry(keeper, state.replica, state.queue, action.name)
            return
        if not self._give_up(keeper, action.name, action.entry):
            state.queue.cancel_fetch_instead(action.name)
            raise UnavailableError("NO_REPLICA_HAS_PART", f"No active replica has part {name} or a part covering it")

    def _list_acceptable_parts(self, name: PartName) -> list[PartName]:
        cover = self._state.queue.find_virtual_cover(name)
        if cover is None or cover == name or self._state.queue.is_replacing(cover):
            return [name]
        return [name, cover]

    def _commit(
        self,
        keeper: Keeper,
        action: Action,
        name: PartName,
        directory: Path,
        agreement: ContentAgreement | None = None,
        conditions: Sequence[Op] = (),
    ) -> None:
        """Makes the part in ``directory`` active here and in ZooKeeper, or discards it."""
        state = self._state
        if state.store.covering_active(name) is not None:
            state.store.drop_temporary(directory)
            remove_entry(keeper, state.replica, state.queue, action.name)
            return
        part = self._rename_part(directory, name)
        state.services.failpoint("produced.after_rename")
        self._activate(keeper, action, part, agreement, conditions)

    def _activate(
        self,
        keeper: Keeper,
        action: Action,
        part: Part,
        agreement: ContentAgreement | None,
        conditions: Sequence[Op] = (),
    ) -> None:
        state, name = self._state, part.name
        status = self._commit_in_keeper(keeper, action, part, agreement, conditions)
        state.services.failpoint("produced.after_commit")
        if status is PartCommitStatus.COMMITTED:
            state.store.commit(part)
            if action.kind is ActionKind.FETCH:
                item, now = state.queue.get(action.name), state.services.clock()
                state.services.part_log.note(
                    PartEventType.DOWNLOAD, state.definition, part, now, started=item.last_attempt_time if item else now
                )
            state.queue.add_active(name)
            state.queue.finish(action.name)
            if action.entry.mutations:
                self._mutated_parts.note_done(action.entry)
            return
        state.store.rollback(part)
        if status is PartCommitStatus.DIFFERENT:
            logger.warning("the content of %s differs from another replica's: theirs will be fetched", name)
            state.queue.fetch_instead(action.name)
        elif status is PartCommitStatus.STALE:
            state.queue.postpone(action.name, "One of its mutations was killed meanwhile", pause_seconds=0.0)
        else:
            abandon_entry(keeper, state.replica, state.queue, action.name)

    def _rename_part(self, directory: Path, name: PartName) -> Part:
        """Renames the part to its final name; removes an outdated part of that name unless it is being read."""
        store = self._state.store
        try:
            former = store.get(name)
            if former is not None:
                store.delete([former])
            return store.add_preactive(directory, name)
        except BaseException:
            store.drop_temporary(directory)
            raise

    def _commit_in_keeper(
        self,
        keeper: Keeper,
        action: Action,
        part: Part,
        agreement: ContentAgreement | None,
        conditions: Sequence[Op],
    ) -> PartCommitStatus:
        """Commits the part in ZooKeeper; the next session settles an outcome that stays unknown."""
        state = self._state
        try:
            status = commit_produced_part(
                keeper,
                state.replica,
                state.queue,
                action.name,
                action.entry,
                part.name,
                make_part_record(part),
                agreement=agreement,
                conditions=conditions,
                resolve_seconds=_RESOLVE_SECONDS,
                clock=state.services.monotonic,
                sleep=state.sleep,
            )
        except PandoError:
            state.store.rollback(part)
            raise
        if status is PartCommitStatus.UNKNOWN:
            state.restart()
            raise CancelledError("ZooKeeper is away: the outcome of a commit is settled with the next session")
        return status

    def _drop_range(self, keeper: Keeper, action: Action, dropped: PartName) -> None:
        state = self._state
        if action.entry.has_leftovers:
            clear_drop_leftovers(keeper, state.paths, dropped)
        if action.entry.detach:
            keep_detached(state, (dropped,))
        gone = [part.name for part in state.store.list_active() if dropped.covers(part.name)]
        # Unlist covered parts too, which wait for deletion: a listed part that is not on disk would be fetched again.
        listed = read_listed_parts(keeper, state.replica, dropped.partition_id)
        unlist_parts(keeper, state.replica, [name for name in listed if dropped.covers(name)])
        state.services.failpoint("drop.after_listing")
        state.store.drop_active(gone)
        done = [*state.queue.list_covered_entries(action.name), action.name]
        remove_entries(keeper, state.replica, state.queue, done)
