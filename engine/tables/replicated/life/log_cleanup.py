"""Trims the log and the deduplication window, and deletes outdated parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from coordination.inserts.deduplication_window import DeduplicationWindow
from coordination.keeper.interface import Children, Get, Keeper, Read
from coordination.keeper.read_ahead import ReadAhead
from coordination.merges_mutations.mutation_nodes import delete_finished_mutations
from coordination.replicas.cleanup import CleanupSettings, LogBlockingReplica, run_cleanup
from coordination.replicas.log_pull import unlist_parts
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.read.part_reader import Part

logger = logging.getLogger(__name__)

_MIN_LOGGED = 25
_SPREAD_SECONDS = 0.5


class LogCleanup:
    """The cleaning of one table by one of its replicas."""

    def __init__(
        self,
        state: ReplicaState,
        clean_transactions: Callable[[Keeper], bool],
        keep_for_links: Callable[[Sequence[Part]], Sequence[Part]],
    ) -> None:
        """``keep_for_links`` keeps parts that links need, and returns those that may be deleted."""
        self._state = state
        self._keep_for_links = keep_for_links
        self._clean_transactions = clean_transactions
        self.task = state.make_task("clean up log", self.step)
        self._window = DeduplicationWindow()
        self._replicas = [state.replica.name]
        """The table's replicas, as of the last cleaning."""
        self._logged = 0
        """Log entries since the last cleaning."""
        self.warning = ""
        """The reason why the log cannot be trimmed, as of the last cleaning, with advice."""

    def count_logged_entries(self, entries: int) -> None:
        """Counts new log entries, and cleans early after many.

        With a fixed period, many INSERTs would let ids and log grow without bound. So a quarter of the deduplication
        window triggers a cleaning, too.
        """
        self._logged += entries
        self.note_work()
        window = self._state.definition.settings.replicated_deduplication_window
        if self._logged >= max(_MIN_LOGGED, window // 4):
            self.task.wake(self._state.services.random.random() * _SPREAD_SECONDS)

    def note_work(self) -> None:
        """Ends the longest pause, because there will be something to clean."""
        self.task.wake(self._spread(self._state.definition.settings.cleanup_delay_period))

    def _spread(self, seconds: float) -> float:
        """Lengthens a pause randomly, so that replicas and tables do not clean at the same time."""
        return seconds * (1 + self._state.services.random.random() / 3)

    def first_pause(self) -> float:
        """Returns the pause after a start, at random so that many tables spread their cleaning."""
        least, most = self._state.definition.settings.cleanup_delay_period, self._most_seconds
        if self._state.store.staged.list_transactions():
            return least
        return least + (most - least) * self._state.services.random.random()

    @property
    def _most_seconds(self) -> float:
        settings = self._state.definition.settings
        return max(settings.cleanup_delay_period, settings.max_cleanup_delay_period)

    def step(self) -> float:
        """Cleans; returns the seconds until the next cleaning.

        It is soon if there was something to clean. Otherwise new log entries (:meth:`count_logged_entries`) or the
        longest pause start it.
        """
        state = self._state
        settings = state.definition.settings
        pause = self._spread(settings.cleanup_delay_period)
        if state.activation is None or StoppableAction.CLEANUP in state.stopped:
            return pause
        self._logged = 0
        try:
            with state.hold_write_access() as (keeper, _):
                keeper = self._read_ahead(keeper)
                report = run_cleanup(
                    keeper,
                    state.paths,
                    CleanupSettings(
                        settings.min_replicated_logs_to_keep,
                        settings.max_replicated_logs_to_keep,
                        settings.replicated_deduplication_window,
                        settings.replicated_deduplication_window_seconds,
                    ),
                    self._window,
                    was_linked=state.gate.gate is not None and state.gate.gate.periods > 0,
                    before_trim=partial(self._before_trim, keeper),
                )
                is_more = self._clean_transactions(keeper)
                is_more |= bool(delete_finished_mutations(keeper, state.paths, settings.finished_mutations_to_keep))
            self._warn(report.log_holders)
            return pause if report.is_work_left or is_more else self._spread(self._most_seconds)
        except PandoError as error:
            logger.info("cleaning up the log of %s is put off: %s", state.definition.full_name, error)
        return pause

    def _before_trim(self, keeper: Keeper, first_kept: int) -> None:
        """Keeps what only the log entries that will go have."""
        if self._state.description.merge_mode.has_row_versions:
            self._state.commit_times.keep(keeper, first_kept)

    def _read_ahead(self, keeper: Keeper) -> ReadAhead:
        """Reads with one request what the cleaning asks, in this order, if there is nothing to clean."""
        replica, ahead = self._state.replica, ReadAhead(keeper)
        table, replicas = replica.table, [replica.table.replica(name) for name in self._replicas]
        positions = [
            *(each.host for each in replicas),
            *(each.is_active for each in replicas),
            *(each.is_lost for each in replicas),
            *(each.log_pointer for each in replicas),
        ]
        lists = [table.quorum_failed_parts, table.scans, table.applications, table.lost_blocks, table.blocks]
        quorums: list[Read] = [Children(table.quorum_parallel), Get(table.quorum_status)]
        ahead.fetch(
            [
                *map(Children, [table.replicas, table.log, table.replicas]),
                *map(Get, [*positions, table.replicas]),
                *quorums,
                *map(Children, lists),
                *quorums,
                *map(Children, [table.transactions, table.mutations]),
            ]
        )
        (names,) = ahead.children_many([table.replicas])
        self._replicas = names or []
        return ahead

    def _warn(self, holders: Sequence[LogBlockingReplica]) -> None:
        known, self.warning = self.warning, "; ".join(holder.warning for holder in holders)
        if holders and not known:
            logger.warning("table %s: %s", self._state.definition.full_name, self.warning)

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        """Deletes outdated parts, first from ZooKeeper's list.

        A read-only table deletes nothing, because its disk may be the only truth.
        """
        state = self._state
        parts = self._keep_for_links(parts) if state.activation is not None else ()
        if not parts:
            return
        try:
            with state.hold_write_access() as (keeper, _):
                unlist_parts(keeper, state.replica, [str(part.name) for part in parts])
        except PandoError as error:
            logger.info("deleting outdated parts of %s is put off: %s", state.definition.full_name, error)
            return
        state.services.part_log.add_removals(state.definition, parts, state.services.clock())
        state.store.delete(parts)
