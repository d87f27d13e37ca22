"""The names of a table's active parts, in block order.

Invariant: no two of them share a block; asserted at every addition. A lookup is logarithmic in the parts of a
partition, so that many parts do not slow INSERTs. Used under the store's lock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from parts.common.part_name import PartName


def _begin(name: PartName) -> int:
    return name.min_block


def _end(name: PartName) -> int:
    return name.max_block


class ActivePartNames:
    """A set of disjoint part names."""

    def __init__(self) -> None:
        self._partitions: dict[str, list[PartName]] = {}
        self._count = 0
        self.version = 0
        """Changes with every change of the set."""
        self.changes: list[tuple[PartName, bool]] | None = None
        """Removed and added (``True``) names in order, for a follower, who empties it; ``None`` without one."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartName]:
        """Iterates in the order of names."""
        for partition_id in sorted(self._partitions):
            yield from self._partitions[partition_id]

    def find_overlapping(self, name: PartName) -> list[PartName]:
        """Lists the names that share a block with ``name``, itself included."""
        names = self._partitions.get(name.partition_id, [])
        return names[bisect_left(names, name.min_block, key=_end) : bisect_right(names, name.max_block, key=_begin)]

    def find_covering(self, name: PartName) -> PartName | None:
        """Returns the name that covers ``name``, or is it."""
        return next((other for other in self.find_overlapping(name) if other.covers(name)), None)

    def find_largest_partition(self) -> tuple[str, int]:
        """Returns the partition with the most parts, and their number; ``("", 0)`` for none."""
        return max(((key, len(names)) for key, names in self._partitions.items()), key=lambda i: i[1], default=("", 0))

    def add(self, name: PartName) -> None:
        """Adds a name. It must not share a block with another."""
        rivals = self.find_overlapping(name)
        assert not rivals, f"active parts {name} and {rivals[0]} share blocks"
        names = self._partitions.setdefault(name.partition_id, [])
        names.insert(bisect_left(names, name.min_block, key=_begin), name)
        self._count += 1
        self.version += 1
        if self.changes is not None:
            self.changes.append((name, True))

    def discard(self, name: PartName) -> None:
        """Removes a name if it is in the set."""
        names = self._partitions.get(name.partition_id, [])
        position = bisect_left(names, name.min_block, key=_begin)
        if position < len(names) and names[position] == name:
            del names[position]
            self._count -= 1
            self.version += 1
            if self.changes is not None:
                self.changes.append((name, False))
            if not names:
                del self._partitions[name.partition_id]
