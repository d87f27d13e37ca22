"""The places of the source at which a sibling's tail of one table may end.

A group takes the tails of all its tables up to one place (:func:`.group_frontier.find_group_cut`). A sibling has the
source's changes in its own stream, where a batch may end at its own cuts alone. So a place of the source is a cut if
one of the sibling's cuts parts the changes up to it from those behind it. What the source committed behind the place
that the sibling has is not known, so no cut is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.positions import Origin
from coordination.links.stream.change import Change


@dataclass(frozen=True, slots=True)
class TailCuts:
    """The tail of one table. Implements ``group_frontier.TableCuts``."""

    source: Origin
    begin: int
    """The place of the source up to which the table has everything."""
    reach: int
    """The one up to which the sibling has."""
    changes: Sequence[Change] = ()
    """What the sibling has in addition, in the order of its stream."""
    cuts: Sequence[int] = ()
    """The places of the sibling's stream at which a batch may end."""

    def last_cut(self, place: int) -> int:
        """Returns the largest place of the source at or below ``place`` at which the tail may end."""
        if any(change.position.origin != self.source for change in self.changes):  # the source is a target itself
            return place if place >= self.reach else min(place, self.begin)
        while place > self.begin:
            inside = self.select(place)
            if len(inside) == len(self.changes) or not inside:
                return place
            behind = self.changes[len(inside)].place
            if any(inside[-1].place <= cut < behind for cut in self.cuts):
                return place
            place = inside[-1].position.zxid - 1
        return place

    def select(self, place: int) -> Sequence[Change]:
        """Returns the changes up to a cut."""
        if place >= self.reach:
            return self.changes
        return [change for change in self.changes if change.position.zxid <= place]
