"""A keeper that reads many nodes by one request before they are asked for one by one.

:meth:`ReadAhead.fetch` reads nodes in the order in which they will be asked for.

Invariant: an answer is given at most once, in that order, and is dropped as soon as anything else is asked, written or
synced. So the user sees what it would see if it had asked for everything, one read after the other, at the time of the
fetch. A user that must see what others wrote by some moment fetches after that moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from coordination.keeper.interface import (
    ANY_VERSION,
    Answer,
    Children,
    Get,
    Keeper,
    NoNode,
    Op,
    Read,
    Stat,
    Watch,
)
from coordination.keeper.layered_keeper import LayeredKeeper


class ReadAhead(LayeredKeeper):
    """A ``Keeper`` on top of another one. For one thread."""

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper)
        self._ahead: deque[tuple[Read, Answer]] = deque()

    def fetch(self, reads: Sequence[Read]) -> None:
        """Reads nodes that may be asked for next, in this order. Drops what was fetched before."""
        self._ahead = deque(zip(reads, self._keeper.read_many(reads), strict=True))

    # --- reads -------------------------------------------------------------------------------------------------

    def read_many(self, reads: Sequence[Read]) -> list[Answer]:
        told: list[Answer] = []
        for read in reads:
            while self._ahead and self._ahead[0][0] != read:
                self._ahead.popleft()
            if not self._ahead:
                return self._keeper.read_many(reads)
            told.append(self._ahead.popleft()[1])
        return told

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        if watch is not None:
            return self._now().get(path, watch)
        (answer,) = self.get_many([path])
        if answer is None:
            raise NoNode("no node", path)
        return answer

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return self._now().exists(path, watch) if watch is not None else self.exists_many([path])[0]

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if watch is not None:
            return self._now().children(path, watch)
        (names,) = self.children_many([path])
        if names is None:
            raise NoNode("no node", path)
        return names

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return self.read_many(list(map(Get, paths)))  # type: ignore[return-value]

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """Returns the stats.

        They are read with ``Get``, so nodes fetched with ``Get`` are answered from the fetch.
        """
        return [None if answer is None else answer[1] for answer in self.get_many(paths)]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return self.read_many(list(map(Children, paths)))  # type: ignore[return-value]

    # --- everything else ---------------------------------------------------------------------------------------

    def _now(self) -> Keeper:
        self._ahead.clear()
        return self._keeper

    def sync(self, path: str) -> None:
        self._now().sync(path)

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        return self._now().multi(ops)

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        return self._now().create(path, data, ephemeral=ephemeral, sequential=sequential)

    def create_parents(self, path: str) -> None:
        self._now().create_parents(path)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return self._now().set(path, data, version)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._now().delete(path, version)

    def delete_tree(self, path: str) -> None:
        self._now().delete_tree(path)
