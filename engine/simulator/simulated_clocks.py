"""Clocks of a simulated machine: a wall clock that may be wrong and step, and a monotonic one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_LARGEST_SKEWS = (60.0, 3_600.0, 10 * 86_400.0)


class MachineClock:
    """The clocks of one machine.

    ``skew`` is how many seconds the wall clock is ahead of the cluster's time.
    """

    def __init__(self, time: Callable[[], float], uptime_seconds: float) -> None:
        self._time = time
        self._booted = time() - uptime_seconds
        self.largest_skew = self._skew = 0.0
        """The largest skew so far: no time that this machine has shown was further ahead."""

    @property
    def skew(self) -> float:
        """The seconds by which the wall clock is ahead; negative if it is behind."""
        return self._skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._skew = seconds
        self.largest_skew = max(self.largest_skew, seconds)

    def wall(self) -> float:
        """Returns the wall clock's time."""
        return self._time() + self._skew

    def monotonic(self) -> float:
        """Returns the seconds since the boot."""
        return self._time() - self._booted

    def reboot(self, uptime_seconds: float) -> None:
        """Restarts the monotonic clock."""
        self._booted = self._time() - uptime_seconds


class WrongClocks:
    """The errors of a cluster's clocks: up to a minute, an hour, or days."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._most = random.choice(_LARGEST_SKEWS)

    def skew(self) -> float:
        """Draws a skew."""
        return self._random.uniform(-self._most, self._most)
