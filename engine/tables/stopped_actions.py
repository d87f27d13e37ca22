"""What SYSTEM STOP has stopped of a table: the one place that says whether background work may go on.

Not kept over a restart, as in ClickHouse. From any thread: readers look at one immutable set.
"""

from __future__ import annotations

import threading
from enum import Enum

from parts.common.errors import UnavailableError


class StoppableAction(Enum):
    """As it is called after SYSTEM STOP and START."""

    MERGES = "MERGES"
    """Neither merges nor mutations are chosen, assigned or carried out; those that run are cancelled."""
    TTL_MERGES = "TTL MERGES"
    """Of merges those that delete or move what is past its TTL."""
    FETCHES = "FETCHES"
    SENDS = "REPLICATED SENDS"
    """No part is lent to another replica."""
    QUEUES = "REPLICATION QUEUES"
    """Nothing of the queue is carried out."""
    PULLING = "PULLING REPLICATION LOG"
    CLEANUP = "CLEANUP"
    """Neither outdated parts nor what is old in ZooKeeper is removed."""
    MOVES = "MOVES"
    """Between volumes: there is one, and nothing to stop."""
    DISTRIBUTED_SENDS = "DISTRIBUTED SENDS"
    """Of rows that wait to be sent to shards: an INSERT returns when they are there, and none wait."""


class StoppedActions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: frozenset[StoppableAction] = frozenset()

    def __contains__(self, action: StoppableAction) -> bool:
        return action in self._stopped

    def stop(self, action: StoppableAction) -> None:
        with self._lock:
            self._stopped |= {action}

    def start(self, action: StoppableAction) -> None:
        with self._lock:
            self._stopped -= {action}

    def refuse(self, action: StoppableAction, what: str) -> None:
        """Raises 236 (ABORTED) when the action is stopped. ``what`` is the beginning of ClickHouse's sentence."""
        if action in self._stopped:
            raise UnavailableError("ABORTED", f"{what}: SYSTEM STOP {action.value} was given, START lets it go on")
