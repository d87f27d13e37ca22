"""Keeps ZooKeeper small: trims the log and the deduplication window, and takes deleted parts off the lists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from coordination.cleanup import CleanupSettings, LogHolder, clean_once
from coordination.deduplication_window import DeduplicationWindow
from coordination.keeper import Keeper
from coordination.mutations import clean_mutations
from coordination.queue_io import remove_parts
from engine.tables.replicated.state import ReplicaState
from engine.tables.stopped import Stoppable
from parts.errors import PandoError
from parts.reader import Part

logger = logging.getLogger(__name__)

_LEAST_LOGGED = 25
_SPREAD_SECONDS = 0.5


class Housekeeping:
    def __init__(self, state: ReplicaState, clean_transactions: Callable[[Keeper], None]) -> None:
        self._state = state
        self._clean_transactions = clean_transactions
        self.task = state.make_task("clean up log", self.step)
        self._window = DeduplicationWindow()
        self._logged = 0
        """Log entries since the last cleaning."""
        self.warning = ""
        """What keeps the log from being trimmed, as of the last cleaning, and what to do about it."""

    def note_logged(self, entries: int) -> None:
        """So many entries are new in the log. Under many INSERTs a fixed period would let ids and log grow without
        bound: a quarter of the deduplication window is time to clean, too."""
        self._logged += entries
        window = self._state.definition.settings.replicated_deduplication_window
        if self._logged >= max(_LEAST_LOGGED, window // 4):
            self.task.wake(self._state.services.random.random() * _SPREAD_SECONDS)

    def step(self) -> float:
        """Any replica may clean; a little randomness keeps them from doing it all at once."""
        state = self._state
        settings = state.definition.settings
        pause = settings.cleanup_delay_period * (1 + state.services.random.random() / 3)
        if state.activation is None or Stoppable.CLEANUP in state.stopped:
            return pause
        self._logged = 0
        try:
            with state.working() as (keeper, _):
                report = clean_once(
                    keeper,
                    state.paths,
                    CleanupSettings(
                        settings.min_replicated_logs_to_keep,
                        settings.max_replicated_logs_to_keep,
                        settings.replicated_deduplication_window,
                        settings.replicated_deduplication_window_seconds,
                    ),
                    self._window,
                )
                self._clean_transactions(keeper)
                clean_mutations(keeper, state.paths, settings.finished_mutations_to_keep)
            self._warn(report.log_holders)
        except PandoError as error:
            logger.info("cleaning up the log of %s is put off: %s", state.definition.full_name, error)
        return pause

    def _warn(self, holders: Sequence[LogHolder]) -> None:
        known, self.warning = self.warning, "; ".join(holder.warning for holder in holders)
        if holders and not known:
            logger.warning("table %s: %s", self._state.definition.full_name, self.warning)

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        """Read-only tables delete nothing: what is on disk is then the only truth."""
        state = self._state
        if not parts or state.activation is None:
            return
        try:
            with state.working() as (keeper, _):
                remove_parts(keeper, state.replica, [str(part.name) for part in parts])
        except PandoError as error:
            logger.info("deleting outdated parts of %s is put off: %s", state.definition.full_name, error)
            return
        state.services.part_log.note_removed(state.definition, parts, state.services.clock())
        state.store.delete(parts)
