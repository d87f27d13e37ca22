"""A group's tables as they were at one cut, as a query reads them."""

from __future__ import annotations

from typing import Any, Protocol

from sql.relations import PartsSnapshot


class GroupView(Protocol):
    """All tables of a group at one cut. Held until it is given up."""

    @property
    def cut(self) -> str:
        """The text of the cut."""

    @property
    def place(self) -> int:
        """The zxid of the source up to which it goes."""

    def snapshot(self, table: Any) -> PartsSnapshot:
        """Returns the parts that a table of the group had.

        Raises 369 (ALL_REPLICAS_ARE_STALE) if it had not entered.
        """

    def release(self) -> None:
        """Gives the view up. Releasing twice is fine."""
