"""The active parts of one moment, with values computed once for all queries that read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from parts.read.part_reader import Part

Made = TypeVar("Made")


class PartList(tuple[Part, ...]):
    """Parts sorted by name, with cached values. Thread-safe."""

    def get_or_make(self, what: str, make: Callable[[], Made]) -> Made:
        """Returns the value of ``make``, cached under ``what``. Concurrent first calls may compute it twice."""
        if what not in self.__dict__:
            self.__dict__[what] = make()
        found: Made = self.__dict__[what]
        return found
