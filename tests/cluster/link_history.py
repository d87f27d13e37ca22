"""What was written to tables whose source moves, and what of it a reader may see.

A *reign* is the time of one source. Its sequence is what the tables held when it began, and behind that the rows in the
order in which the one writer sent them. A row is sent when the one before it was acknowledged, so only the last may be
stored or not. A row's value is the number of its reign: rows of an ended reign that were lost and are written again
under the same key are other rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Item = tuple[str, int, int]
"""Table, key and value of a row."""
State = Mapping[str, frozenset[tuple[int, int]]]
"""By table its rows: key and value."""


@dataclass
class Reign:
    """The time of one source."""

    number: int
    cluster: str
    sequence: list[Item]
    acknowledged: int
    """So many of the sequence are stored for certain."""
    began_with: int = field(init=False)

    def __post_init__(self) -> None:
        self.began_with = len(self.sequence)

    def prefix(self, length: int) -> set[Item]:
        """Returns the first rows."""
        return set(self.sequence[:length])


def list_items(state: State) -> set[Item]:
    """Returns the rows of all tables."""
    return {(table, key, value) for table, rows in state.items() for key, value in rows}


class History:
    """All reigns of some tables. Thread-safe."""

    def __init__(self, tables: Sequence[str], cluster: str) -> None:
        self.tables = tables
        self._lock = threading.Lock()
        self._reigns = [Reign(0, cluster, [], 0)]

    @property
    def last(self) -> Reign:
        """The present reign."""
        return self._reigns[-1]

    def begin(self, cluster: str, found: State) -> list[str]:
        """Begins a reign with what its source holds; returns what is wrong with that."""
        items = list_items(found)
        with self._lock:
            former = self.last
            kept = former.sequence[: len(items)]
            wrong = [] if set(kept) == items else [_explain("the new source", items, former)]
            self._reigns.append(Reign(former.number + 1, cluster, kept, len(kept)))
        return wrong

    def send(self) -> tuple[Reign, Item]:
        """Returns the row that is sent next: the last one again until it is acknowledged."""
        with self._lock:
            reign, number = self.last, len(self.last.sequence)
            if reign.acknowledged == number:
                table = self.tables[number % len(self.tables)]
                reign.sequence.append((table, number // len(self.tables), reign.number))
            return reign, reign.sequence[-1]

    def acknowledge(self, reign: Reign) -> None:
        """The row that was sent last in a reign is stored."""
        with self._lock:
            reign.acknowledged = len(reign.sequence)

    def check_prefix(self, found: State) -> str:
        """Returns what is wrong with what a reader saw of all tables at one moment; empty if nothing is."""
        items = list_items(found)
        with self._lock:
            if any(items == reign.prefix(len(items)) for reign in reversed(self._reigns)):
                return ""
            return _explain("a reader", items, self.last)

    def list_lost(self, ended: Reign) -> set[Item]:
        """Returns the acknowledged rows of a reign that the next one did not begin with."""
        with self._lock:
            following = self._reigns[ended.number + 1]
            return ended.prefix(ended.acknowledged) - following.prefix(following.began_with)

    def expected(self) -> set[Item]:
        """Returns the rows that all clusters must hold in the end."""
        return self.last.prefix(self.last.acknowledged)


def _explain(who: str, items: set[Item], reign: Reign) -> str:
    """Says how the rows differ from the prefix of the same length."""
    wanted = reign.prefix(len(items))
    return (
        f"{who} has {len(items)} rows that are no prefix of reign {reign.number} ({reign.cluster}, "
        f"{len(reign.sequence)} rows): missing {_some(wanted - items)}, too many {_some(items - wanted)}"
    )


def _some(items: Iterable[Item]) -> list[Item]:
    return sorted(items)[:5]
