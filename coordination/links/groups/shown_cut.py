"""When the tables of a group may carry a cut out on a replica, and when they show it.

A query reads the parts that all tables of the group had when they were at one cut, held since. Meanwhile each table
goes on alone. So four rules are enough:

- A table carries out the next cut only when the one before it is shown, or when some table reaches further already: a
  merged part that alone is left brings later cuts with it, and then all tables follow to there.
- A table that lacks parts carries out any cut: what it lacks, as a clone does, may be what a later cut drops, and then
  nobody has it any more. The others follow to there.
- A cut is shown when every table is at it and none reaches further: at one moment, for all tables.
- What an earlier run of the server may have carried out counts as reached: its parts may be here, its entry still too.
- A cut is carried out when its mutations have changed all their parts, too. It is reached when one part is changed.
- Who must change a part that a later cut drops reaches into that one: nobody makes the changed part any more.
- A mutation that came before the table was in the group is like a part that is lacking: no cut brings its effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.groups.cut_mark import CutMark


@dataclass(frozen=True, slots=True)
class TableProgress:
    """One table of the group on this replica."""

    is_ready: bool
    """Whether its queue is known, and lacks no part that came otherwise than by cuts."""
    known: int
    """The newest cut whose entry was pulled."""
    queued: Sequence[CutMark] = ()
    """The cuts that are in the queue, or whose mutations are not done, ascending."""
    touched: int = 0
    """The newest cut of which something may be active."""
    has_joined: bool = True
    """Whether it has carried out the cut with which it entered."""
    lacks_parts: bool = False
    """Whether parts are still to come that no cut brings, or to be changed by a mutation that no cut has."""

    @property
    def at(self) -> int:
        """The cut up to which everything is carried out."""
        return self.queued[0].previous if self.queued else self.known

    @property
    def reach(self) -> int:
        """The newest cut of which something may be active."""
        return max(self.touched, self.at)


def may_carry_out(mark: CutMark, table: TableProgress, tables: Sequence[TableProgress], shown: int) -> bool:
    """Tells whether a table may carry out the cut.

    ``tables``: all of the group, this one too. ``shown``: the place shown now, 0 for none.
    """
    if mark.previous <= shown or table.lacks_parts:
        return True
    return mark.place <= max((table.reach for table in tables if table.has_joined), default=0)


def find_showable(tables: Sequence[TableProgress]) -> int | None:
    """Returns the cut at which all tables are now; ``None`` while they are at none."""
    joined = [table for table in tables if table.has_joined]
    places = {table.at for table in joined}
    if len(places) != 1 or not all(table.is_ready for table in joined):
        return None
    (place,) = places
    return place if place > 0 and all(table.reach <= place for table in joined) else None
