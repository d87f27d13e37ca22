"""Which entries of a queue are worth a look now, so that looking costs what can run and not what waits.

An entry is *ready*, *parked* on what it waits for (a key: another entry, a free slot), or set aside until a time; while
it is executed it is none of these. Whoever ends what others wait for calls :meth:`Schedule.release`. A parked entry
becomes ready at the time given, too, for changes that nobody tells the queue of.

Entries are known by their *rank*: drops before all others, then the order of the log. Everything is logarithmic in the
length of the queue; what has moved on stays in the heaps until it comes up, and is recognised then.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from heapq import heappop, heappush

_SLACK = 16
Rank = tuple[bool, str]
"""(is no drop, name of the entry)."""


class QueueSchedule:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._ready: list[Rank] = []
        self._timers: list[tuple[float, Rank]] = []
        self._parked: dict[Hashable, list[Rank]] = {}
        self._place: dict[Rank, Hashable] = {}
        """Where each entry is: ``_READY``, ``_LATER`` or the key on which it is parked."""
        self._due: dict[Rank, float] = {}

    def ready(self, rank: Rank) -> None:
        """Also from wherever else it is."""
        if self._place.get(rank) is not _READY:
            self._place[rank] = _READY
            heappush(self._ready, rank)
        self._due.pop(rank, None)

    def later(self, rank: Rank, at: float) -> None:
        self._place[rank] = _LATER
        self._set_timer(rank, at)

    def park(self, rank: Rank, key: Hashable, until: float) -> None:
        self._place[rank] = key
        waiting = self._parked.setdefault(key, [])
        if len(waiting) > 2 * len(self._place) + _SLACK:  # most have moved on
            waiting[:] = sorted({other for other in waiting if self._place.get(other) == key} - {rank})
        heappush(waiting, rank)
        self._set_timer(rank, until)

    def _set_timer(self, rank: Rank, at: float) -> None:
        self._due[rank] = at
        heappush(self._timers, (at, rank))

    def forget(self, rank: Rank) -> None:
        self._place.pop(rank, None)
        self._due.pop(rank, None)

    def release(self, key: Hashable, at_most: int | None = None) -> int:
        """Makes those parked on ``key`` ready, the first in rank if not all; returns how many."""
        waiting, released = self._parked.get(key, []), 0
        while waiting and (at_most is None or released < at_most):
            rank = heappop(waiting)
            if self._place.get(rank) == key:
                self.ready(rank)
                released += 1
        if not waiting:
            self._parked.pop(key, None)
        return released

    def next_due(self) -> float:
        """When the next entry wants to be looked at by itself: 0 for at once, infinity for never."""
        if any(self._place.get(rank) is _READY for rank in self._ready):
            return 0.0
        while self._timers and self._due.get(self._timers[0][1]) != self._timers[0][0]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def parked_on(self) -> list[Hashable]:
        """The keys on which something may be parked."""
        return list(self._parked)

    def pop(self, now: float) -> Rank | None:
        """The first entry that is ready, which is nowhere then: the caller runs it, or puts it somewhere."""
        while self._timers and self._timers[0][0] <= now:
            at, rank = heappop(self._timers)
            if self._due.get(rank) == at:
                self.ready(rank)
        while self._ready:
            rank = heappop(self._ready)
            if self._place.get(rank) is _READY:
                del self._place[rank]
                return rank
        return None


class _Place:
    """Not to be confused with any key."""


_READY, _LATER = _Place(), _Place()
