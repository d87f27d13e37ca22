"""Detaches parts whose quorum has failed: from ZooKeeper's list, and to ``detached/noquorum_…``.

A replica does so whenever it begins a session, and when a failure marker appears while it is active.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from coordination.inserts.quorum_failure import list_own_failed_parts, unlist_failed_parts
from coordination.keeper.interface import Keeper, Watch
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.watched_step import WatchedStep
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)


class FailedQuorums:
    """The failed quorums of one replica's parts."""

    def __init__(
        self, state: ReplicaState, pull: Callable[[Keeper], None], keep_for_links: Callable[[Keeper], None]
    ) -> None:
        """``pull`` reads the log into the queue; ``keep_for_links`` writes markers into the journal of links."""
        self._state = state
        self._pull = pull
        self._keep_for_links = keep_for_links
        self.task = WatchedStep(state, "take back failed parts", "failed quorums", self._detach_while_active).task

    def take_back(self, keeper: Keeper) -> None:
        """Detaches all failed parts at the start of a session, when nothing else runs."""
        failed = list_own_failed_parts(keeper, self._state.replica)
        self._detach(keeper, failed)

    def _detach_while_active(self, keeper: Keeper, watch: Watch) -> None:
        """Detaches failed parts that no drop covers, because dropped rows do not belong in ``detached``."""
        state = self._state
        names = list_own_failed_parts(keeper, state.replica, watch)
        self._keep_for_links(keeper)
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
