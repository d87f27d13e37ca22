"""The frontier of a group: the largest zxid that the barriers of all its tables allow at once.

It is not the least of the tables' frontiers: what is a cut in one table may part, in another, a command from the blocks
that it covers. So from the least of them one goes down, table by table, until all allow the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TableCuts(Protocol):
    """The places of one table's stream at which a batch may end, up to its frontier."""

    def last_cut(self, place: int) -> int:
        """Returns the largest place at or below ``place`` at which a batch may end.

        ``place`` is at or below its end. Places at which nothing was committed count too.
        """


def find_group_cut(tables: Sequence[TableCuts], bound: int) -> int:
    """Returns the largest place at or below ``bound`` at which a batch of every table may end.

    ``bound`` is at or below the end of each table's frontier.
    """
    place = bound
    while True:
        lower = min((table.last_cut(place) for table in tables), default=place)
        if lower == place:
            return place
        place = lower
