"""By how much a target is behind, as one server of the source sees it by its own clock.

The server notes at each look which commit of the table was the newest. A target that has not applied a commit which was
the newest at some look is behind by the time since then.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenPositions:
    """The newest commits of one table, by the monotonic time at which they were seen first."""

    keep_seconds: float
    """A lag that is larger than this is told as this."""
    seen: tuple[tuple[float, int], ...] = ()
    """Ascending in both."""

    def with_newest(self, at: float, zxid: int) -> SeenPositions:
        """Returns what is known after one more look."""
        seen = self.seen
        if not seen or zxid > seen[-1][1]:
            seen = (*seen, (at, zxid))
        first = max((number for number, each in enumerate(seen) if each[0] <= at - self.keep_seconds), default=0)
        return SeenPositions(self.keep_seconds, seen[first:])

    def measure_lag(self, at: float, applied: int) -> float:
        """Returns the seconds by which a target is behind that has applied so much; 0 if it lacks nothing."""
        since = next((first for first, zxid in self.seen if zxid > applied), at)
        return min(at - since, self.keep_seconds)
