"""Pulls the table's log into this replica's queue, and carries the queue out."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coordination.cleanup import read_positions
from coordination.clone import choose_source
from coordination.drop_range import clear_leftovers
from coordination.keeper import Keeper, KeeperConnectionLoss, KeeperError
from coordination.log_entry import EntryType, LogEntry
from coordination.part_commit import Agreement, ProducedStatus, commit_produced_part
from coordination.part_set import IntersectingPartsError
from coordination.queue_io import (
    LogCursor,
    LogTrimmedError,
    discard_entry,
    drop_entries,
    drop_entry,
    log_position,
    own_parts,
    pull_log,
    remove_parts,
    save_insert_times,
)
from coordination.queue_rules import Action, ActionKind, Limits
from coordination.quorum_failure import fail_unreachable_part
from engine.failpoints import failpoint
from engine.tables.merging import merge_to_temporary
from engine.tables.replicated.insert import part_record
from parts.errors import CancelledError, ConflictError, CorruptionError, PandoError, UnavailableError
from parts.merge.select import max_merge_bytes
from parts.part_name import PartName
from parts.query_status import QueryStatus
from parts.reader import Part

if TYPE_CHECKING:
    from pathlib import Path

    from engine.tables.replicated.fetcher import Source
    from engine.tables.replicated.table import ReplicatedTable

logger = logging.getLogger(__name__)

_PULL_SECONDS = 10.0
"""A watch wakes the pull; this is only for a watch that was lost."""
_PULL_APART_SECONDS = 0.05
"""From one pull to the next while entries stream in; what comes after a pause is pulled at once."""
_OWN_INSERT_SECONDS = 0.02
"""An INSERT here is soon active, and its log entry then needs no place in the queue."""
_RETRY_SECONDS = 1.0
_EXECUTE_IDLE_SECONDS = 1.0
_RESOLVE_SECONDS = 10.0
_SAVE_TIMES_SECONDS = 5.0


class QueueSteps:
    def __init__(self, table: ReplicatedTable) -> None:
        self._table = table
        self._pull_lock = threading.Lock()
        self._cursor = LogCursor()
        self._looked_at = 0.0
        """When the log was last listed."""
        self._pulled_at = 0.0
        self.slots = 4
        """How many entries run at a time."""
        self.are_fetches_allowed = True
        self.are_merges_allowed = True
        self._saved_times: tuple[float, float] | None = None
        self._saved_at = 0.0

    # -- pull ---------------------------------------------------------------------------------------------------

    def pull_step(self) -> float:
        table = self._table
        if table.activation is None:
            return _PULL_SECONDS
        try:
            with table.working() as (keeper, _):
                self.pull(keeper)
                self._save_times(keeper)
        except (KeeperError, KeeperConnectionLoss, ConflictError, UnavailableError) as error:
            logger.info("table %s could not pull its log: %s", table.definition.full_name, error)
            # A pull of unknown outcome may have moved the pointer: only loading the queue anew tells.
            if isinstance(error, KeeperConnectionLoss):
                table.restart()
            return _RETRY_SECONDS
        except IntersectingPartsError:
            # Memory cannot follow ZooKeeper: stop rather than diverge. The new start fails likewise and shows why.
            logger.exception("table %s cannot follow its log", table.definition.full_name)
            table.restart()
            return _RETRY_SECONDS
        return _PULL_SECONDS

    def seconds_until_pull(self) -> float:
        """How long a pull should wait for more entries to come."""
        pause = self._pulled_at + _PULL_APART_SECONDS - self._table.services.monotonic()
        return max(pause, _OWN_INSERT_SECONDS if self._table.queue.is_inserting() else 0.0)

    def _save_times(self, keeper: Keeper) -> None:
        """They are for operators: written now and then, not with every block."""
        times, now = self._table.queue.insert_times(), self._table.services.clock()
        if times != self._saved_times and now - self._saved_at >= _SAVE_TIMES_SECONDS:
            save_insert_times(keeper, self._table.replica, self._table.queue)
            self._saved_times, self._saved_at = times, now

    def begin_session(self, keeper: Keeper) -> None:
        """The first pull: nothing is known of the log yet."""
        with self._pull_lock:
            self._cursor = LogCursor()
        self.pull(keeper)

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue."""
        table = self._table
        try:
            with self._pull_lock:
                now = self._pulled_at = table.services.monotonic()
                if now - self._looked_at >= _PULL_SECONDS:
                    self._cursor, self._looked_at = LogCursor(), now
                pulled = pull_log(keeper, table.replica, table.queue, watch=table.on_log_change, cursor=self._cursor)
        except LogTrimmedError:
            # The log went on without this replica: it becomes a copy of another at the restart, if there is one.
            if choose_source(read_positions(keeper, table.paths), table.replica.name) is not None:
                keeper.set(table.replica.is_lost, b"1")
            table.restart()
            raise
        if pulled:
            table.wake_execution()
            table.housekeeping.note_logged(pulled)

    def sync(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Raises 159 (TIMEOUT_EXCEEDED) when it takes longer, and what ``status`` raises."""
        table = self._table
        with table.working() as (keeper, _):
            keeper.sync(table.paths.root)
            self.pull(keeper)
            names = table.queue.names()
        table.wake_execution()
        caught_up = f"replica {table.replica.name} to catch up"
        table.wait_for(lambda: table.queue.is_drained(names), timeout_seconds, caught_up, status)

    def log_position(self, keeper: Keeper) -> tuple[int, int]:
        """(log_pointer, log_max_index)."""
        return log_position(keeper, self._table.replica)

    # -- execute ------------------------------------------------------------------------------------------------

    def execute_step(self) -> float:
        """Carries out one entry, if one may run."""
        table = self._table
        if table.activation is None:
            return _EXECUTE_IDLE_SECONDS
        try:
            with table.working() as (keeper, _):
                action = table.queue.next_action(self, self._limits())
                if action is None:
                    return _EXECUTE_IDLE_SECONDS
                table.wake_execution()
                self._run(keeper, action)
        except UnavailableError as error:  # the table has just become read-only
            logger.debug("not executing: %s", error)
            return _RETRY_SECONDS
        return 0.0

    def _run(self, keeper: Keeper, action: Action) -> None:
        queue = self._table.queue
        try:
            self._carry_out(keeper, action)
        except CancelledError:
            queue.postpone(action.name, "The entry was cancelled: a drop, a stop, or a new ZooKeeper session")
        except CorruptionError as error:
            self._table.report_corruption(error)
            if action.kind is ActionKind.MERGE and self._can_fetch(keeper, action.entry):
                queue.fetch_instead(action.name)
            else:
                queue.fail(action.name, str(error))
        except PandoError as error:
            queue.fail(action.name, str(error))
            logger.info("entry %s of %s failed: %s", action.name, self._table.definition.full_name, error)
        except Exception as error:
            queue.fail(action.name, repr(error))
            logger.exception("entry %s of %s failed", action.name, self._table.definition.full_name)

    def _carry_out(self, keeper: Keeper, action: Action) -> None:
        table, name = self._table, action.entry.new_part
        assert name is not None
        if action.kind is ActionKind.SKIP:
            drop_entry(keeper, table.replica, table.queue, action.name)
        elif action.kind is ActionKind.DROP_RANGE:
            self._drop_range(keeper, action, name)
        elif table.store.get_preactive(name) is not None:
            table.queue.postpone(action.name, "The part is being committed by an INSERT here", pause_seconds=0.05)
        elif action.kind is ActionKind.MERGE:
            self._merge(keeper, action, name)
        else:
            self._fetch(keeper, action, name)

    def _merge(self, keeper: Keeper, action: Action, result: PartName) -> None:
        table = self._table
        with table.store.snapshot() as snapshot:
            by_name = {part.name: part for part in snapshot.parts}
            sources = [by_name[name] for name in action.entry.source_parts if name in by_name]
            if len(sources) != len(action.entry.source_parts):
                table.queue.postpone(action.name, "A source part has just gone", pause_seconds=0.1)
                return
            directory = merge_to_temporary(
                table,
                sources,
                result,
                deduplicate=action.entry.deduplicate,
                deduplicate_by=action.entry.deduplicate_by,
                is_cancelled=lambda: table.is_cancelled() or table.queue.is_cancelled(action.name),
            )
            self._commit(keeper, action, result, directory)

    def _can_fetch(self, keeper: Keeper, entry: LogEntry) -> bool:
        try:
            return entry.new_part is not None and bool(self._table.fetcher.holders(keeper, entry.new_part))
        except PandoError:
            return False

    def _fetch(self, keeper: Keeper, action: Action, name: PartName) -> None:
        """The part itself or, if nobody has it any more, a part to come that covers it and that somebody has."""
        table = self._table
        failure: PandoError | None = None
        for wanted, sources in self._sources(keeper, action.entry, name):
            try:
                directory, source = table.fetcher.fetch_from(
                    wanted, sources, lambda: table.is_cancelled() or table.queue.is_cancelled(action.name)
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
        self._nobody_has(keeper, action, name)

    def _sources(self, keeper: Keeper, entry: LogEntry, name: PartName) -> Iterator[tuple[PartName, list[Source]]]:
        """Looked for one after the other, as they are needed. An inserted part is most likely where it was inserted."""
        for wanted in self._acceptable(name):
            likely = entry.source_replica if entry.type is EntryType.GET_PART else ""
            for sources in self._table.fetcher.sources(keeper, wanted, likely):
                if sources:
                    yield wanted, sources

    def _nobody_has(self, keeper: Keeper, action: Action, name: PartName) -> None:
        table = self._table
        if action.entry.quorum >= 2 and fail_unreachable_part(keeper, table.replica, action.entry):
            logger.warning("part %s is given up: no living replica has it, its quorum has failed", name)
            discard_entry(keeper, table.replica, table.queue, action.name)
            return
        if not table.lost_parts.give_up(keeper, action.name, action.entry):
            table.queue.merge_after_all(action.name)
            raise UnavailableError("NO_REPLICA_HAS_PART", f"No active replica has part {name} or a part covering it")

    def _acceptable(self, name: PartName) -> list[PartName]:
        cover = self._table.queue.has_virtual_cover(name)
        return [name] if cover is None or cover == name else [name, cover]

    def _commit(
        self, keeper: Keeper, action: Action, name: PartName, directory: Path, agreement: Agreement | None = None
    ) -> None:
        """Makes the part in ``directory`` active here and in ZooKeeper, or discards it."""
        table = self._table
        if table.store.covering_active(name) is not None:
            table.store.drop_temporary(directory)
            drop_entry(keeper, table.replica, table.queue, action.name)
            return
        part = self._name(directory, name)
        failpoint("produced.after_rename")
        status = self._commit_in_keeper(keeper, action, part, agreement)
        failpoint("produced.after_commit")
        if status is ProducedStatus.COMMITTED:
            table.store.commit(part)
            table.queue.add_active(name)
            table.queue.finish(action.name)
            return
        table.store.rollback(part)
        if status is ProducedStatus.DIFFERENT:
            logger.warning("the content of %s differs from another replica's: theirs will be fetched", name)
            table.queue.fetch_instead(action.name)
        else:
            discard_entry(keeper, table.replica, table.queue, action.name)

    def _name(self, directory: Path, name: PartName) -> Part:
        """The part under its final name. An outdated directory of this name gives way, unless somebody reads it."""
        store = self._table.store
        try:
            former = store.get(name)
            if former is not None:
                store.delete([former])
            return store.add_preactive(directory, name)
        except BaseException:
            store.drop_temporary(directory)
            raise

    def _commit_in_keeper(
        self, keeper: Keeper, action: Action, part: Part, agreement: Agreement | None
    ) -> ProducedStatus:
        """An outcome that stays UNKNOWN is settled by the next session, which compares disk and ZooKeeper."""
        table = self._table
        try:
            status = commit_produced_part(
                keeper,
                table.replica,
                table.queue,
                action.name,
                action.entry,
                part.name,
                part_record(part),
                agreement=agreement,
                resolve_seconds=_RESOLVE_SECONDS,
                clock=table.services.monotonic,
                sleep=table.sleep,
            )
        except PandoError:
            table.store.rollback(part)
            raise
        if status is ProducedStatus.UNKNOWN:
            table.restart()
            raise CancelledError("ZooKeeper is away: the outcome of a commit is settled with the next session")
        return status

    def _drop_range(self, keeper: Keeper, action: Action, dropped: PartName) -> None:
        table = self._table
        if action.entry.has_leftovers:
            clear_leftovers(keeper, table.paths, dropped)
        gone = [part.name for part in table.store.active() if dropped.covers(part.name)]
        # Covered parts too, which wait for their deletion: a listed part that is not on disk would be fetched again.
        listed = own_parts(keeper, table.replica)
        remove_parts(keeper, table.replica, [name for name in listed if dropped.covers(name)])
        for name in gone:
            if action.entry.detach:
                table.store.detach(name, "")
        if not action.entry.detach:
            table.store.drop_active(gone)
        covered = table.queue.covered_entries(action.name)
        drop_entries(keeper, table.replica, table.queue, [*covered, action.name])

    # -- what the queue asks (coordination.queue.LocalParts) ----------------------------------------------------

    def covering_active(self, part: PartName) -> PartName | None:
        found = self._table.store.covering_active(part)
        return found.name if found is not None else None

    def size_bytes(self, part: PartName) -> int:
        found = self._table.store.get_active(part)
        return found.bytes_on_disk if found is not None else 0

    def _limits(self) -> Limits:
        settings = self._table.description.settings
        merging = self._table.queue.count_merging()
        merge_slots = self.slots - 1  # one slot is always left for fetches
        free = max(0, merge_slots - merging)
        return Limits(
            free_merge_slots=free if self.are_merges_allowed else 0,
            free_fetch_slots=self.slots if self.are_fetches_allowed else 0,
            # What was assigned must run one day, however large OPTIMIZE or another replica's settings made it: on an
            # idle pool nothing is too large.
            max_merge_bytes=sys.maxsize
            if free >= merge_slots
            else max_merge_bytes(
                free,
                merge_slots,
                at_most=settings.max_bytes_to_merge_at_max_space_in_pool,
                at_least=settings.max_bytes_to_merge_at_min_space_in_pool,
            ),
            always_fetch_merged_part=settings.always_fetch_merged_part,
            prefer_fetch_seconds=settings.prefer_fetch_merged_part_time_threshold,
            prefer_fetch_bytes=settings.prefer_fetch_merged_part_size_threshold,
        )
