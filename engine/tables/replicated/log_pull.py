"""Pulls the table's log into this replica's queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coordination.cleanup import read_positions
from coordination.clone import choose_source
from coordination.drop_range import LastBlock
from coordination.followers import Followers
from coordination.keeper import Keeper, KeeperConnectionLoss, KeeperError
from coordination.part_set import IntersectingPartsError
from coordination.queue_io import LogCursor, LogTrimmedError, pull_log, save_insert_times
from engine.tables.options import SyncMode
from engine.tables.replicated.state import ReplicaState
from engine.tables.stopped import Stoppable
from parts.errors import ConflictError, UnavailableError, UnknownOutcomeError
from parts.query_status import QueryStatus

logger = logging.getLogger(__name__)

_PULL_SECONDS = 10.0
"""A watch wakes the pull; this is only for a watch that was lost."""
_PULL_APART_SECONDS = 0.05
"""From one pull to the next while entries stream in; what comes after a pause is pulled at once."""
_OWN_INSERT_SECONDS = 0.02
"""An INSERT here is soon active, and its log entry then needs no place in the queue."""
_RETRY_SECONDS = 1.0
_SAVE_TIMES_SECONDS = 5.0
_FOLLOW_SECONDS = 0.05


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
        self._looked_at = 0.0
        """When the log was last listed."""
        self._pulled_at = 0.0
        self._saved_times: tuple[float, float] | None = None
        self._saved_at = 0.0

    def step(self) -> float:
        state = self._state
        if state.activation is None or Stoppable.PULLING in state.stopped:
            return _PULL_SECONDS
        try:
            with state.working() as (keeper, _):
                self.pull(keeper)
                self._save_times(keeper)
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
        return _PULL_SECONDS

    def _on_log_change(self, _: str) -> None:
        """A watch: only wakes. Many small INSERTs are pulled together, because each pull is a write to ZooKeeper."""
        self.task.wake(self._seconds_until_pull())

    def _seconds_until_pull(self) -> float:
        """How long a pull should wait for more entries to come."""
        pause = self._pulled_at + _PULL_APART_SECONDS - self._state.services.monotonic()
        return max(pause, _OWN_INSERT_SECONDS if self._state.queue.is_inserting() else 0.0)

    def _save_times(self, keeper: Keeper) -> None:
        """They are for operators: written now and then, not with every block."""
        times, now = self._state.queue.insert_times(), self._state.services.clock()
        if times != self._saved_times and now - self._saved_at >= _SAVE_TIMES_SECONDS:
            save_insert_times(keeper, self._state.replica, self._state.queue)
            self._saved_times, self._saved_at = times, now

    def begin(self, keeper: Keeper) -> None:
        """The first pull: nothing is known of the log yet."""
        with self._pull_lock:
            self._cursor = LogCursor()
        self._pull(keeper)

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue. Raises 236 when that is stopped."""
        self._state.stopped.refuse(Stoppable.PULLING, "Log pulling is cancelled")
        self._pull(keeper)

    def _pull(self, keeper: Keeper) -> None:
        state = self._state
        try:
            with self._pull_lock:
                now = self._pulled_at = state.services.monotonic()
                if now - self._looked_at >= _PULL_SECONDS:
                    self._cursor, self._looked_at = LogCursor(), now
                pulled = pull_log(keeper, state.replica, state.queue, watch=self._on_log_change, cursor=self._cursor)
        except LogTrimmedError:
            # The log went on without this replica: it becomes a copy of another at the restart, if there is one.
            if choose_source(read_positions(keeper, state.paths), state.replica.name) is not None:
                keeper.set(state.replica.is_lost, b"1")
            state.restart()
            raise
        if pulled:
            self._wake_execution()
            self._note_logged(pulled)

    def last_block(self, keeper: Keeper) -> LastBlock:
        """For who drops the blocks of a partition below a number."""

        def find(partition_id: str, number: int) -> int | None:
            self.pull(keeper)
            parts = self._state.queue.virtual_parts().parts(partition_id)
            return max((part.max_block for part in parts if part.max_block < number), default=None)

        return find

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        state = self._state
        deadline = state.services.monotonic() + timeout_seconds
        with state.working() as (keeper, _):
            followers = Followers(keeper, state.replica)
        while True:
            with state.working() as (keeper, _):
                behind = followers.behind(keeper)
            if not behind:
                return
            status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED", f"It is done here, but replicas {', '.join(behind)} have not followed yet; they will"
                )
            state.sleep(_FOLLOW_SECONDS)

    def sync(self, timeout_seconds: float, status: QueryStatus, mode: SyncMode = SyncMode.DEFAULT) -> None:
        """Raises 159 (TIMEOUT_EXCEEDED) when it takes longer, and what ``status`` raises."""
        state = self._state
        with state.working() as (keeper, _):
            keeper.sync(state.paths.root)
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
