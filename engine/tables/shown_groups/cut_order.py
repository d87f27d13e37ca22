"""The order in which a replica's table carries out the cuts of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordination.keeper.interface import Keeper
from coordination.log.log_entry import LogEntry
from parts.common.part_name import PartName


class CutOrder(Protocol):
    """A table's group, as the execution of its log entries asks it."""

    def admit(self, keeper: Keeper, entries: Sequence[LogEntry]) -> bool:
        """Tells whether the entries may be carried out in one step now; they count as begun if so."""

    def admit_part(self, part: PartName) -> bool:
        """Tells whether a part may become active now: the mutations that it brings count as begun if so."""

    def note_done(self) -> None:
        """Takes note that an entry has left the queue."""

    def note_executed(self, entries: Sequence[LogEntry]) -> None:
        """Takes note that entries of any kind were executed; some may have left the queue."""


class _NoCuts:
    def admit(self, keeper: Keeper, entries: Sequence[LogEntry]) -> bool:
        return True

    def admit_part(self, part: PartName) -> bool:
        return True

    def note_done(self) -> None:
        pass

    def note_executed(self, entries: Sequence[LogEntry]) -> None:
        pass


NO_CUTS: CutOrder = _NoCuts()
"""The order of a table that no group has."""
