"""An index of a table's change stream up to its frontier: the places of changes and cuts.

It also has the rows and bytes between them.

A target asks for what follows its place. The index finds the end of the next page in the logarithm of the stream's
length, and the changes themselves are read from the journal. What is at or below a frontier never changes any more, so
the index only grows at its end. It takes 40 bytes for a change. What the journal has given up is forgotten.

Invariants: all lists ascend; no change lies behind ``end``, and the next one comes behind it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from coordination.links.positions import Origin
from coordination.links.stream.change import Change
from coordination.links.stream.own_origins import OwnOrigins


@dataclass(frozen=True, slots=True)
class StreamPage:
    """The places of the next changes."""

    end: int
    """The last cut of the page."""
    cuts: tuple[int, ...]
    """All cuts of the page; the last is ``end``."""
    rows_behind: int
    bytes_behind: int
    """What lies between the asked place and the frontier."""


class ChangeFigures:
    """Places, rows and bytes of changes, and which are the table's own: 25 bytes for each."""

    def __init__(self, own: Origin | OwnOrigins) -> None:
        self._own = OwnOrigins.of(own)
        self.places, self.rows, self.sizes = array("q"), array("q"), array("q")
        self.are_own = bytearray()

    def add(self, changes: Iterable[Change]) -> None:
        """Adds changes, in the order of their places."""
        for change in changes:
            self.places.append(change.place)
            self.rows.append(change.rows)
            self.sizes.append(change.size_bytes)
            origin, is_here = change.position.origin, change.position.zxid == change.place
            self.are_own.append(origin == self._own.present or (is_here and self._own.has(origin)))


class StreamIndex:
    """The index of the changes after the place ``begin``."""

    def __init__(self, begin: int) -> None:
        self.end = begin
        """The frontier: everything up to it is decided."""
        self._places = array("q")
        self._rows, self._bytes = array("q", [0]), array("q", [0])
        """Sums of the rows and bytes before each place, and of all."""
        self._cuts = array("q")
        self._own = array("q")
        """The places of the table's own changes."""

    def __len__(self) -> int:
        return len(self._places)

    def extend(self, own: Origin | OwnOrigins, changes: Iterable[Change], cuts: Iterable[int], end: int) -> None:
        """Adds the changes up to the frontier ``end``, in the order of their places, and the cuts among them."""
        figures = ChangeFigures(own)
        figures.add(changes)
        self.extend_by(figures, len(figures.places), cuts, end)

    def extend_by(self, figures: ChangeFigures, count: int, cuts: Iterable[int], end: int) -> None:
        """Adds the first ``count`` changes as :meth:`extend` does."""
        assert end >= self.end
        if count:
            assert self.end < figures.places[0]
            assert figures.places[count - 1] <= end
        for place, rows, size_bytes, is_own in islice(
            zip(figures.places, figures.rows, figures.sizes, figures.are_own, strict=True), count
        ):
            self._places.append(place)
            self._rows.append(self._rows[-1] + rows)
            self._bytes.append(self._bytes[-1] + size_bytes)
            if is_own:
                self._own.append(place)
        self._cuts.extend(cuts)
        self.end = end

    def forget_before(self, place: int, at_least: int = 1000) -> None:
        """Forgets changes before the last one at or below ``place``: nobody asks for them any more.

        Does nothing unless they are ``at_least`` so many and half of the index, so it may be called often.
        """
        count = bisect_right(self._places, place)
        count = bisect_left(self._places, self._places[count - 1]) if count else 0
        if not count or count < at_least or 2 * count < len(self._places):
            return
        for each in (self._places, self._rows, self._bytes):
            del each[:count]
        del self._cuts[: bisect_left(self._cuts, self._places[0])]
        del self._own[: max(0, bisect_right(self._own, self._places[0]) - 1)]

    def find_previous_own(self, place: int) -> int:
        """Returns the place of the last own change at or below ``place``; 0 if the index knows of none."""
        found = bisect_right(self._own, place)
        return self._own[found - 1] if found else 0

    def is_cut(self, place: int) -> bool:
        """Tells whether a batch may end, or a link begin, at the place."""
        before = bisect_right(self._places, place)
        if not before:
            return True
        last = self._places[before - 1]
        at = bisect_left(self._cuts, last)
        return at < len(self._cuts) and self._cuts[at] == last

    def last_cut(self, place: int) -> int:
        """Returns the largest place at or below ``place`` at which a batch may end.

        ``place`` is at most :attr:`end`. A batch may end right before a change, if it may behind the change before.
        """
        if self.is_cut(place):
            return place
        cuts = bisect_right(self._cuts, place)
        following = bisect_right(self._places, self._cuts[cuts - 1]) if cuts else 0
        return self._places[following] - 1

    def find_page(self, after: int, max_rows: int, max_bytes: int, max_changes: int) -> StreamPage:
        """Returns the page behind the place ``after``.

        It ends at the last cut within the limits, at least at the first. The frontier ends the last page.
        """
        first = bisect_right(self._places, after)
        rows, size = self._rows[-1] - self._rows[first], self._bytes[-1] - self._bytes[first]
        cuts = self._cuts[bisect_right(self._cuts, after) :]
        fits = min(
            bisect_right(self._rows, self._rows[first] + max_rows) - 1,
            bisect_right(self._bytes, self._bytes[first] + max_bytes) - 1,
            first + max_changes,
        )  # this many changes from the beginning are within the limits
        count = len(cuts)
        if fits < len(self._places):
            count = max(1, bisect_left(cuts, self._places[fits]))
        chosen: Sequence[int] = cuts[:count]
        if count == len(cuts) and self.end > (chosen[-1] if count else after):
            chosen = [*chosen, self.end]
        end = chosen[-1] if chosen else max(after, self.end)
        return StreamPage(end, tuple(chosen), rows, size)
