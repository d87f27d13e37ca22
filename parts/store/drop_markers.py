"""Marks of dropped parts, so that a restart does not load their directories as active parts again.

A drop creates an empty file ``dropped_<part name>`` beside the part's directory, durably before the drop counts. It
applies to the named part and to everything the part covers: the sources of a merged part may still wait for their
deletion. The mark is removed when none of those is left.

Invariant: no mark covers a part that was added after it (see :meth:`DropMarkers.make_way_for`). Used under the store's
lock.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from parts.common.part_name import PartName
from parts.format.hashed_file import sync_directory

_PREFIX = "dropped_"


def is_drop_mark(file: Path) -> bool:
    """Tells whether the file is a mark. A directory is not: mutated parts may have such names."""
    return file.name.startswith(_PREFIX) and not file.is_dir()


class DropMarkers:
    """The marks in one table's directory."""

    def __init__(self, path: Path, should_sync: bool) -> None:
        self._path = path
        self._should_sync = should_sync
        self._marks = CoveringNames()

    def load(self) -> None:
        """Reads the marks from disk."""
        names = (PartName.try_parse(file.name.removeprefix(_PREFIX)) for file in self._path.glob(f"{_PREFIX}*"))
        self._marks = CoveringNames(name for name in names if name is not None)

    def is_dropped(self, name: PartName) -> bool:
        """Tells whether the part, or one that covers it, was dropped."""
        return any(self._marks.find_covering(name))

    def add(self, names: Iterable[PartName]) -> None:
        """Adds marks durably. After an error a restart finds none of them."""
        new = set(names) - self._marks.names
        try:
            for name in new:
                self._file(name).touch()
            if new and self._should_sync:
                sync_directory(self._path)
        except BaseException:
            self._remove(new)
            raise
        self._marks.add(new)

    def remove(self, names: Iterable[PartName]) -> None:
        """Removes the marks of parts that stay, also marks that are only on disk. Not durable."""
        self._remove(set(names))

    def make_way_for(self, name: PartName, present: Iterable[PartName]) -> None:
        """Replaces marks that cover a new part by marks of just the parts that are ``present``."""
        obstacles = set(self._marks.find_covering(name))
        if obstacles:
            self.add(other for other in present if other != name and any(mark.covers(other) for mark in obstacles))
            self._remove(obstacles - set(present))

    def remove_unneeded(self, present: Iterable[PartName], gone: Iterable[PartName] | None = None) -> None:
        """Removes the marks that apply to no present part, or only those that applied to ``gone`` parts."""
        useless = set(self._marks.names)
        if gone is not None:
            useless = {mark for name in gone for mark in self._marks.find_covering(name)}
        if useless:
            for name in present:
                useless.difference_update(self._marks.find_covering(name))
            self._remove(useless)

    def _remove(self, names: set[PartName]) -> None:
        for name in names:
            self._file(name).unlink(missing_ok=True)
        self._marks.discard(names)

    def _file(self, name: PartName) -> Path:
        return self._path / f"{_PREFIX}{name}"


class CoveringNames:
    """A set of part names that quickly finds those that cover another name."""

    def __init__(self, names: Iterable[PartName] = ()) -> None:
        self.names: set[PartName] = set(names)
        self._sorted: dict[str, tuple[list[PartName], list[int]]] | None = None
        """By partition: the names ordered by first block; for each, the largest last block of it and all before it."""

    def add(self, names: Iterable[PartName]) -> None:
        before = len(self.names)
        self.names.update(names)
        if len(self.names) != before:
            self._sorted = None

    def discard(self, names: Iterable[PartName]) -> None:
        before = len(self.names)
        self.names.difference_update(names)
        if len(self.names) != before:
            self._sorted = None

    def find_covering(self, name: PartName) -> Iterator[PartName]:
        """Yields the names that cover ``name``.

        It goes back from the last name that begins early enough, until none before it ends late enough.
        """
        if self._sorted is None:
            self._sorted = _by_blocks(self.names)
        names, ends = self._sorted.get(name.partition_id, ([], []))
        place = bisect_right(names, name.min_block, key=_first_block)
        while place and ends[place - 1] >= name.max_block:
            place -= 1
            if names[place].covers(name):
                yield names[place]


def _by_blocks(names: Iterable[PartName]) -> dict[str, tuple[list[PartName], list[int]]]:
    found: dict[str, list[PartName]] = {}
    for name in names:
        found.setdefault(name.partition_id, []).append(name)
    for of_partition in found.values():
        of_partition.sort(key=_first_block)
    return {
        partition: (of_partition, list(itertools.accumulate((name.max_block for name in of_partition), max)))
        for partition, of_partition in found.items()
    }


def _first_block(name: PartName) -> int:
    return name.min_block
