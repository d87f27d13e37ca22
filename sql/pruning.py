"""Which parts and which granules of a table a query must read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parts.reader import MarkRange, Part


@dataclass(frozen=True, slots=True)
class PrunedPart:
    """A part and the granules to read of it (``None``: all)."""

    part: Part
    ranges: Sequence[MarkRange] | None = None

    @property
    def marks(self) -> int:
        return self.part.marks if self.ranges is None else sum(item.end - item.begin for item in self.ranges)
