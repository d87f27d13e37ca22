"""A set of part names that do not cover each other: active parts, or parts to come.

Invariant: within a partition the parts are disjoint and sorted by block number. Adding a part removes those it covers;
adding one that is covered changes nothing; adding one that intersects is our bug and raises.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from parts.common.part_name import PartName


class IntersectingPartsError(AssertionError):
    """Two parts share blocks and neither covers the other."""


class PartSet:
    """Disjoint parts by partition. Not thread-safe. A lookup is logarithmic in the partition's parts."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[PartName] = ()) -> None:
        self._parts: dict[str, list[PartName]] = {}
        for part in parts:
            self.add(part)

    def __iter__(self) -> Iterator[PartName]:
        for parts in self._parts.values():
            yield from parts

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def __contains__(self, part: PartName) -> bool:
        return self.find_covering(part) == part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartSet) and set(self) == set(other)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> PartSet:
        """Returns an independent copy."""
        twin = PartSet()
        twin._parts = {partition_id: list(parts) for partition_id, parts in self._parts.items()}
        return twin

    def partition_ids(self) -> list[str]:
        """Lists the partitions that have parts."""
        return [partition_id for partition_id, parts in self._parts.items() if parts]

    def parts(self, partition_id: str | None = None) -> list[PartName]:
        """Lists the parts of a partition in block order, or of all partitions."""
        if partition_id is not None:
            return list(self._parts.get(partition_id, ()))
        return list(self)

    def _overlap(self, part: PartName) -> tuple[list[PartName], int, int]:
        """The partition's list and the slice of it that shares blocks with ``part``."""
        parts = self._parts.get(part.partition_id, [])
        begin = bisect_left(parts, part.min_block, key=lambda p: p.max_block)
        end = bisect_right(parts, part.max_block, key=lambda p: p.min_block)
        return parts, begin, max(begin, end)

    def find_covering(self, part: PartName) -> PartName | None:
        """Returns the part of the set that covers ``part``, or is ``part``."""
        parts, begin, end = self._overlap(part)
        for candidate in parts[begin:end]:
            if candidate.covers(part):
                return candidate
        return None

    def list_overlapping(self, part: PartName) -> list[PartName]:
        """Lists the parts that share blocks with ``part``."""
        parts, begin, end = self._overlap(part)
        return parts[begin:end]

    def list_covered_by(self, part: PartName) -> list[PartName]:
        """Lists the parts that ``part`` covers."""
        return [candidate for candidate in self.list_overlapping(part) if part.covers(candidate)]

    def between(self, left: PartName, right: PartName) -> list[PartName]:
        """Lists the parts that lie strictly between two parts of one partition."""
        if left.max_block + 1 > right.min_block - 1:
            return []
        gap = PartName(left.partition_id, left.max_block + 1, right.min_block - 1, 0)
        return self.list_overlapping(gap)

    def add(self, part: PartName) -> bool:
        """Adds a part and removes those it covers. Returns ``False`` if the set covers it already.

        Raises ``IntersectingPartsError``.
        """
        parts, begin, end = self._overlap(part)
        for other in parts[begin:end]:
            if other.covers(part):
                return False
            if not part.covers(other):
                raise IntersectingPartsError(f"part {part} intersects part {other}")
        self._parts.setdefault(part.partition_id, parts)[begin:end] = [part]
        return True

    def remove(self, part: PartName) -> bool:
        """Removes exactly this part. Returns ``False`` if it is not in the set."""
        parts, begin, end = self._overlap(part)
        if part not in parts[begin:end]:
            return False
        parts.remove(part)
        return True

    def remove_covered(self, part: PartName) -> list[PartName]:
        """Removes and returns the parts that ``part`` covers."""
        gone = self.list_covered_by(part)
        for other in gone:
            self.remove(other)
        return gone
