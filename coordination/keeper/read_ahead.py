"""A keeper for whoever reads many nodes one after the other, and knows before which: they are read by one request.

:meth:`ReadAhead.fetch` reads nodes in the order in which they will be asked for. Invariant: an answer is told at most
once, in that order, and no more after anything else was asked, written or synced. So what its user sees, and in which
order, is what he would see if he had asked for all of it when it was fetched, one read after the other. Whoever must
see what others wrote by a certain moment fetches after that moment.
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
    SessionState,
    Stat,
    Watch,
)


class ReadAhead:
    """Implements the ``Keeper`` protocol on another. For one thread."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._ahead: deque[tuple[Read, Answer]] = deque()
        self.add_listener = keeper.add_listener
        self.close = keeper.close

    def fetch(self, reads: Sequence[Read]) -> None:
        """Some of them may be asked for, in this order; what was fetched before is forgotten."""
        self._ahead = deque(zip(reads, self._keeper.read_many(reads), strict=True))

    @property
    def session_id(self) -> int:
        return self._keeper.session_id

    @property
    def session_timeout_seconds(self) -> float:
        return self._keeper.session_timeout_seconds

    @property
    def state(self) -> SessionState:
        return self._keeper.state

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
        """By ``Get`` if they were fetched so."""
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
