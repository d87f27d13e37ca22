"""Marks of dropped parts, so that a restart does not take their directories for active parts again.

Dropping a part makes an empty file ``dropped_<part name>`` beside its directory, durable before the drop counts. It
speaks for the named part and everything the part covers: the sources of a merged part may still wait for their
deletion. It goes away when none of those is left.

Invariant: no mark covers a part that was added after it (see :meth:`DropMarkers.admit`). Used under the store's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from parts.disk import sync_directory
from parts.part_name import PartName

_PREFIX = "dropped_"


class DropMarkers:
    """The marks in one table's directory."""

    def __init__(self, path: Path, should_sync: bool) -> None:
        self._path = path
        self._should_sync = should_sync
        self._names: set[PartName] = set()

    def load(self) -> None:
        names = (PartName.try_parse(file.name.removeprefix(_PREFIX)) for file in self._path.glob(f"{_PREFIX}*"))
        self._names = {name for name in names if name is not None}

    def is_dropped(self, name: PartName) -> bool:
        """True for a dropped part and for what it covers."""
        return any(dropped.covers(name) for dropped in self._names)

    def add(self, names: Iterable[PartName]) -> None:
        """Durable when this returns; an error leaves none of them to a restart."""
        new = set(names) - self._names
        try:
            for name in new:
                self._file(name).touch()
            if new and self._should_sync:
                sync_directory(self._path)
        except BaseException:
            self._remove(new)
            raise
        self._names |= new

    def withdraw(self, names: Iterable[PartName]) -> None:
        """Of parts that stay: also marks that are only on disk. Not durable."""
        self._remove(set(names))

    def admit(self, name: PartName, present: Iterable[PartName]) -> None:
        """Lets a part of this name in: marks that cover it give way to marks of just the parts that are ``present``."""
        obstacles = {dropped for dropped in self._names if dropped.covers(name)}
        if obstacles:
            self.add(other for other in present if other != name and any(mark.covers(other) for mark in obstacles))
            self._remove(obstacles - set(present))

    def prune(self, present: Iterable[PartName]) -> None:
        """Removes the marks that speak for nothing any more."""
        left = list(present)
        self._remove({mark for mark in self._names if not any(mark.covers(name) for name in left)})

    def _remove(self, names: set[PartName]) -> None:
        for name in names:
            self._file(name).unlink(missing_ok=True)
        self._names -= names

    def _file(self, name: PartName) -> Path:
        return self._path / f"{_PREFIX}{name}"
