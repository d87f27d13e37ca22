"""Order in which queued entries are examined, so that waiting entries cost nothing.

An entry is *ready*, *parked* on what it waits for (a key: another entry, a free slot), or delayed until a time. While
it runs it is none of these. Whoever ends what others wait for calls :meth:`QueueSchedule.release_parked`. A parked
entry also becomes ready at a given time, for changes that are not reported to the queue.

Entries are ordered by *rank*: drops before all others, then the order of the log. Every operation is logarithmic in the
length of the queue. Outdated items stay in the heaps until they come up, and are recognised then.

Invariants

- An entry has one place (``_place``), or none while it runs and after its end.
- An item of a heap counts only if ``_place`` (or ``_due``, for a timer) says the same.
- A parked or delayed entry has a timer, so none waits for ever.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from heapq import heappop, heappush

_SLACK = 16
Rank = tuple[bool, str]
"""(``False`` for a drop, name of the entry)."""


class QueueSchedule:
    """The ready, parked and delayed entries of a queue. Not thread-safe."""

    def __init__(self) -> None:
        self._ready: list[Rank] = []
        self._timers: list[tuple[float, Rank]] = []
        self._parked: dict[Hashable, list[Rank]] = {}
        self._place: dict[Rank, Hashable] = {}
        """The place of each entry: ``_READY``, ``_LATER`` or the key on which it is parked."""
        self._due: dict[Rank, float] = {}

    def make_ready(self, rank: Rank) -> None:
        """Makes an entry ready, wherever it was before."""
        if self._place.get(rank) is not _READY:
            self._place[rank] = _READY
            heappush(self._ready, rank)
        self._due.pop(rank, None)

    def delay_until(self, rank: Rank, at: float) -> None:
        """Delays an entry until the time ``at``."""
        self._place[rank] = _LATER
        self._set_timer(rank, at)

    def park(self, rank: Rank, key: Hashable, until: float) -> None:
        """Parks an entry on ``key``, at most until the time ``until``."""
        assert not isinstance(key, _Place), f"{rank} is parked on a mark of the schedule"
        self._place[rank] = key
        waiting = self._parked.setdefault(key, [])
        if len(waiting) > 2 * len(self._place) + _SLACK:  # most of the heap is outdated
            waiting[:] = sorted({other for other in waiting if self._place.get(other) == key} - {rank})
        heappush(waiting, rank)
        self._set_timer(rank, until)

    def _set_timer(self, rank: Rank, at: float) -> None:
        self._due[rank] = at
        heappush(self._timers, (at, rank))

    def forget(self, rank: Rank) -> None:
        """Removes an entry that is finished."""
        self._place.pop(rank, None)
        self._due.pop(rank, None)

    def release_parked(self, key: Hashable, at_most: int | None = None) -> int:
        """Makes entries parked on ``key`` ready, the first in rank if not all. Returns how many."""
        waiting, released = self._parked.get(key, []), 0
        while waiting and (at_most is None or released < at_most):
            rank = heappop(waiting)
            if self._place.get(rank) == key:
                self.make_ready(rank)
                released += 1
        if not waiting:
            self._parked.pop(key, None)
        return released

    def find_next_due(self) -> float:
        """Returns when the next entry becomes ready by itself: 0 for now, infinity for never."""
        if any(self._place.get(rank) is _READY for rank in self._ready):
            return 0.0
        while self._timers and self._due.get(self._timers[0][1]) != self._timers[0][0]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def list_parked_keys(self) -> list[Hashable]:
        """Lists the keys on which entries may be parked."""
        return list(self._parked)

    def pop(self, now: float) -> Rank | None:
        """Removes and returns the first ready entry. The caller runs it, or puts it back."""
        while self._timers and self._timers[0][0] <= now:
            at, rank = heappop(self._timers)
            if self._due.get(rank) == at:
                self.make_ready(rank)
        while self._ready:
            rank = heappop(self._ready)
            if self._place.get(rank) is _READY:
                del self._place[rank]
                return rank
        return None


class _Place:
    """The place of an entry that is not parked. Equal to no key."""


_READY, _LATER = _Place(), _Place()
