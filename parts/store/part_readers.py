"""The readers of active parts.

A reader holds the whole list of the moment, so a query of a table of many parts does not touch each part. Invariant: a
part counts as read while a list with it has a reader. Used under the store's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from parts.common.part_name import PartName
from parts.store.part_list import PartList


@dataclass(eq=False)
class ReadList:
    """The active parts of one moment, and the number of their readers."""

    parts: PartList
    version: int
    """Version of the set of active parts."""
    readers: int = 0

    @cached_property
    def names(self) -> frozenset[PartName]:
        """The names of the parts."""
        return frozenset(part.name for part in self.parts)


class PartReaders:
    """The lists that are being read."""

    def __init__(self) -> None:
        self._latest: ReadList | None = None
        self._held: dict[int, ReadList] = {}
        """The lists by their ``id()``."""

    def get_latest(self, version: int) -> ReadList | None:
        """Returns the list of this version of the active parts, if somebody has read it."""
        return self._latest if self._latest is not None and self._latest.version == version else None

    def forget(self) -> None:
        """Forgets the latest list, because the parts are read differently from now on."""
        self._latest = None

    def take(self, found: ReadList) -> None:
        """Adds a reader to a list."""
        self._latest = found
        found.readers += 1
        self._held[id(found)] = found

    def release(self, found: ReadList) -> None:
        """Removes a reader from a list."""
        assert found.readers > 0, f"a list of {len(found.parts)} parts was released too often"
        found.readers -= 1
        if not found.readers:
            del self._held[id(found)]

    def count_readers(self, name: PartName) -> int:
        """Returns the number of readers of a part."""
        return sum(found.readers for found in self._held.values() if name in found.names)

    def count_all_readers(self) -> dict[PartName, int]:
        """Returns the number of readers of every part that is being read."""
        found: dict[PartName, int] = {}
        for held in self._held.values():
            for name in held.names:
                found[name] = found.get(name, 0) + held.readers
        return found

    def has_readers(self) -> bool:
        """Tells whether any part is being read."""
        return any(found.parts for found in self._held.values())
