"""Partitions in which no merge was possible, so that they are left alone for a while.

An INSERT under way or an open quorum may block merges, and nothing tells this replica when it ends. The pause doubles
with every refusal. A partition that can never merge then costs next to nothing, and others get their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_MAX_SECONDS = 60.0


class DelayedPartitions:
    """The partitions of one table that must wait.

    Used by one thread. ``monotonic`` is the clock of the pauses.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: dict[str, tuple[float, float]] = {}
        """By partition, the end of the pause and its length in seconds."""

    def __contains__(self, partition_id: str) -> bool:
        return partition_id in self._waiting and self._waiting[partition_id][0] > self._monotonic()

    def note(self, asked: Collection[str], merging: Collection[str], first_seconds: float) -> None:
        """Delays partitions that were ``asked`` about but are not ``merging``:

        for ``first_seconds``, then longer.
        """
        now = self._monotonic()
        former = {id_: pause for id_, (until, pause) in self._waiting.items() if until > now - _MAX_SECONDS}
        self._waiting = {id_: self._waiting[id_] for id_ in former if id_ not in merging}
        for partition_id in asked:
            if partition_id not in merging:
                pause = min(_MAX_SECONDS, 2 * former.get(partition_id, first_seconds / 2))
                self._waiting[partition_id] = now + pause, pause
