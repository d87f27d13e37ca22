"""Who reads which active parts. The list of the moment is held as a whole: a query of a table of many parts does not
touch each of them.

Invariant: ``is_held`` is true of a part while a list with it has a reader. Used under the store's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from parts.common.part_name import PartName
from parts.store.part_list import PartList


@dataclass(eq=False)
class ReadList:
    """Parts that were active at one moment."""

    parts: PartList
    version: int
    """Of the set of active parts."""
    readers: int = 0

    @cached_property
    def names(self) -> frozenset[PartName]:
        return frozenset(part.name for part in self.parts)


class PartReaders:
    """The lists that somebody reads."""

    def __init__(self) -> None:
        self._latest: ReadList | None = None
        self._held: dict[int, ReadList] = {}
        """By identity."""

    def latest(self, version: int) -> ReadList | None:
        """The list of this version of the active parts, if somebody has read it."""
        return self._latest if self._latest is not None and self._latest.version == version else None

    def forget(self) -> None:
        """The parts are to be read otherwise from now on."""
        self._latest = None

    def take(self, found: ReadList) -> None:
        self._latest = found
        found.readers += 1
        self._held[id(found)] = found

    def give_back(self, found: ReadList) -> None:
        assert found.readers > 0, f"a list of {len(found.parts)} parts was released too often"
        found.readers -= 1
        if not found.readers:
            del self._held[id(found)]

    def of(self, name: PartName) -> int:
        """How many read a part."""
        return sum(found.readers for found in self._held.values() if name in found.names)

    def counts(self) -> dict[PartName, int]:
        """As :meth:`of`, for every part that somebody reads."""
        found: dict[PartName, int] = {}
        for held in self._held.values():
            for name in held.names:
                found[name] = found.get(name, 0) + held.readers
        return found

    def are_there(self) -> bool:
        """Whether somebody reads a part."""
        return any(found.parts for found in self._held.values())
