"""Decides how much of a journal goes because of what links have and of its age. No I/O.

Blocks have rules of their own (:mod:`engine.link_store.outbox_retention`), and the journal goes with them. But a table
may have mutations and ALTERs only, and then its outbox has no block that goes. So the places are noted that the links
had, and that the journal had, at moments of the monotonic clock: what they had ``min_seconds`` ago goes, and so does
what the journal had ``max_seconds`` ago, though a link needs it. A start forgets them, which lets records live longer.
"""

from __future__ import annotations

from collections import deque

from engine.link_store.outbox_retention import RetentionLimits

_MOMENTS = 16
"""The moments that are noted in the time for which a place is remembered."""


class PlacesByTime:
    """Places, which grow, as they were some seconds ago. Times never go back."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int]] = deque()

    def note(self, place: int, now: float, seconds: float) -> None:
        """Notes the place of now, unless that was done less than a fraction of ``seconds`` ago."""
        if not self._noted or now - self._noted[-1][0] >= seconds / _MOMENTS:
            self._noted.append((now, place))

    def find(self, now: float, seconds: float) -> int:
        """Returns a place of at least ``seconds`` ago, the last that was noted; 0 for none."""
        noted = self._noted
        while len(noted) > 1 and noted[1][0] <= now - seconds:
            noted.popleft()
        return noted[0][1] if noted and noted[0][0] <= now - seconds else 0


class JournalRetention:
    """Decides what of one replica's journal may go."""

    def __init__(self) -> None:
        self._released, self._newest = PlacesByTime(), PlacesByTime()

    def find_end(self, released: int | None, newest: int, limits: RetentionLimits, now: float) -> int:
        """Returns the zxid up to which the journal may be trimmed; 0 for nothing.

        ``released``: what every link has acknowledged; ``None`` without links. ``newest``: the journal's last position.
        ``now``: monotonic seconds.
        """
        end = 0
        if released is not None:
            self._released.note(released, now, limits.min_seconds)
            end = self._released.find(now, limits.min_seconds)
        if limits.max_seconds > limits.min_seconds:
            self._newest.note(newest, now, limits.max_seconds)
            end = max(end, self._newest.find(now, limits.max_seconds))
        return end
