"""How old the blocks of an outbox are, whatever the server's wall clock says. No I/O.

The wall clock of a server may be wrong by days, and its blocks must not go because of that. So an age is counted by the
monotonic clock, from the moment at which this process kept the block or found it. What came before a start is told by
ZooKeeper's time: the commit has it, and so has the first session after the start.

A block is never taken for older than it is, unless ZooKeeper's clock ran ahead between its commit and the start.
Steps of ZooKeeper's clock while the process runs change nothing, and neither do those of another leader. An age lacks
the time until the block was kept, what a start takes, and the time for which the machine was suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.link_store.outbox_retention import OutboxBlock

_MS = 1000


@dataclass(frozen=True, slots=True)
class _Reading:
    """ZooKeeper's time in milliseconds since 1970, and the monotonic clock's in seconds when it was read."""

    zookeeper_ms: int
    read_at: float


class BlockAges:
    """The ages of one outbox's blocks. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begun_at = monotonic()
        self._reading: _Reading | None = None

    def now(self) -> float:
        """Returns the monotonic clock's seconds, which are noted with a block that is kept."""
        return self._monotonic()

    def note_time(self, zookeeper_ms: int) -> None:
        """Notes a time of ZooKeeper that is not later than now. Only the first since the start counts."""
        if self._reading is None:
            self._reading = _Reading(zookeeper_ms, self._monotonic())

    def age_ms(self, block: OutboxBlock) -> int:
        """Returns the least age of a block."""
        now = self._monotonic()
        if block.kept_at is not None:
            return int((now - block.kept_at) * _MS)
        counted = int((now - self._begun_at) * _MS)
        if self._reading is None:
            return counted
        before = self._reading.zookeeper_ms - block.commit_time_ms
        return max(counted, before + int((now - self._reading.read_at) * _MS))
