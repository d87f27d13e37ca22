"""Pulls the table's log into this replica's queue."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence

from coordination.drops.drop_partition import LastBlocks
from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError
from coordination.log.part_set import IntersectingPartsError
from coordination.replicas.clone import request_clone
from coordination.replicas.log_pull import (
    LogCursor,
    LogTrimmedError,
    pull_log,
    read_insert_times,
    save_insert_times,
)
from coordination.replicas.replica_progress import OtherReplicasProgress
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import SyncMode
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0
"""A watch wakes the pull, and so does every change of the ZooKeeper session."""
_LIST_SECONDS = 300.0
"""From one listing of the whole log to the next, or a little more. The watch tells of what comes; only a listing tells
that the log was trimmed behind this replica's back."""
_SILENT_SECONDS = 30.0
"""A replica that has not read its log for so long does not know how far it is behind."""
_PULL_APART_SECONDS = 0.05
"""From one pull to the next while entries stream in; what comes after a pause is pulled at once."""
_OWN_INSERT_SECONDS = 0.02
"""An INSERT here is soon active, and its log entry then needs no place in the queue."""
_RETRY_SECONDS = 1.0
_SAVE_TIMES_SECONDS = 5.0
_FOLLOW_SECONDS = 0.05
_MOST_FOLLOW_SECONDS = 0.5
"""Every look asks ZooKeeper about each replica that is behind."""


