"""A view of a group of links as one statement of a worker holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.workers.catalog_mirror import WorkerTable
from parts.common.errors import UnavailableError
from sql.relations import PartsSnapshot


class _Unpins(Protocol):
    def unpin(self, number: int) -> None: ...


class WorkerGroupView:
    """Implements ``engine.tables.capabilities.group_view.GroupView``."""

    def __init__(self, replica: _Unpins, number: int, cut: str, place: int, parts: Mapping[int, Sequence[str]]) -> None:
        """``parts``: the names by the number of their table. ``number`` is what they are pinned by."""
        self._replica: _Unpins | None = replica
        self._number = number
        self.cut = cut
        self.place = place
        self._parts = parts

    def snapshot(self, table: WorkerTable) -> PartsSnapshot:
        """Returns the parts that the table had at the cut."""
        names = self._parts.get(table.uid)
        if names is None:
            raise UnavailableError(
                "ALL_REPLICAS_ARE_STALE",
                f"Table {table.definition.full_name} is in the group {table.link_group} of links, and has not "
                "entered with a cut yet on this server. Ask another replica, or wait",
            )
        return table.open_pinned(names, self._keep)

    def _keep(self) -> None:
        """A snapshot holds this, and so the view."""

    def release(self) -> None:
        """Gives the view up. Releasing twice is fine."""
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.unpin(self._number)

    def __del__(self) -> None:
        self.release()
