"""Pulls the table's log into this replica's queue, and waits for the queue (SYNC REPLICA).

Invariants

- One pull runs at a time (``_pull_lock``), only in an activated session.
- The queue in memory has an entry only after the multi that copied it and moved the pointer was committed. If its
  outcome is unknown, the session starts anew and loads the queue from ZooKeeper.
- Between pulls, while ``_is_watching`` is set, all of the log is in the queue, and a watch will report the next entry.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from coordination.drops.drop_partition import LastBlocks
from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError
from coordination.log.part_set import IntersectingPartsError
from coordination.replicas.clone import request_clone
from coordination.replicas.log_pull import (
    KeepEntries,
    LogCursor,
    LogTrimmedError,
    pull_log,
    read_insert_times,
    save_insert_times,
)
from coordination.replicas.replica_progress import OtherReplicasProgress
from engine.tables.replicated.pull_rest import REST_PAUSE_SECONDS
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import SyncMode
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0
"""The pause without news; watches and session changes wake the pull earlier."""
_LIST_SECONDS = 300.0
"""The least seconds between two listings of the whole log.

The watch reports new entries; only a listing shows that the log was trimmed unnoticed.
"""
_SILENT_SECONDS = 30.0
"""After this long without reading its log, a replica does not know how far it is behind."""
_PULL_APART_SECONDS = 0.05
"""The seconds between two pulls while entries stream in; an entry after a pause is pulled at once."""
_OWN_INSERT_SECONDS = 0.02
"""The pause after an INSERT here: its part is soon active, and its log entry need not enter the queue."""
_RETRY_SECONDS = 1.0
_SAVE_TIMES_SECONDS = 5.0
_FOLLOW_SECONDS = 0.05
_MAX_FOLLOW_SECONDS = 0.5
"""The longest pause while waiting for other replicas, as each look costs a request for each of them."""


class LogPull:
    """The log pull of one replica."""

    def __init__(
        self, state: ReplicaState, wake_execution: Callable[[], None], note_logged: Callable[[int], None]
    ) -> None:
        """``note_logged`` is called with the number of pulled entries."""
        self._state = state
        self._wake_execution = wake_execution
        self._note_logged = note_logged
        self.keep: KeepEntries | None = None
        """Keeps the entries of a linked table before the pointer moves. Changed only inside :meth:`resting`."""
        self.task = state.make_task("pull log", self.step)
        self._pull_lock = threading.Lock()
        self._cursor = LogCursor()
        self._list_at = 0.0
        """When to list the whole log next."""
        self._pulled_at = 0.0
        self._is_watching = False
        """Whether all of the log is in the queue and a watch will report the next entry."""
        self._was_told = False
        """Whether a watch has fired since the last pull."""
        self._followed_at: float | None = None
        """The monotonic time up to which the log is in the queue, while no watch is set."""
        self._saved_times: tuple[float, float] | None = None
        self._saved_at = -math.inf

    def step(self) -> float:
        """Pulls the log; returns the seconds until the next pull."""
        state = self._state
        if state.activation is None or state.is_session_expired or StoppableAction.PULLING in state.stopped:
            return _IDLE_SECONDS
        if state.pull_rest.is_resting:
            return REST_PAUSE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                if not self._is_watching or state.services.monotonic() >= self._list_at:
                    self.pull(keeper)
                return self._save_times(keeper)
        except (KeeperError, KeeperConnectionLoss, ConflictError, UnavailableError) as error:
            logger.info("table %s could not pull its log: %s", state.definition.full_name, error)
            # A pull of unknown outcome may have moved the pointer; only loading the queue anew shows it.
            if isinstance(error, KeeperConnectionLoss):
                state.restart()
            return _RETRY_SECONDS
        except IntersectingPartsError:
            # Memory cannot follow ZooKeeper: stop rather than diverge. The new start fails likewise and reports the
            # reason.
            logger.exception("table %s cannot follow its log", state.definition.full_name)
            state.restart()
            return _RETRY_SECONDS

    def seconds_behind(self) -> float:
        """Returns for how long the log could not be read; 0 while all of it is in the queue."""
        if self._followed_at is None or self._is_watching:
            return 0.0
        seconds = self._state.services.monotonic() - self._followed_at
        return seconds if seconds > _SILENT_SECONDS else 0.0

    def _on_log_change(self, _: str) -> None:
        """Handles the watch by waking the pull later, so that many small INSERTs are pulled together.

        Each pull is a write to ZooKeeper. Also called when the connection ends.
        """
        if self._is_watching:
            self._followed_at, self._is_watching = self._state.services.monotonic(), False
        self._was_told = True
        self.task.wake(self._seconds_until_pull())

    def _seconds_until_pull(self) -> float:
        """Returns how long a pull should wait for more entries."""
        pause = self._pulled_at + _PULL_APART_SECONDS - self._state.services.monotonic()
        return max(pause, _OWN_INSERT_SECONDS if self._state.queue.is_inserting() else 0.0)

    def _save_times(self, keeper: Keeper) -> float:
        """Saves the times of INSERTs for operators, not with every block; returns when to come again."""
        times, now = self._state.queue.insert_times(), self._state.services.monotonic()
        if times != self._saved_times and now - self._saved_at >= _SAVE_TIMES_SECONDS:
            save_insert_times(keeper, self._state.replica, self._state.queue)
            self._saved_times, self._saved_at = times, now
        oldest_waiting, _ = times
        return _IDLE_SECONDS if times == self._saved_times and not oldest_waiting else _SAVE_TIMES_SECONDS

    def begin(self, keeper: Keeper) -> None:
        """Pulls for the first time in a session; the queue must be loaded."""
        self._saved_times = read_insert_times(keeper, self._state.replica)
        with self._pull_lock:
            self._cursor = LogCursor()
        self._pull(keeper)

    def pull(self, keeper: Keeper) -> None:
        """Moves everything that is in the log now into the queue. Raises 236 if pulling is stopped."""
        self._state.stopped.refuse(StoppableAction.PULLING, "Log pulling is cancelled")
        self._state.pull_rest.wait_a_little(self._state.services.wait)
        self._pull(keeper)

    def _pull(self, keeper: Keeper) -> None:
        state = self._state
        try:
            with self._pull_lock:
                state.pull_rest.note_pull()
                now = self._pulled_at = state.services.monotonic()
                if now >= self._list_at:
                    self._cursor = LogCursor()
                    self._list_at = now + _LIST_SECONDS * (1 + state.services.random.random())
                is_list, was_told = self._cursor.position is None, self._was_told
                self._was_told = False
                self._is_watching = True  # the watch may fire before the pull ends
                pulled = pull_log(
                    keeper,
                    state.replica,
                    state.queue,
                    watch=self._on_log_change,
                    cursor=self._cursor,
                    keep=self.keep,
                )
        except BaseException as error:
            self._is_watching = False
            self.task.wake(_RETRY_SECONDS)
            if isinstance(error, LogTrimmedError):
                # The log was trimmed without this replica. At the restart it becomes a copy of another one, if there is
                # one.
                request_clone(keeper, state.replica)
                state.restart()
            raise
        self._followed_at = now
        if pulled or is_list:  # a listing also finds what a pull brought whose response was lost
            self._wake_execution()
        if pulled:
            self._note_logged(pulled)
        elif was_told and not is_list:  # the new entry may be trimmed already
            self._list_at = now
            self.task.wake()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Keeps pulls from running while the block is."""
        with self._pull_lock:
            yield

    def last_blocks(self, keeper: Keeper) -> LastBlocks:
        """Returns a function that finds the last blocks in dropped ranges."""

        def last_of(gone: PartName) -> int | None:
            parts = self._state.queue.list_virtual_parts(gone.partition_id)
            return max((part.max_block for part in parts if part.max_block <= gone.max_block), default=None)

        def find(ranges: Sequence[PartName]) -> Sequence[int | None]:
            self.pull(keeper)
            return list(map(last_of, ranges))

        return find

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Waits until the other active replicas have executed what is in the log now. Raises 341."""
        state = self._state
        deadline, pause = state.services.monotonic() + timeout_seconds, _FOLLOW_SECONDS
        with state.hold_write_access() as (keeper, _):
            followers = OtherReplicasProgress(keeper, state.replica)
        while True:
            with state.hold_write_access() as (keeper, _):
                behind = followers.unfinished_replicas(keeper)
            if not behind:
                return
            status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED", f"It is done here, but replicas {', '.join(behind)} have not followed yet; they will"
                )
            state.sleep(pause)
            pause = min(1.5 * pause, _MAX_FOLLOW_SECONDS)

    def sync(self, timeout_seconds: float, status: QueryStatus, mode: SyncMode = SyncMode.DEFAULT) -> None:
        """Waits until everything that is in the log now has been executed here.

        Mutations are then known, but not done. Raises 159 (TIMEOUT_EXCEEDED) and the errors of ``status``.
        """
        state = self._state
        with state.hold_write_access() as (keeper, _):
            keeper.sync(state.paths.root)
            state.mutations.load(keeper)
            self.pull(keeper)
        names = state.queue.names()
        if mode is SyncMode.PULL:
            return
        if mode is SyncMode.LIGHTWEIGHT:
            names = {item.name for item in state.queue.list_entries() if not item.entry.source_parts}
        self._wake_execution()
        caught_up = f"replica {state.replica.name} to catch up"
        state.wait_for(
            lambda: state.queue.is_drained(state.queue.names() if mode is SyncMode.STRICT else names),
            timeout_seconds,
            caught_up,
            status,
        )
