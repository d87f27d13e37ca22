"""The active parts of one moment, and what is computed of all of them once, for every query that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from parts.read.part_reader import Part

Made = TypeVar("Made")


class PartList(tuple[Part, ...]):
    """Parts sorted by name. Any thread may ask."""

    def once(self, what: str, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, as long as the list lives. Threads that ask at once may make it twice."""
        if what not in self.__dict__:
            self.__dict__[what] = make()
        found: Made = self.__dict__[what]
        return found
