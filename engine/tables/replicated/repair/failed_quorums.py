"""Detaches parts whose quorum has failed: from ZooKeeper's list, and to ``detached/noquorum_…``.

A replica does so whenever it begins a session, and when a failure marker appears while it is active.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coordination.inserts.quorum_failure import list_own_failed_parts, unlist_failed_parts
from coordination.keeper.interface import Keeper
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""The pause without news; a watch wakes the step earlier."""
_RETRY_SECONDS = 1.0


class FailedQuorums:
    """The failed quorums of one replica's parts."""

    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None]) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self.task = state.make_task("take back failed parts", self.step)
        self._may_have_changed = threading.Event()
        self._may_have_changed.set()

    def take_back(self, keeper: Keeper) -> None:
        """Detaches all failed parts at the start of a session, when nothing else runs."""
        failed = list_own_failed_parts(keeper, self._state.replica)
        self._detach(keeper, failed)

    def step(self) -> float:
        """Detaches failed parts after a change; returns the seconds until the next look."""
        state = self._state
        if state.activation is None or state.is_session_expired or not self._may_have_changed.is_set():
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                self._may_have_changed.clear()
                self._detach_while_active(keeper)
        except PandoError as error:
            logger.info("failed quorums of %s are looked at later: %s", state.definition.full_name, error)
            self._may_have_changed.set()
            return _RETRY_SECONDS
        return _IDLE_SECONDS

    def _on_change(self, _: str) -> None:
        self._may_have_changed.set()
        self.task.wake()

    def _detach_while_active(self, keeper: Keeper) -> None:
        """Detaches failed parts that no drop covers, because dropped rows do not belong in ``detached``."""
        state = self._state
        names = list_own_failed_parts(keeper, state.replica, self._on_change)
        # Parts that are not on disk were detached before, and then ZooKeeper went away.
        unlist_failed_parts(keeper, state.replica, [n for n in names if state.store.get(PartName.parse(n)) is None])
        failed = [name for name in names if self._is_active(name)]
        if failed:
            self._pull(keeper)
            wanted = [name for name in failed if state.queue.find_virtual_cover(PartName.parse(name)) is not None]
            self._detach(keeper, wanted)

    def _is_active(self, name: str) -> bool:
        return self._state.store.get_active(PartName.parse(name)) is not None

    def _detach(self, keeper: Keeper, failed: list[str]) -> None:
        store = self._state.store
        for name in map(PartName.parse, failed):
            self._state.queue.remove_virtual(name)
            if store.get(name) is not None:
                logger.warning("the quorum of part %s has failed: moved to %s", name, store.detach(name, "noquorum"))
        unlist_failed_parts(keeper, self._state.replica, failed)
