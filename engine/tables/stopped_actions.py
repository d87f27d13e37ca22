"""The background actions of a table that SYSTEM STOP has stopped.

They are forgotten at a restart, as in ClickHouse. May be called from any thread: readers see one immutable set.
"""

from __future__ import annotations

import threading
from enum import Enum

from parts.common.errors import UnavailableError


class StoppableAction(Enum):
    """An action, by its name in SYSTEM STOP and START."""

    MERGES = "MERGES"
    """Stops selecting, assigning and running merges and mutations; running ones are cancelled."""
    TTL_MERGES = "TTL MERGES"
    """Stops merges that delete or recompress expired rows."""
    FETCHES = "FETCHES"
    SENDS = "REPLICATED SENDS"
    """Stops sending parts to other replicas."""
    QUEUES = "REPLICATION QUEUES"
    """Stops executing the queue."""
    PULLING = "PULLING REPLICATION LOG"
    CLEANUP = "CLEANUP"
    """Stops removing outdated parts and old nodes in ZooKeeper."""
    MOVES = "MOVES"
    """Moves between volumes: there is one volume, so nothing to stop."""
    DISTRIBUTED_SENDS = "DISTRIBUTED SENDS"
    """Sends of rows that wait for shards: none wait, because an INSERT returns when they are sent."""


class StoppedActions:
    """The stopped actions of one table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: frozenset[StoppableAction] = frozenset()

    def __contains__(self, action: StoppableAction) -> bool:
        return action in self._stopped

    def stop(self, action: StoppableAction) -> None:
        """Stops the action."""
        with self._lock:
            self._stopped |= {action}

    def start(self, action: StoppableAction) -> None:
        """Lets the action run again."""
        with self._lock:
            self._stopped -= {action}

    def refuse(self, action: StoppableAction, what: str) -> None:
        """Raises 236 (ABORTED) if the action is stopped. ``what`` is the beginning of ClickHouse's sentence."""
        if action in self._stopped:
            raise UnavailableError("ABORTED", f"{what}: SYSTEM STOP {action.value} was given, START lets it go on")
