"""The columns that are added to the tables of linked clusters, and dropped.

The column ``e<n>`` is ``k + n`` in every row, whichever cluster computed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

_MOST_COLUMNS = 3


@dataclass(frozen=True)
class Alteration:
    """One ALTER. It may be repeated."""

    verb: str
    number: int

    def __str__(self) -> str:
        if self.verb == "ADD":
            return f"ADD COLUMN IF NOT EXISTS e{self.number} UInt64 DEFAULT k + {self.number}"
        return f"DROP COLUMN IF EXISTS e{self.number}"


class LinkedColumns:
    """The ALTERs that are still to be carried out, by cluster."""

    def __init__(self, random: Random, names: Sequence[str], source: str, *, links_carry: bool) -> None:
        """``source``: the only cluster whose clients write, or "". ``links_carry``: targets follow it by themselves."""
        self._random = random
        self._source = source
        self._links_carry = links_carry
        self._next = 1
        self._columns: list[int] = []
        self._pending: dict[str, list[Alteration]] = {name: [] for name in names}

    def next(self, name: str) -> Alteration | None:
        """Returns what the cluster is to be altered by next; ``None`` for nothing."""
        if not self._pending[name] and (not self._source or name == self._source):
            self._invent()
        return self.pending(name)

    def pending(self, name: str) -> Alteration | None:
        """Returns what the cluster lacks of what was begun."""
        return self._pending[name][0] if self._pending[name] else None

    def note_done(self, name: str, done: Alteration) -> None:
        """Records that an ALTER was acknowledged."""
        if self.pending(name) == done:
            self._pending[name].pop(0)

    def _invent(self) -> None:
        """Begins to add or to drop a column.

        A target by hand keeps what its source drops: changes from before the DROP may still come.
        """
        if self._source and self._columns and self._random.random() < 0.4:
            number = self._columns.pop(self._random.randrange(len(self._columns)))
            self._pending[self._source].append(Alteration("DROP", number))
        elif len(self._columns) < _MOST_COLUMNS:
            self._columns.append(self._next)
            for name in [self._source] if self._links_carry else self._pending:
                self._pending[name].append(Alteration("ADD", self._next))
            self._next += 1

    def require(self, name: str, found: Sequence[str]) -> None:
        """Checks the added columns of a cluster in which nothing is pending."""
        expected = {f"e{number}" for number in self._columns}
        is_free = bool(self._source) and name != self._source and not self._links_carry
        assert expected <= set(found) if is_free else expected == set(found), (
            f"{name} has the columns {sorted(found)}, and was to get {sorted(expected)}"
        )

    def begin_anew(self, name: str) -> None:
        """Notes that a cluster's table was made anew, without the added columns.

        Its source may still have every one that there was.
        """
        numbers = self._columns if self._links_carry else range(1, self._next)
        self._pending[name] = [Alteration("ADD", number) for number in numbers]
