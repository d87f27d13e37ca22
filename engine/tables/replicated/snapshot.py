"""A snapshot of the store without the parts that no quorum has confirmed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from parts.part_name import PartName
from parts.reader import Part
from parts.store import Snapshot


class FilteredSnapshot:
    """Holds the whole snapshot, shows some of it."""

    def __init__(self, snapshot: Snapshot, hidden: Collection[PartName]) -> None:
        self._snapshot = snapshot
        self.parts: Sequence[Part] = tuple(part for part in snapshot.parts if part.name not in hidden)

    def release(self) -> None:
        self._snapshot.release()

    def __enter__(self) -> FilteredSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
