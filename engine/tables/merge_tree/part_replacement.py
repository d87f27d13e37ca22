"""The replacement of parts of a table of one server by what a merge or mutation makes of them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from parts.common.errors import ConflictError
from parts.common.part_name import PartName
from parts.store.part_store import PartStore


class PartReservations:
    """The parts that are being merged, mutated or moved, each by one operation at a time.

    May be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reserved: set[PartName] = set()

    @contextmanager
    def reserve(self, names: Collection[PartName]) -> Iterator[None]:
        """Reserves the parts within the block. Raises ``ConflictError`` if one is reserved already."""
        with self._lock:
            taken = self._reserved.intersection(names)
            if taken:
                raise ConflictError("ABORTED", f"Part {min(taken)} is being merged already; try again later")
            self._reserved.update(names)
        try:
            yield
        finally:
            with self._lock:
                self._reserved.difference_update(names)

    def reserved(self) -> set[PartName]:
        """Returns the reserved parts."""
        with self._lock:
            return set(self._reserved)


def replace_parts(store: PartStore, directory: Path, result: PartName, names: Collection[PartName]) -> None:
    """Commits a merged or mutated part in place of its sources.

    The sources may have been truncated meanwhile; their rows must not come back, not even after a crash here. So the
    part gets its name, by which a restart would find it, only while they cannot be truncated. Raises ``ConflictError``
    if one of them is gone.
    """
    try:
        with store.lock:
            if not all(store.get_active(name) is not None for name in names):
                raise ConflictError("ABORTED", f"A source of {result} was dropped meanwhile")
            store.commit(store.add_preactive(directory, result, is_synced=True))
    except BaseException:
        store.drop_temporary(directory)
        raise
