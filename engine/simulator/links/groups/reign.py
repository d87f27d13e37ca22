"""One source of a group: its commits, and the rows that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordination.links.positions import Origin
from engine.simulator.links.groups.cut_history import Commit

PARTITIONS = 2
"""A key is in the partition that is its remainder."""
Place = tuple[str, int]
"""A table and a partition."""
Row = tuple[str, int]
"""A table and a key."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A mutation that deletes these keys of a table from the blocks below its numbers."""

    table: str
    numbers: Mapping[int, int]
    """By partition."""
    keys: frozenset[int]

    def has(self, row: Row, number: int) -> bool:
        """Tells whether it deletes the row of a block."""
        is_below = number < self.numbers.get(row[1] % PARTITIONS, 0)
        return row[0] == self.table and row[1] in self.keys and is_below


@dataclass(eq=False)
class Reign:
    """The time in which a cluster is the source. Its first commit is the state that it took over."""

    cluster: str
    origins: Mapping[str, Origin]
    """By table what its changes are made as."""
    began: int
    """The zxid of the fork."""
    parent: Reign | None = None
    """The source before; ``None`` for the first one."""
    fork: int = 0
    """The place in the parent's order up to which its commits count."""
    commits: list[Commit] = field(default_factory=list)
    numbers: dict[Row, int] = field(default_factory=dict)
    """The rows that are there, each with the number of its block."""
    drops: dict[Place, int] = field(default_factory=dict)
    """The number below which everything is dropped."""

    @classmethod
    def begin(
        cls, cluster: str, origins: Mapping[str, Origin], zxid: int, parent: Reign | None = None, fork: int = 0
    ) -> Reign:
        """Returns a reign that begins with what its parent had at the fork."""
        made = cls(cluster, origins, zxid, parent, fork)
        rows = parent.rows_at(fork) if parent is not None else []
        made.add(zxid, {}, dict.fromkeys(rows, 0), "the state that it took over")
        return made

    def add(
        self,
        zxid: int,
        drops: Mapping[Place, int],
        rows: Mapping[Row, int],
        name: str,
        deletions: Sequence[Deletion] = (),
    ) -> None:
        """Adds a commit that drops everything below the numbers of ``drops``, deletes rows, and adds rows."""
        removed: dict[str, list[int]] = {}
        for row, number in list(self.numbers.items()):
            if number < drops.get(_place_of(row), 0) or any(each.has(row, number) for each in deletions):
                del self.numbers[row]
                removed.setdefault(row[0], []).append(row[1])
        for place, number in drops.items():
            self.drops[place] = max(number, self.drops.get(place, 0))
        added: dict[str, list[int]] = {}
        for row, number in rows.items():
            if number >= self.drops.get(_place_of(row), 0):
                self.numbers[row] = number
                added.setdefault(row[0], []).append(row[1])
        self.commits.append(Commit(zxid, added, removed, name))

    def find_fork(self, ancestor: Reign) -> int | None:
        """Returns the place in an ancestor's order up to which its commits count; ``None`` for no ancestor."""
        reign: Reign | None = self
        while reign is not None and reign.parent is not ancestor:
            reign = reign.parent
        return reign.fork if reign is not None else None

    def list_lost(self, reign: Reign, place: int) -> list[Commit]:
        """Returns the commits that a follower of another reign, at a place in its order, has too many."""
        lost: list[Commit] = []
        while reign is not self:
            fork = self.find_fork(reign)
            if fork is not None:
                return [*lost, *(commit for commit in reign.commits if fork < commit.place <= place)]
            lost += [commit for commit in reign.commits[1:] if commit.place <= place]
            assert reign.parent is not None, "both descend from the first source"
            reign, place = reign.parent, reign.fork
        return lost

    def rows_at(self, place: int) -> list[Row]:
        """Returns the rows behind a place of the source's order, sorted."""
        rows: set[Row] = set()
        for commit in self.commits:
            if commit.place <= place:
                rows -= {(table, key) for table, keys in commit.removed.items() for key in keys}
                rows |= {(table, key) for table, keys in commit.added.items() for key in keys}
        return sorted(rows)


def _place_of(row: Row) -> Place:
    return row[0], row[1] % PARTITIONS