class LogPull:
    def __init__(
        self, state: ReplicaState, wake_execution: Callable[[], None], note_logged: Callable[[int], None]
    ) -> None:
        """``note_logged`` gets the number of entries that a pull has brought."""
        self._state = state
        self._wake_execution = wake_execution
        self._note_logged = note_logged
        self.task = state.make_task("pull log", self.step)
        self._pull_lock = threading.Lock()
        self._cursor = LogCursor()
        self._list_at = 0.0
        """When the log is to be listed next."""
        self._pulled_at = 0.0
        self._is_watching = False
        """All of the log is in the queue, and a watch will tell of the next entry."""
        self._was_told = False
        """Since the last pull."""
        self._followed_at: float | None = None
        """Up to when the log is known to be in the queue (monotonic), where no watch tells."""
        self._saved_times: tuple[float, float] | None = None
        self._saved_at = -math.inf

    def step(self) -> float:
        state = self._state
        if state.activation is None or state.is_session_expired or StoppableAction.PULLING in state.stopped:
            return _IDLE_SECONDS
        try:
            with state.working() as (keeper, _):
                if not self._is_watching or state.services.monotonic() >= self._list_at:
                    self.pull(keeper)
                return self._save_times(keeper)
        except (KeeperError, KeeperConnectionLoss, ConflictError, UnavailableError) as error:
            logger.info("table %s could not pull its log: %s", state.definition.full_name, error)
            # A pull of unknown outcome may have moved the pointer: only loading the queue anew tells.
            if isinstance(error, KeeperConnectionLoss):
                state.restart()
            return _RETRY_SECONDS
        except IntersectingPartsError:
            # Memory cannot follow ZooKeeper: stop rather than diverge. The new start fails likewise and shows why.
            logger.exception("table %s cannot follow its log", state.definition.full_name)
            state.restart()
            return _RETRY_SECONDS

    def seconds_behind(self) -> float:
        """Since when nothing is known of the log; 0 while all of it is in the queue."""
        if self._followed_at is None or self._is_watching:
            return 0.0
        seconds = self._state.services.monotonic() - self._followed_at
        return seconds if seconds > _SILENT_SECONDS else 0.0

    def _on_log_change(self, _: str) -> None:
        """A watch: only wakes. Many small INSERTs are pulled together, because each pull is a write to ZooKeeper. The
        end of the connection comes here, too."""
        if self._is_watching:
            self._followed_at, self._is_watching = self._state.services.monotonic(), False
        self._was_told = True
        self.task.wake(self._seconds_until_pull())

    def _seconds_until_pull(self) -> float:
        """How long a pull should wait for more entries to come."""
        pause = self._pulled_at + _PULL_APART_SECONDS - self._state.services.monotonic()
        return max(pause, _OWN_INSERT_SECONDS if self._state.queue.is_inserting() else 0.0)

    def _save_times(self, keeper: Keeper) -> float:
        """They are for operators: written now and then, not with every block. Returns when to come again."""
        times, now = self._state.queue.insert_times(), self._state.services.monotonic()
        if times != self._saved_times and now - self._saved_at >= _SAVE_TIMES_SECONDS:
            save_insert_times(keeper, self._state.replica, self._state.queue)
            self._saved_times, self._saved_at = times, now
        oldest_waiting, _ = times
        return _IDLE_SECONDS if times == self._saved_times and not oldest_waiting else _SAVE_TIMES_SECONDS

    def begin(self, keeper: Keeper) -> None:
        """The first pull: nothing is known of the log yet. The queue is loaded."""
        self._saved_times = read_insert_times(keeper, self._state.replica)
        with self._pull_lock:
            self._cursor = LogCursor()
        self._pull(keeper)

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue. Raises 236 when that is stopped."""
        self._state.stopped.refuse(StoppableAction.PULLING, "Log pulling is cancelled")
        self._pull(keeper)

    def _pull(self, keeper: Keeper) -> None:
        state = self._state
        try:
            with self._pull_lock:
                now = self._pulled_at = state.services.monotonic()
                if now >= self._list_at:
                    self._cursor = LogCursor()
                    self._list_at = now + _LIST_SECONDS * (1 + state.services.random.random())
                is_list, was_told = self._cursor.position is None, self._was_told
                self._was_told = False
                self._is_watching = True  # the watch may fire before the pull has ended
                pulled = pull_log(keeper, state.replica, state.queue, watch=self._on_log_change, cursor=self._cursor)
        except BaseException as error:
            self._is_watching = False
            self.task.wake(_RETRY_SECONDS)
            if isinstance(error, LogTrimmedError):
                # The log went on without this replica: it becomes a copy of another at the restart, if there is one.
                request_clone(keeper, state.replica)
                state.restart()
            raise
        self._followed_at = now
        if pulled or is_list:  # a listing also takes up what a pull brought whose answer was lost
            self._wake_execution()
        if pulled:
            self._note_logged(pulled)
        elif was_told and not is_list:  # the entry that came may be trimmed already
            self._list_at = now
            self.task.wake()

    def last_blocks(self, keeper: Keeper) -> LastBlocks:
        """For who drops ranges of blocks."""

        def last_of(gone: PartName) -> int | None:
            parts = self._state.queue.virtual_parts_of(gone.partition_id)
            return max((part.max_block for part in parts if part.max_block <= gone.max_block), default=None)

        def find(ranges: Sequence[PartName]) -> Sequence[int | None]:
            self.pull(keeper)
            return list(map(last_of, ranges))

        return find

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        state = self._state
        deadline, pause = state.services.monotonic() + timeout_seconds, _FOLLOW_SECONDS
        with state.working() as (keeper, _):
            followers = OtherReplicasProgress(keeper, state.replica)
        while True:
            with state.working() as (keeper, _):
                behind = followers.unfinished_replicas(keeper)
            if not behind:
                return
            status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED", f"It is done here, but replicas {', '.join(behind)} have not followed yet; they will"
                )
            state.sleep(pause)
            pause = min(1.5 * pause, _MOST_FOLLOW_SECONDS)

    def sync(self, timeout_seconds: float, status: QueryStatus, mode: SyncMode = SyncMode.DEFAULT) -> None:
        """Mutations are known then too, though not done. Raises 159 (TIMEOUT_EXCEEDED) when it takes longer, and what
        ``status`` raises."""
        state = self._state
        with state.working() as (keeper, _):
            keeper.sync(state.paths.root)
            state.mutations.load(keeper)
            self.pull(keeper)
        names = state.queue.names()
        if mode is SyncMode.PULL:
            return
        if mode is SyncMode.LIGHTWEIGHT:
            names = {item.name for item in state.queue.entries() if not item.entry.source_parts}
        self._wake_execution()
        caught_up = f"replica {state.replica.name} to catch up"
        state.wait_for(
            lambda: state.queue.is_drained(state.queue.names() if mode is SyncMode.STRICT else names),
            timeout_seconds,
            caught_up,
            status,
        )
