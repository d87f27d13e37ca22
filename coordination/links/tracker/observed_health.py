"""What was observed of the health of targets, for as long as decisions look back.

A target stands *well* if every observation of the whole ``tracker_delay`` was good, and *badly* if every one was bad.
Between them it is *unsettled*, and nothing is decided because of it: one observation changes nothing, however it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Standing(Enum):
    """How a target stands after what was observed."""

    WELL = "healthy"
    UNSETTLED = "unsettled"
    BADLY = "unhealthy"


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at all targets."""

    at: float
    """Monotonic time, in seconds."""
    troubles: Mapping[str, str]
    """By target what is wrong with it, for people; "" for one that is healthy."""


@dataclass(frozen=True, slots=True)
class HealthHistory:
    """The observations of the last ``delay`` seconds, ascending, and the last one before them."""

    delay: float
    observations: tuple[Observation, ...] = ()

    def with_observation(self, new: Observation, longest_gap: float) -> HealthHistory:
        """Returns the history with one more observation.

        After a gap that is longer than ``longest_gap`` it begins anew: nobody knows what was between.
        """
        kept = self.observations
        if kept and new.at - kept[-1].at > longest_gap:
            kept = ()
        kept = (*kept, new)
        first = max((at for at, each in enumerate(kept) if each.at <= new.at - self.delay), default=0)
        return HealthHistory(self.delay, kept[first:])

    @property
    def seconds(self) -> float:
        """How long has been observed without a gap, at most about ``delay``."""
        return self.observations[-1].at - self.observations[0].at if self.observations else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the whole delay was observed."""
        return bool(self.observations) and self.observations[0].at <= self.observations[-1].at - self.delay

    def judge(self, target: str) -> Standing:
        """Returns how a target stands after all observations that are kept."""
        seen = [each.troubles.get(target) for each in self.observations]
        if not self.is_complete or None in seen or (any(seen) and not all(seen)):
            return Standing.UNSETTLED
        return Standing.BADLY if any(seen) else Standing.WELL

    def explain(self, target: str) -> str:
        """Returns the last trouble of a target; "" if its last observation was good."""
        return (self.observations[-1].troubles.get(target) or "") if self.observations else ""
