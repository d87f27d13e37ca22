"""Partitions in which no merge was possible when ZooKeeper was asked: they are left alone for a while.

An INSERT under way, an open quorum: nobody tells this replica when what was in the way has gone. The pause doubles with
every refusal, so that a partition that can never merge costs next to nothing and the others have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_MOST_SECONDS = 60.0


class PutOffPartitions:
    """The partitions of one table that wait. Used by one thread. ``monotonic``: the clock of the pauses."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: dict[str, tuple[float, float]] = {}
        """Partition → until when, and how long that pause is."""

    def __contains__(self, partition_id: str) -> bool:
        return partition_id in self._waiting and self._waiting[partition_id][0] > self._monotonic()

    def note(self, asked: Collection[str], merging: Collection[str], first_seconds: float) -> None:
        """Puts off partitions ``asked`` about that are not ``merging``: for ``first_seconds``, then longer."""
        now = self._monotonic()
        former = {id_: pause for id_, (until, pause) in self._waiting.items() if until > now - _MOST_SECONDS}
        self._waiting = {id_: self._waiting[id_] for id_ in former if id_ not in merging}
        for partition_id in asked:
            if partition_id not in merging:
                pause = min(_MOST_SECONDS, 2 * former.get(partition_id, first_seconds / 2))
                self._waiting[partition_id] = now + pause, pause
