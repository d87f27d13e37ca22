"""The clocks of a machine, over the time of its colony: the wall clock may be wrong and step, the monotonic one not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_LARGEST_SKEWS = (60.0, 3_600.0, 10 * 86_400.0)


class MachineClock:
    """``skew``: seconds by which the wall clock is ahead of the colony's time, less than 0 when it is behind."""

    def __init__(self, time: Callable[[], float], uptime_seconds: float) -> None:
        self._time = time
        self._booted = time() - uptime_seconds
        self.largest_skew = self._skew = 0.0
        """The largest so far: no time that this machine has shown was further ahead."""

    @property
    def skew(self) -> float:
        return self._skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._skew = seconds
        self.largest_skew = max(self.largest_skew, seconds)

    def wall(self) -> float:
        return self._time() + self._skew

    def monotonic(self) -> float:
        return self._time() - self._booted

    def reboot(self, uptime_seconds: float) -> None:
        """The monotonic clock begins anew."""
        self._booted = self._time() - uptime_seconds


class WrongClocks:
    """How wrong the clocks of one colony are: by a minute, by an hour, or by days."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._most = random.choice(_LARGEST_SKEWS)

    def skew(self) -> float:
        return self._random.uniform(-self._most, self._most)
