"""The lag of a link: the age of the oldest change that the target lacks, and 0 while it lacks none.

The source sends its own time with each answer, by the clock that gave the changes their commit time; the target adds
the time since, by a clock that never goes back. While the source does not answer the lag goes on counting: what it
committed meanwhile is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.stream.change import Change


@dataclass(frozen=True, slots=True)
class LinkLag:
    """The lag as the last answer told it. ``answered_at`` is monotonic time, in seconds."""

    answered_at: float
    seconds: float = 0.0
    """The lag at the answer."""

    def measure(self, now: float, *, is_connected: bool) -> float:
        """Returns the lag now."""
        is_counting = self.seconds > 0 or not is_connected
        return self.seconds + max(0.0, now - self.answered_at) if is_counting else 0.0


def measure_lag(missing: Sequence[Change], clock_ms: int, now: float) -> LinkLag:
    """Returns the lag of a target that lacks these changes, in the order of the stream.

    ``clock_ms`` is the source's time; 0 if it knows none, as before its first commit.
    """
    oldest = min((change.commit_ms for change in missing if change.commit_ms), default=0)
    if not missing:
        return LinkLag(now)
    return LinkLag(now, max(0.001, (clock_ms - oldest) / 1000) if oldest and clock_ms else 0.001)
